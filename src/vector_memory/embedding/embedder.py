"""The interface of all embedding engines."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.description import Calibration
from vector_memory.embedding.token_states import States
from vector_memory.errors import EmbeddingUnavailableError

Vectors = NDArray[np.float32]

LENGTH_TOLERANCE = 0.01


class Encoded(NamedTuple):
    """Encoded texts, ready to be stored. `vectors`: as `Embedder.embed` returns them.

    `states`: for each text the states of its tokens (`token_states.packed`); None: the model has no useful ones.
    """

    vectors: Vectors
    states: Sequence[bytes] | None = None


class EncodedQuestion(NamedTuple):
    """A question, ready to be compared: a unit vector, and the states of its tokens, if any (`token_states`)."""

    vector: Vectors
    states: States | None = None


class Embedder(ABC):
    """Turns texts into unit vectors. Implementations are thread-safe.

    The methods that are not abstract suit models without token states that read questions like texts.
    """

    fingerprint: Fingerprint
    """Identifies comparable vectors."""

    tokens_per_vector: int
    """Maximum number of tokens for one vector, without special tokens."""

    has_states = False
    """Whether it returns the states of tokens."""

    @abstractmethod
    def token_spans(self, text: str) -> list[Span]:
        """Return the spans of the tokens of `text`, in order, as character offsets, without special tokens."""

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one L2-normalised float32 row per text, shape (len(texts), dimensions).

        A text's vector is the same, bit for bit, whatever other texts are in the call.
        """

    @abstractmethod
    def calibration_for(self, question: str) -> Calibration:
        """Return when a text is close to this question."""

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the vectors that `embed` returns, and the states of the texts' tokens."""
        return Encoded(self.embed(texts))

    def encode_query(self, text: str) -> EncodedQuestion:
        """Return the unit vector of a question, shape (dimensions,), and the states of its tokens."""
        return EncodedQuestion(self.embed([text])[0])


def require_unit_length(vectors: Vectors) -> Vectors:
    """Return the vectors, shape (texts, dimensions).

    Raises EmbeddingUnavailableError if one does not have length 1: its cosines would be wrong.
    """
    if (np.abs(np.einsum("ij,ij->i", vectors, vectors) - 1) < LENGTH_TOLERANCE).all():
        return vectors
    raise EmbeddingUnavailableError("The model gives vectors that are not numbers, or zero: its weights are damaged.")
