"""An embedder that says how much time is spent in it."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from timing import Clock

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding import Embedder, Vectors
from vector_memory.embedding.description import Calibration
from vector_memory.embedding.embedder import Encoded, EncodedQuestion

Value = TypeVar("Value")


class MeteredEmbedder:
    """The real engine with two clocks, in ms: `embedding` and `tokenizing`. For one thread at a time."""

    def __init__(self, engine: Embedder, clock: Clock = time.perf_counter) -> None:
        self._engine = engine
        self._clock = clock
        self.embedding = 0.0
        self.tokenizing = 0.0

    @property
    def fingerprint(self) -> Fingerprint:
        """The engine's own."""
        return self._engine.fingerprint

    @property
    def tokens_per_vector(self) -> int:
        """The engine's own."""
        return self._engine.tokens_per_vector

    @property
    def has_states(self) -> bool:
        """The engine's own."""
        return self._engine.has_states

    def token_spans(self, text: str) -> list[Span]:
        """Return the spans of the engine's tokens."""
        spans, took = self._clocked(lambda: self._engine.token_spans(text))
        self.tokenizing += took
        return spans

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the engine's vectors."""
        return self.encode(texts).vectors

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the engine's vectors and states of tokens."""
        encoded, took = self._clocked(lambda: self._engine.encode(texts))
        self.embedding += took
        return encoded

    def encode_query(self, text: str) -> EncodedQuestion:
        """Return the engine's vector and states of a question."""
        encoded, took = self._clocked(lambda: self._engine.encode_query(text))
        self.embedding += took
        return encoded

    def calibration_for(self, question: str) -> Calibration:
        """Return the engine's."""
        return self._engine.calibration_for(question)

    def reset(self) -> None:
        """Set both clocks to zero."""
        self.embedding = self.tokenizing = 0.0

    def _clocked(self, action: Callable[[], Value]) -> tuple[Value, float]:
        """Return what an action returns, and the milliseconds it took."""
        begin = self._clock()
        value = action()
        return value, (self._clock() - begin) * 1000
