"""Vectors and token states kept in a file: embedding takes minutes, and those of a text never change."""

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding import Embedder, Vectors
from vector_memory.embedding.description import Calibration
from vector_memory.embedding.embedder import Encoded, EncodedQuestion

BATCH = 256


class CachedEmbedder:
    """An Embedder that asks another one only for texts it has not seen. For one process at a time."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        folder.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(folder / "texts.db", check_same_thread=False)
        self._file.execute("create table if not exists texts (key blob primary key, vector blob, states blob)")

    @property
    def fingerprint(self) -> Fingerprint:
        """The other one's."""
        return self._embedder.fingerprint

    @property
    def tokens_per_vector(self) -> int:
        """The other one's."""
        return self._embedder.tokens_per_vector

    @property
    def has_states(self) -> bool:
        """The other one's."""
        return self._embedder.has_states

    def token_spans(self, text: str) -> list[Span]:
        """Return the other one's."""
        return self._embedder.token_spans(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions)."""
        return self.encode(texts).vectors

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return what the other one returns."""
        keys = [hashlib.sha256(f"{self.fingerprint} {text}".encode()).digest() for text in texts]
        found = [self._row(key) for key in keys]
        unknown = {key: text for key, text, row in zip(keys, texts, found, strict=True) if row is None}
        names, missing = list(unknown), list(unknown.values())
        for start in range(0, len(missing), BATCH):
            part = slice(start, start + BATCH)
            vectors, states = self._embedder.encode(missing[part])
            blobs = [vector.tobytes() for vector in vectors]
            rows = zip(names[part], blobs, states or [None] * len(blobs), strict=True)
            self._file.executemany("insert into texts values (?, ?, ?)", rows)
            self._file.commit()
        rows = [row or self._row(key) or (b"", None) for key, row in zip(keys, found, strict=True)]
        vectors = np.frombuffer(b"".join(vector for vector, _ in rows), np.float32)
        states = [each for _, each in rows if each is not None]
        complete = len(states) == len(rows)
        return Encoded(vectors.reshape(-1, self.fingerprint.dimensions), states if complete else None)

    def encode_query(self, text: str) -> EncodedQuestion:
        """Return what the other one returns."""
        return self._embedder.encode_query(text)

    def calibration_for(self, question: str) -> Calibration:
        """Return the other one's."""
        return self._embedder.calibration_for(question)

    def _row(self, key: bytes) -> tuple[bytes, bytes | None] | None:
        row: tuple[bytes, bytes | None] | None = self._file.execute(
            "select vector, states from texts where key = ?", (key,)
        ).fetchone()
        return row
