"""An embedder that says how much time is spent in it."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from timing import Clock, timed

from vector_memory.embedding import Embedder

CLOCKS = {"embed": "embedding", "encode": "embedding", "encode_query": "embedding", "token_spans": "tokenizing"}
"""The clock of each method; everything else is the engine's own."""


class MeteredEmbedder:
    """The real engine with clocks, in ms: `embedding`, `tokenizing`, and others (`linking`). For one thread."""

    def __init__(self, engine: Embedder, clock: Clock = time.perf_counter) -> None:
        self._engine = engine
        self._clock = clock
        self.reset()

    def __getattr__(self, name: str) -> Any:
        """Return what the engine has, its methods with a clock."""
        found = getattr(self._engine, name)
        return partial(self.clocked, CLOCKS[name], found) if name in CLOCKS else found

    def reset(self) -> None:
        """Set all clocks to zero."""
        self.embedding = self.tokenizing = self.linking = 0.0
        self.tokenizer_calls = 0

    def beyond_embedding(self, action: Callable[[], object]) -> float:
        """Return the milliseconds that an action takes besides embedding and tokenizing."""
        self.reset()
        return timed(action, self._clock) - self.embedding - self.tokenizing

    def clocked(self, name: str, method: Callable[..., Any], *arguments: object, **named: object) -> Any:
        """Return what a method returns, and add the milliseconds it takes to a clock."""
        self.tokenizer_calls += name == "tokenizing"
        begin = self._clock()
        value = method(*arguments, **named)
        setattr(self, name, getattr(self, name) + (self._clock() - begin) * 1000)
        return value
