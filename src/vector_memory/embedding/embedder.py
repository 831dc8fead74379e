"""The one interface every embedding engine has."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint, Span

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors. Implementations are safe to call from several threads at once."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors of this engine are comparable with."""
        ...

    @property
    def max_pieces(self) -> int:
        """The number of word pieces of a text that one vector should stand for, special tokens not counted."""
        ...

    def piece_spans(self, text: str) -> list[Span]:
        """Where each word piece of `text` stands, in order: character offsets, special tokens left out, nothing cut."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one L2-normalised float32 row per text, shape (len(texts), dimensions).

        A text's vector does not depend, in any bit, on the other texts of the call.
        """
        ...
