"""Vectors kept in a folder: embedding takes minutes, and a text's vector never changes."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding import Embedder, Vectors
from vector_memory.embedding.calibration import Calibration

KEY_BYTES = 32
BATCH = 256


class CachedEmbedder:
    """An Embedder that asks another one only for texts it has not seen. For one process and one thread at a time.

    `keys` holds the SHA-256 of every text, `vectors` the float32 rows in the same order; both only grow.
    """

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        folder.mkdir(parents=True, exist_ok=True)
        self._keys_file, self._vectors_file = folder / "keys", folder / "vectors"
        self._rows: dict[bytes, Vectors] = self._read()

    @property
    def fingerprint(self) -> Fingerprint:
        """The other one's."""
        return self._embedder.fingerprint

    @property
    def tokens_per_vector(self) -> int:
        """The other one's."""
        return self._embedder.tokens_per_vector

    def token_spans(self, text: str) -> list[Span]:
        """Return the other one's."""
        return self._embedder.token_spans(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions)."""
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._rows}
        names, unknown = list(missing), list(missing.values())
        for start in range(0, len(unknown), BATCH):
            self._add(names[start : start + BATCH], self._embedder.embed(unknown[start : start + BATCH]))
        return np.array([self._rows[key] for key in keys], np.float32).reshape(-1, self.fingerprint.dimensions)

    def embed_query(self, text: str) -> Vectors:
        """Return the other one's unit vector of a question."""
        return self._embedder.embed_query(text)

    def calibration_for(self, question: str) -> Calibration:
        """Return the other one's."""
        return self._embedder.calibration_for(question)

    def _read(self) -> dict[bytes, Vectors]:
        if not self._keys_file.exists():
            return {}
        keys = self._keys_file.read_bytes()
        names = [keys[start : start + KEY_BYTES] for start in range(0, len(keys), KEY_BYTES)]
        rows = np.fromfile(self._vectors_file, np.float32).reshape(-1, self.fingerprint.dimensions)
        return dict(zip(names, rows, strict=False))  # a run that was stopped may have left one half longer

    def _add(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        self._rows.update(zip(keys, vectors, strict=True))
        for file, data in ((self._vectors_file, vectors.tobytes()), (self._keys_file, b"".join(keys))):
            with file.open("ab") as end:
                end.write(data)
