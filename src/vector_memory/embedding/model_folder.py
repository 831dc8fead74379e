"""A folder with the files of a model. It is data: nothing in it is run, and every size is checked before it is used."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vector_memory.domain.user_files import opened, read_file
from vector_memory.embedding.description import Description
from vector_memory.errors import EmbeddingUnavailableError

CONFIG_FILE = "config.json"
MAX_CONFIG_BYTES = 1_000_000

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
    if not file.is_file() or file.stat().st_size > MAX_CONFIG_BYTES:
        raise EmbeddingUnavailableError(f"The model's folder has no usable {CONFIG_FILE}: download the model again.")
    try:
        config = json.loads(read_file(file))
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


MODEL_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
ONNX_FILES = ("model.onnx", "onnx/model.onnx")
BIAS_FILE = "language-bias.safetensors"
MAX_BYTES = {MODEL_FILE: 2_000_000_000, TOKENIZER_FILE: 64_000_000, BIAS_FILE: 16_000_000} | dict.fromkeys(
    ONNX_FILES, 2_000_000_000
)
DIGEST_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """A model on this machine. `source`: where it is, for the user. `remedy`: what to do about a wrong file.

    `sha256`: of the files, by their names, if only the official ones are accepted. `size`: if no config.json is needed.
    `bias_file`: what is taken out of its vectors (see `language_bias`), in the folder or elsewhere; None: nothing.
    """

    description: Description
    folder: Path
    source: str
    remedy: str
    sha256: Mapping[str, str] = field(default_factory=dict)
    size: Architecture | None = None
    bias_file: Path | None = None

    def file(self, name: str) -> Path:
        """Return the real path of a file: the Hugging Face cache consists of symlinks, which ONNX Runtime refuses."""
        elsewhere = self.bias_file if name == BIAS_FILE else None
        return Path(os.path.realpath(elsewhere or self.folder / name))

    @property
    def weights_file(self) -> str | None:
        """The name of the file with the weights; None: there is none."""
        return next(filter(self._has, (MODEL_FILE, *ONNX_FILES)), None)

    @property
    def is_complete(self) -> bool:
        """Whether every required file exists; their content is not checked."""
        weights = self.weights_file
        needs_config = self.size is None and weights == MODEL_FILE
        needed = (*self.sha256, TOKENIZER_FILE, *(("config.json",) if needs_config else ()))
        return weights is not None and all(map(self._has, needed))

    def _has(self, name: str) -> bool:
        return os.path.isfile(self.folder / name)  # noqa: PTH113 - Path.is_file raises if the folder is closed to the user

    def architecture(self) -> Architecture:
        """Return the size of the encoder. Raises EmbeddingUnavailableError if config.json is missing or not valid."""
        return self.size or read_architecture(self.folder)

    def verify(self, name: str) -> str:
        """Return the SHA-256 of a file. Raises EmbeddingUnavailableError if it is too large or not the official one."""
        file = self.file(name)
        if file.stat().st_size > MAX_BYTES[name]:
            raise self.unusable(name, f"is larger than {MAX_BYTES[name] // 1_000_000:,} MB")
        try:
            found = digest_of(file)
        except OSError as error:
            raise EmbeddingUnavailableError(f"{name} in {self.source} cannot be read ({error.strerror}).") from error
        if found != self.sha256.get(name, found):
            raise self.unusable(name, "is not the official file")
        return found

    def unusable(self, name: str, problem: str) -> EmbeddingUnavailableError:
        """Return the error for a file of the model. `problem`: what is wrong with it, as the end of a sentence."""
        return EmbeddingUnavailableError(f"{name} in {self.source} {problem}. {self.remedy}")

    def identity(self, digests: Mapping[str, str]) -> str:
        """Return the name that vectors are stored with: another one if anything differs that they depend on.

        `digests`: of the files, as `verify` returns them.
        """
        if self.sha256 and BIAS_FILE not in digests:
            return self.description.name
        told = self.description
        parts = [told.pooling, told.query_prefix, told.passage_prefix, told.tokens, sorted(digests.items())]
        if MODEL_FILE in digests:
            parts.append(repr(self.architecture()))
        return f"{told.name}@{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_LENGTH]}"


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file (0.05-0.1 s for 90 MB)."""
    # The file is read, not mapped: a mapped file would count towards the resident memory of the process.
    with opened(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
