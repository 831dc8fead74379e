"""The engine for all other models: sentence-transformers and torch, an optional extra."""

import itertools
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.description import UNKNOWN, Calibration
from vector_memory.embedding.embedder import Embedder, Vectors, require_unit_length
from vector_memory.errors import EmbeddingUnavailableError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

ORGANISATION = "sentence-transformers"
# The limit for models that do not declare one.
DEFAULT_TOKENS = 510


class SentenceTransformersEngine(Embedder):
    """Computes vectors with a model from the Hugging Face cache or a folder; uses a GPU if torch finds one."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        """Load the model `name`, from `folder` if given; never uses the network.

        Raises EmbeddingUnavailableError if the extra or the model is missing, or the model cannot be used.
        """
        self._one_at_a_time = threading.Lock()  # every call modifies the tokenizer, which threads cannot share
        self._model = _load(name, folder)
        self._tokenizer = _own_tokenizer(name, self._model)
        dimensions = self._model.encode("", show_progress_bar=False).shape[-1]
        precision = str(next(self._model.parameters()).dtype).removeprefix("torch.").replace("float", "fp")
        self.fingerprint = Fingerprint(name.removeprefix(f"{ORGANISATION}/"), dimensions, precision, ORGANISATION)
        special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self.tokens_per_vector = (self._model.max_seq_length or DEFAULT_TOKENS + special) - special

    def token_spans(self, text: str) -> list[Span]:
        """Return the spans of the tokens, in characters."""
        return list(itertools.starmap(Span, self._tokenizer.encode_batch([text], add_special_tokens=False)[0].offsets))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions)."""
        if not texts:
            return np.empty((0, self.fingerprint.dimensions), np.float32)
        # One text per call: padding in a larger batch would make the last bits of a vector depend on its neighbours.
        with self._one_at_a_time:
            vectors = self._model.encode(list(texts), batch_size=1, normalize_embeddings=True, show_progress_bar=False)
        return require_unit_length(np.asarray(vectors, np.float32))

    def calibration_for(self, question: str) -> Calibration:  # noqa: ARG002 - the same for all
        """Return when a text is close to a question."""
        return UNKNOWN


def _load(name: str, folder: Path | None) -> "SentenceTransformer":
    # The hub client reads this on import. With local_files_only alone it still contacts the hub for other files.
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - takes seconds, and is optional
    except ImportError:
        raise EmbeddingUnavailableError(
            f"VECTOR_MEMORY_EMBEDDING_MODEL={name} needs sentence-transformers. Run `uv sync --extra "
            f"sentence-transformers` in a clone, or `pip install sentence-transformers` in the environment of "
            f"vector-memory."
        ) from None
    try:
        return SentenceTransformer(str(folder) if folder else name, local_files_only=True)
    except (OSError, ValueError) as error:
        raise EmbeddingUnavailableError(_not_here(name, folder)) from error


def _not_here(name: str, folder: Path | None) -> str:
    if folder:
        return f"VECTOR_MEMORY_EMBEDDING_MODEL_PATH ({folder}) contains no model that sentence-transformers can load."
    repository = name if "/" in name else f"{ORGANISATION}/{name}"
    return (
        f"VECTOR_MEMORY_EMBEDDING_MODEL={name} is not on this machine, and the server never downloads anything. Run "
        f"`hf download {repository}` once, or set VECTOR_MEMORY_EMBEDDING_MODEL_PATH to the model's folder."
    )


def _own_tokenizer(name: str, model: "SentenceTransformer") -> Tokenizer:
    """Return a copy of the model's tokenizer without truncation."""
    backend: Any = getattr(model.tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise EmbeddingUnavailableError(
            f"The tokenizer of the model {name} does not report the positions of tokens: choose another "
            "VECTOR_MEMORY_EMBEDDING_MODEL."
        )
    tokenizer = Tokenizer.from_str(backend.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
