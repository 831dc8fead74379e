"""Measures how long searches take, and logs slow ones."""

import contextlib
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Self

import numpy as np

from vector_memory.answers.overview import SearchStatistics

logger = logging.getLogger(__name__)

MAX_LATENCIES = 1000
"""Number of latest searches that percentiles are computed from."""

MOST_VIEWS = 256
"""Limited views whose searches are counted at a time. Beyond that, the one used least recently starts again at 0."""


class SearchTimer:
    """Times searches; thread-safe. `slow_threshold` is in seconds.

    `whole`: a timer that also counts these searches.
    """

    def __init__(self, slow_threshold: float, whole: Self | None = None) -> None:
        self._slow_threshold = slow_threshold
        self._whole = whole
        self._limited = lru_cache(MOST_VIEWS)(lambda _sessions: type(self)(slow_threshold, self))
        self._lock = threading.Lock()
        self._latest: deque[float] = deque(maxlen=MAX_LATENCIES)
        self._by_type: Counter[str] = Counter()
        self._slow = 0

    @contextlib.contextmanager
    def time(self, search_type: str) -> Iterator[None]:
        """Time the block as one search of that type, for example `search_fine_report`. Failed searches do not count."""
        start = time.perf_counter()
        yield
        elapsed = time.perf_counter() - start
        self.count(search_type, elapsed)
        if elapsed > self._slow_threshold:
            logger.warning("Slow search: %s took %.3f s", search_type, elapsed)

    def limited_to(self, names: Collection[str]) -> Self:
        """Return the timer for searches limited to these sessions."""
        return self._limited(frozenset(names))

    def count(self, search_type: str, elapsed: float) -> None:
        """Count a search that took `elapsed` seconds."""
        with self._lock:
            self._latest.append(elapsed)
            self._by_type[search_type] += 1
            self._slow += elapsed > self._slow_threshold
        if self._whole is not None:
            self._whole.count(search_type, elapsed)

    def statistics(self) -> SearchStatistics:
        """Return percentiles over the latest 1,000 searches, and counts over all of them."""
        with self._lock:
            times, by_type, slow = list(self._latest), dict(self._by_type), self._slow
        p50, p95, p99 = np.percentile(times, (50, 95, 99)).tolist() if times else (0.0, 0.0, 0.0)
        total = sum(by_type.values())
        return SearchStatistics(
            total_queries=total,
            p50_time=p50,
            p95_time=p95,
            p99_time=p99,
            slow_queries=slow,
            slow_query_rate=slow / total if total else 0.0,
            slow_query_threshold=self._slow_threshold,
            by_type=by_type,
        )
