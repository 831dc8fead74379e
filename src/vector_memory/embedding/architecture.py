"""The size of an encoder, as the `config.json` of its folder says it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vector_memory.errors import EmbeddingUnavailableError

CONFIG_FILE = "config.json"
MAX_BYTES = 1_000_000

ROBERTA = ("roberta", "xlm-roberta", "camembert")
"""Families whose positions begin after the number of the padding token."""

LIMITS = {
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "hidden_size": 4_096,
    "intermediate_size": 16_384,
    "vocab_size": 2_000_000,
    "max_position_embeddings": 8_200,
}
"""The largest encoder that is built; a wrong file must not use up the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The size of an encoder. `first_position`: of the first token; XLM-RoBERTa counts from 2."""

    layers: int
    heads: int
    width: int
    inner_width: int
    vocabulary: int
    positions: int
    first_position: int = 0
    epsilon: float = 1e-12

    @property
    def longest(self) -> int:
        """Maximum number of tokens of a text, including the two special ones."""
        return self.positions - self.first_position


def read_architecture(folder: Path) -> Architecture:
    """Return the size of the encoder in a folder.

    Raises EmbeddingUnavailableError if it is of another family, or its config.json is missing or not valid.
    """
    file = folder / CONFIG_FILE
    if not file.is_file() or file.stat().st_size > MAX_BYTES:
        raise EmbeddingUnavailableError(f"The model's folder has no usable {CONFIG_FILE}: download the model again.")
    try:
        config = json.loads(file.read_bytes())
        return _architecture(config if isinstance(config, dict) else {})
    except OSError as error:
        raise EmbeddingUnavailableError(f"{CONFIG_FILE} in the model's folder cannot be read.") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise EmbeddingUnavailableError(f"{CONFIG_FILE} in the model's folder is not usable: {error}.") from None


def _architecture(config: Mapping[str, Any]) -> Architecture:
    family = config.get("model_type")
    if family not in ("bert", *ROBERTA):
        raise ValueError("model_type must be bert, roberta, xlm-roberta or camembert")
    for key, expected in {"hidden_act": "gelu", "position_embedding_type": "absolute"}.items():
        if config.get(key, expected) != expected:
            raise ValueError(f"{key} must be {expected}")
    sizes = {key: _count(config, key, limit) for key, limit in LIMITS.items()}
    heads, width = sizes["num_attention_heads"], sizes["hidden_size"]
    if width % heads:
        raise ValueError("hidden_size must be a multiple of num_attention_heads")
    positions = sizes["max_position_embeddings"]
    padding = config.get("pad_token_id", 1)
    if family in ROBERTA and (type(padding) is not int or not 0 <= padding < positions - 3):
        raise ValueError("pad_token_id must be a number below max_position_embeddings")
    first = padding + 1 if family in ROBERTA else 0
    epsilon = float(config.get("layer_norm_eps", 1e-12))
    if not 0 < epsilon < 1:
        raise ValueError("layer_norm_eps must be a number from 0 to 1")
    return Architecture(
        layers=sizes["num_hidden_layers"], heads=heads, width=width, inner_width=sizes["intermediate_size"],
        vocabulary=sizes["vocab_size"], positions=positions, first_position=first,
        epsilon=epsilon,
    )  # fmt: skip


def _count(config: Mapping[str, Any], key: str, limit: int) -> int:
    number = config.get(key)
    if type(number) is not int or not 1 <= number <= limit:
        raise ValueError(f"{key} must be a number from 1 to {limit:,}")
    return number
