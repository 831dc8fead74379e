"""A toy engine for tests: no weights, the same vectors on every machine, similar vectors for similar texts.

It hashes word stems into a fixed number of dimensions (the hashing trick: Weinberger et al., 2009, arXiv:0902.2206).
Set VECTOR_MEMORY_EMBEDDING_MODEL=toy to try a configuration without a model. It compares words, not meaning.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence

import numpy as np

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.embedder import Vectors

PIECE = re.compile(r"\w{1,8}|[^\w\s]")
WORD = re.compile(r"\w+")
ENDING = re.compile(r"(?<=\w{3})(?:ings?|ed|es|e|s|ly)$")
# Like the real model, it reads twice as much as one vector should represent, and no more.
MAX_PIECES = 126
READ_PIECES = 254


class ToyEngine:
    """Bag of hashed word stems as a unit vector; thread-safe."""

    max_pieces = MAX_PIECES

    def __init__(self, dimensions: int = 384) -> None:
        self.fingerprint = Fingerprint("toy", dimensions, "fp32", "toy")

    def piece_spans(self, text: str) -> list[Span]:
        """Return the spans of pieces: up to eight letters of a word, or one other character that is not a space."""
        return [Span(*match.span()) for match in PIECE.finditer(text)]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions)."""
        counts = np.zeros((len(texts), self.fingerprint.dimensions))
        for row, text in zip(counts, texts, strict=True):
            for stem in self._stems(text):
                place, sign = _place(stem, len(row))
                row[place] += sign
            row[0] += not row.any()  # a text without words needs a direction, too
        # Sums of squares of integers are exact in 64 bits, so they are the same on every machine.
        vectors: Vectors = (counts / np.sqrt(np.square(counts).sum(axis=1, keepdims=True))).astype(np.float32)
        return vectors

    def _stems(self, text: str) -> Iterator[str]:
        spans = self.piece_spans(text)[:READ_PIECES]
        for word in WORD.findall(text[: spans[-1].end] if spans else ""):
            yield ENDING.sub("", word.casefold())


def _place(stem: str, dimensions: int) -> tuple[int, int]:
    """Return the dimension of a stem and its sign there."""
    number = int.from_bytes(hashlib.blake2b(stem.encode(), digest_size=8).digest(), "little")
    return (number >> 1) % dimensions, 1 if number & 1 else -1
