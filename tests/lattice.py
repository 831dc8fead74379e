"""An embedder whose arithmetic is exact, so that a test can demand the very order of a brute-force scan.

A text's vector has four entries of +-0.5 among sixteen: unit length without rounding, distances that are square roots
of whole numbers, and plenty of ties. A word is a word piece.
"""

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.description import UNKNOWN, Calibration
from vector_memory.embedding.embedder import Embedder, Vectors

DIMENSIONS = 16


class LatticeEmbedder(Embedder):
    """See the module."""

    fingerprint = Fingerprint("lattice", DIMENSIONS, "exact", "test")
    tokens_per_vector = 4

    def token_spans(self, text: str) -> list[Span]:
        """Return the words."""
        return [Span(*match.span()) for match in re.finditer(r"\S+", text)]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text."""
        return np.array([self.vector(text) for text in texts], dtype=np.float32).reshape(len(texts), DIMENSIONS)

    def calibration_for(self, question: str) -> Calibration:  # noqa: ARG002 - the same for all
        """Return when an answer is close."""
        return UNKNOWN

    @staticmethod
    def vector(text: str) -> list[float]:
        """Return a text's vector."""
        digest = hashlib.sha256(text.encode()).digest()
        places: list[int] = []
        for byte in digest:
            if byte % DIMENSIONS not in places:
                places.append(byte % DIMENSIONS)
        vector = [0.0] * DIMENSIONS
        for place, byte in zip(places[:4], digest[16:], strict=False):
            vector[place] = 0.5 if byte % 2 else -0.5
        return vector
