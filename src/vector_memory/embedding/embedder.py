"""The interface of all embedding engines."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.description import Calibration
from vector_memory.embedding.token_states import States

Vectors = NDArray[np.float32]


class Encoded(NamedTuple):
    """Texts as they are stored. `vectors`: as `Embedder.embed` returns them.

    `states`: for each text the states of its tokens (`token_states.packed`); None: the model has none worth comparing.
    """

    vectors: Vectors
    states: Sequence[bytes] | None = None


class EncodedQuestion(NamedTuple):
    """A question as it is compared: a unit vector, and the states of its tokens, if any (`token_states`)."""

    vector: Vectors
    states: States | None = None


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

    @property
    def has_states(self) -> bool:
        """Whether it returns the states of tokens."""
        ...

    def token_spans(self, text: str) -> list[Span]:
        """Return the spans of the tokens of `text`, in order, as character offsets, without special tokens."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one L2-normalised float32 row per text, shape (len(texts), dimensions).

        A text's vector is the same, bit for bit, whatever other texts are in the call.
        """
        ...

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the vectors that `embed` returns, and the states of the texts' tokens."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (dimensions,): some models read questions differently."""
        ...

    def encode_query(self, text: str) -> EncodedQuestion:
        """Return the vector that `embed_query` returns, and the states of the question's tokens."""
        ...

    def calibration_for(self, question: str) -> Calibration:
        """Return how near the best passage must be to be on the topic of this question."""
        ...


class PlainEmbedder(ABC):
    """The part of an Embedder that is the same for all that read questions as they read texts, without token states."""

    has_states = False

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one L2-normalised float32 row per text, shape (len(texts), dimensions)."""

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the vectors of texts."""
        return Encoded(self.embed(texts))

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (dimensions,)."""
        vector: Vectors = self.embed([text])[0]
        return vector

    def encode_query(self, text: str) -> EncodedQuestion:
        """Return the vector of a question."""
        return EncodedQuestion(self.embed_query(text))
