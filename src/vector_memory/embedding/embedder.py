"""The interface of all embedding engines."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.calibration import Calibration

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors. Implementations are thread-safe."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors of this engine are comparable with."""
        ...

    @property
    def tokens_per_vector(self) -> int:
        """Maximum number of tokens that one vector should represent, without special tokens."""
        ...

    def token_spans(self, text: str) -> list[Span]:
        """Return the spans of the tokens of `text`, in order, as character offsets, without special tokens."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one L2-normalised float32 row per text, shape (len(texts), dimensions).

        A text's vector is the same, bit for bit, whatever other texts are in the call.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (dimensions,): some models read questions differently."""
        ...

    def calibration_for(self, question: str) -> Calibration:
        """Return how near the best passage must be to be on the topic of this question."""
        ...
