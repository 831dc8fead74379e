"""The second engine: any other model, through sentence-transformers and torch, which are an extra."""

import itertools
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.embedder import Vectors
from vector_memory.errors import EmbeddingUnavailableError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

ORGANISATION = "sentence-transformers"
# What models that do not say how much they read are given.
USUAL_PIECES = 510


class SentenceTransformersEngine:
    """Computes vectors with a model of the Hugging Face cache or of a folder; a GPU is used if torch finds one."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        """Load the model `name`, from `folder` if given; never from the network.

        Raises EmbeddingUnavailableError if the extra or the model is missing, or the model cannot be used.
        """
        self._one_at_a_time = threading.Lock()  # its tokenizer is changed by every call and breaks when shared
        self._model = _load(name, folder)
        self._tokenizer = _own_tokenizer(name, self._model)
        dimensions = self._model.encode("", show_progress_bar=False).shape[-1]
        precision = str(next(self._model.parameters()).dtype).removeprefix("torch.").replace("float", "fp")
        self.fingerprint = Fingerprint(name.removeprefix(f"{ORGANISATION}/"), dimensions, precision, ORGANISATION)
        special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self.max_pieces = (self._model.max_seq_length or USUAL_PIECES + special) - special

    def piece_spans(self, text: str) -> list[Span]:
        """Where each word piece stands, in characters."""
        return list(itertools.starmap(Span, self._tokenizer.encode_batch([text], add_special_tokens=False)[0].offsets))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions)."""
        if not texts:
            return np.empty((0, self.fingerprint.dimensions), np.float32)
        # One text a call: in a larger batch padding would make a vector depend, in its last bits, on its neighbours.
        with self._one_at_a_time:
            vectors = self._model.encode(list(texts), batch_size=1, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32)


def _load(name: str, folder: Path | None) -> "SentenceTransformer":
    # The hub's client reads it when it is imported. With local_files_only alone it still asks the hub for other things.
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - takes seconds, and is an extra
    except ImportError:
        raise EmbeddingUnavailableError(
            f"VECTOR_MEMORY_EMBEDDING_MODEL={name} needs sentence-transformers. Install it with `pip install "
            f"'vector-memory[sentence-transformers]'` (in a clone: `uv sync --extra sentence-transformers`)."
        ) from None
    try:
        return SentenceTransformer(str(folder.expanduser()) if folder else name, local_files_only=True)
    except (OSError, ValueError) as error:
        raise EmbeddingUnavailableError(_not_here(name, folder)) from error


def _not_here(name: str, folder: Path | None) -> str:
    if folder:
        return (
            f"VECTOR_MEMORY_EMBEDDING_MODEL_PATH ({folder}) does not hold a model that sentence-transformers can load."
        )
    repository = name if "/" in name else f"{ORGANISATION}/{name}"
    return (
        f"VECTOR_MEMORY_EMBEDDING_MODEL={name} is not on this machine, and nothing is downloaded while serving. Run "
        f"`hf download {repository}` once, or set VECTOR_MEMORY_EMBEDDING_MODEL_PATH to the model's folder."
    )


def _own_tokenizer(name: str, model: "SentenceTransformer") -> Tokenizer:
    """Return a copy of the model's tokenizer that cuts nothing off."""
    backend: Any = getattr(model.tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise EmbeddingUnavailableError(
            f"The model {name} has no tokenizer that tells where word pieces stand: choose another "
            "VECTOR_MEMORY_EMBEDDING_MODEL."
        )
    tokenizer = Tokenizer.from_str(backend.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
