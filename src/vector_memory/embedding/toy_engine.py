"""A toy engine for tests: no weights, the same vectors on every machine, similar vectors for similar texts.

It hashes word stems into a fixed number of dimensions (the hashing trick: Weinberger et al., 2009, arXiv:0902.2206).
Set VECTOR_MEMORY_EMBEDDING_MODEL=toy to try a configuration without a model. It compares words, not meaning.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence

import numpy as np

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.description import UNKNOWN, Calibration
from vector_memory.embedding.embedder import Embedder, Vectors

TOKEN = re.compile(r"\w{1,8}|[^\w\s]")
WORD = re.compile(r"\w+")
ENDING = re.compile(r"(?<=\w{3})(?:ings?|ed|es|e|s|ly)$")
# As with the real model, it reads at most twice as much as one vector should represent.
TOKENS_PER_VECTOR = 126
READ_TOKENS = 254


class ToyEngine(Embedder):
    """Bag of hashed word stems as a unit vector; thread-safe."""

    tokens_per_vector = TOKENS_PER_VECTOR

    def __init__(self, dimensions: int = 384) -> None:
        self.fingerprint = Fingerprint("toy", dimensions, "fp32", "toy")

    def token_spans(self, text: str) -> list[Span]:
        """Return the spans of the tokens: up to eight letters of a word, or one other character except white space."""
        return [Span(*match.span()) for match in TOKEN.finditer(text)]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions)."""
        counts = np.zeros((len(texts), self.fingerprint.dimensions))
        for row, text in zip(counts, texts, strict=True):
            for stem in self._stems(text):
                dimension, sign = _dimension(stem, len(row))
                row[dimension] += sign
            row[0] += not row.any()  # a text without words also needs a direction
        # Sums of squares of integers are exact in 64 bits, so they are the same on every machine.
        vectors: Vectors = (counts / np.sqrt(np.square(counts).sum(axis=1, keepdims=True))).astype(np.float32)
        return vectors

    def calibration_for(self, question: str) -> Calibration:  # noqa: ARG002 - the same for all
        """Return when a text is close to a question."""
        return UNKNOWN

    def _stems(self, text: str) -> Iterator[str]:
        spans = self.token_spans(text)[:READ_TOKENS]
        for word in WORD.findall(text[: spans[-1].end] if spans else ""):
            yield ENDING.sub("", word.casefold())


def _dimension(stem: str, dimensions: int) -> tuple[int, int]:
    """Hash a stem to a dimension and a sign."""
    number = int.from_bytes(hashlib.blake2b(stem.encode(), digest_size=8).digest(), "little")
    return (number >> 1) % dimensions, 1 if number & 1 else -1
