"""Figures about the running server, in the text format of Prometheus."""

import resource
import sys
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from vector_memory.errors import DatabaseError
from vector_memory.tenancy.namespaces import Namespaces

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the latencies that are counted together, in seconds."""

KILOBYTE = 1 if sys.platform == "darwin" else 1024
"""The unit in which the system reports memory."""


class Metrics:
    """Counts calls and their latencies; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._latencies: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._running = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count a call as running during the block: it is worked on, or waits for a turn."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def count_call(self, tool: str, seconds: float, *, error: str | None) -> None:
        """Count a call. `tool` must be the name of a tool, so that strangers cannot add names without end."""
        with self._lock:
            self._calls[tool, error or ""] += 1
            self._latencies[tool][bisect_left(BUCKETS, seconds)] += 1
            self._seconds[tool] += seconds

    def as_text(self, namespaces: Namespaces) -> str:
        """Return all figures."""
        with self._lock:
            lines = [*self._of_calls(), *self._of_latencies()]
        lines += of_process()
        lines += of_namespaces(namespaces)
        return "\n".join(lines) + "\n"

    def _of_calls(self) -> Iterator[str]:
        yield from described("running_calls", "gauge", "Calls that are worked on, or wait for a turn.")
        yield f"vector_memory_running_calls {self._running}"
        yield from described("calls_total", "counter", "Calls by tool and error; no error: success.")
        for (tool, error), count in sorted(self._calls.items()):
            yield f'vector_memory_calls_total{{tool="{tool}",error="{error}"}} {count}'

    def _of_latencies(self) -> Iterator[str]:
        name = "call_seconds"
        yield from described(name, "histogram", "Latency by tool.")
        for tool, counts in sorted(self._latencies.items()):
            total = 0
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += count
                yield f'vector_memory_{name}_bucket{{tool="{tool}",le="{bound}"}} {total}'
            yield f'vector_memory_{name}_sum{{tool="{tool}"}} {self._seconds[tool]:.6f}'
            yield f'vector_memory_{name}_count{{tool="{tool}"}} {total}'


def of_process() -> Iterator[str]:
    """Yield the memory that the process has taken at most."""
    yield from described("peak_memory_bytes", "gauge", "Largest resident memory of the process.")
    yield f"vector_memory_peak_memory_bytes {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE}"


def of_namespaces(namespaces: Namespaces) -> Iterator[str]:
    """Yield the size and backlog of each namespace, and whether the model is loaded."""
    yield from described("model_loaded", "gauge", "1 while the embedding model is loaded.")
    yield f"vector_memory_model_loaded {int(namespaces.has_model)}"
    yield from described("open_namespaces", "gauge", "Namespaces that are open in this process.")
    yield f"vector_memory_open_namespaces {namespaces.open_count}"
    name = "pending_vectors"
    yield from described(name, "gauge", "Memories whose vectors are being computed, in open namespaces.")
    for namespace, count in namespaces.count_pending().items():
        yield f'vector_memory_{name}{{namespace="{namespace}"}} {count}'
    try:
        sizes = {name: namespaces.registry.sizes(name) for name in namespaces.registry.names()}
    except DatabaseError:  # readiness says so; the other figures are needed all the same
        return
    for name, meaning in (("database_bytes", "Size of the database."), ("log_bytes", "Size of its write-ahead log.")):
        yield from described(name, "gauge", meaning)
        for namespace, size in sizes.items():
            yield f'vector_memory_{name}{{namespace="{namespace}"}} {getattr(size, name)}'


def described(name: str, kind: str, meaning: str) -> Iterator[str]:
    """Yield the lines that introduce a figure."""
    yield f"# HELP vector_memory_{name} {meaning}"
    yield f"# TYPE vector_memory_{name} {kind}"
