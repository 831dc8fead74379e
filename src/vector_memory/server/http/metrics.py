"""Readiness, and figures about the running server in the text format of Prometheus.

Both need a token with the scope admin that is not limited to sessions: figures name all namespaces.
"""

import os
import resource
import struct
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import accumulate
from mmap import mmap
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.authentication import requires
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from vector_memory.errors import DatabaseError, VectorMemoryError
from vector_memory.server.current_store import current_caller
from vector_memory.tenancy.namespaces import Namespaces
from vector_memory.tenancy.tokens import Permission

READINESS = "/readyz"
METRICS = "/metrics"

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the latencies that are counted together, in seconds."""

CANCELLED = "Cancelled"
"""The error of a call whose client has not waited for the answer."""


def codes_of(family: type[VectorMemoryError]) -> set[str]:
    """Return the codes of a family of errors."""
    return {family.code}.union(*map(codes_of, family.__subclasses__()))


ERRORS = (None, CANCELLED, *sorted(codes_of(VectorMemoryError)))
"""How a call may end."""

RUNNING = 0
"""The first cell of a row: calls that are running. For each tool follow CELLS: errors, buckets, seconds."""

CELLS = len(ERRORS) + len(BUCKETS) + 1 + 1

KILOBYTE = 1 if sys.platform == "darwin" else 1024
"""The unit in which the system reports memory."""


class Share(NamedTuple):
    """A file with a row of figures for each of several workers, and which row is whose. `file`: its descriptor."""

    file: int | None = None
    row: int = 0
    rows: int = 1


ALONE = Share()


class Metrics:
    """Counts calls and their latencies, together with the other workers'; thread-safe.

    Each process writes its own row, so that none waits for another. A worker that was started in place of another goes
    on with its row.
    """

    def __init__(self, tools: Collection[str], share: Share = ALONE) -> None:
        self._tools = {tool: 1 + number * CELLS for number, tool in enumerate(sorted(tools))}
        width = 1 + len(self._tools) * CELLS
        size = share.rows * width * struct.calcsize("d")
        if share.file is not None:
            os.truncate(share.file, size)
        cells = memoryview(mmap(-1 if share.file is None else share.file, size)).cast("d")
        self._rows = [cells[start : start + width] for start in range(0, len(cells), width)]
        self._own = self._rows[share.row]
        self._own[RUNNING] = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count a call as running during the block: it is worked on, or waits for a turn."""
        self._add(RUNNING, 1)
        try:
            yield
        finally:
            self._add(RUNNING, -1)

    def count_call(self, tool: str, seconds: float, *, error: str | None) -> None:
        """Count a call of one of the tools."""
        first = self._tools[tool]
        self._add(first + ERRORS.index(error if error in ERRORS else VectorMemoryError.code), 1)
        self._add(first + len(ERRORS) + bisect_left(BUCKETS, seconds), 1)
        self._add(first + CELLS - 1, seconds)

    def as_text(self, namespaces: Namespaces) -> str:
        """Return all figures."""
        lines = [*self._of_calls(), *self._of_latencies(), *of_process(), *of_namespaces(namespaces)]
        return "\n".join(lines) + "\n"

    def _add(self, cell: int, amount: float) -> None:
        with self._lock:
            self._own[cell] += amount

    def _total(self, cell: int) -> float:
        return sum(row[cell] for row in self._rows)

    def _of_calls(self) -> Iterator[str]:
        yield from introduced("running_calls", "gauge", "Calls that are worked on, or wait for a turn.")
        yield f"vector_memory_running_calls {self._total(RUNNING):.0f}"
        yield from introduced("calls_total", "counter", "Calls by tool and error; no error: success.")
        for tool, first in self._tools.items():
            for number, error in enumerate(ERRORS):
                if count := self._total(first + number):
                    yield f'vector_memory_calls_total{{tool="{tool}",error="{error or ""}"}} {count:.0f}'

    def _of_latencies(self) -> Iterator[str]:
        name = "call_seconds"
        yield from introduced(name, "histogram", "Latency by tool.")
        for tool, first in self._tools.items():
            buckets = range(first + len(ERRORS), first + CELLS - 1)
            totals = list(accumulate(map(self._total, buckets)))
            if not totals[-1]:
                continue
            for bound, total in zip((*BUCKETS, "+Inf"), totals, strict=True):
                yield f'vector_memory_{name}_bucket{{tool="{tool}",le="{bound}"}} {total:.0f}'
            yield f'vector_memory_{name}_sum{{tool="{tool}"}} {self._total(first + CELLS - 1):.6f}'
            yield f'vector_memory_{name}_count{{tool="{tool}"}} {totals[-1]:.0f}'


def of_process() -> Iterator[str]:
    """Yield the memory that the process has taken at most."""
    yield from introduced("peak_memory_bytes", "gauge", "Largest resident memory of the process.")
    yield f"vector_memory_peak_memory_bytes {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE}"


def of_namespaces(namespaces: Namespaces) -> Iterator[str]:
    """Yield the size and backlog of each namespace, and whether the model is loaded."""
    yield from introduced("model_loaded", "gauge", "1 while the embedding model is loaded.")
    yield f"vector_memory_model_loaded {int(namespaces.has_model)}"
    yield from introduced("open_namespaces", "gauge", "Namespaces that are open in this process.")
    yield f"vector_memory_open_namespaces {namespaces.open_count}"
    name = "pending_vectors"
    yield from introduced(name, "gauge", "Memories whose vectors are being computed, in open namespaces.")
    for namespace, count in namespaces.count_pending().items():
        yield f'vector_memory_{name}{{namespace="{namespace}"}} {count}'
    try:
        sizes = {name: namespaces.registry.sizes(name) for name in namespaces.registry.names()}
    except DatabaseError:  # readiness says so; the other figures are needed anyway
        return
    for name, meaning in (("database_bytes", "Size of the database."), ("log_bytes", "Size of its write-ahead log.")):
        yield from introduced(name, "gauge", meaning)
        for namespace, size in sizes.items():
            yield f'vector_memory_{name}{{namespace="{namespace}"}} {getattr(size, name)}'


def introduced(name: str, kind: str, meaning: str) -> Iterator[str]:
    """Yield the lines that introduce a figure."""
    yield f"# HELP vector_memory_{name} {meaning}"
    yield f"# TYPE vector_memory_{name} {kind}"


def add_operations(app: Starlette, namespaces: Namespaces, metrics: Metrics) -> None:
    """Add the routes to an application that knows who calls."""

    def ready() -> Response:
        if (problem := namespaces.problem()) is not None:
            return PlainTextResponse(f"{problem}\n", 503)
        return PlainTextResponse("\n".join(["ready", *filter(None, [namespaces.registry.tokens.problem()]), ""]))

    def figures() -> Response:
        return PlainTextResponse(metrics.as_text(namespaces), media_type="text/plain; version=0.0.4")

    app.add_route(READINESS, for_operators(ready), methods=["GET"])
    app.add_route(METRICS, for_operators(figures), methods=["GET"])


def for_operators(answer: Callable[[], Response]) -> Callable[[Request], Response]:
    """Return a route that answers those who may know of all namespaces; for others it does not exist."""

    @requires(Permission.ADMIN, status_code=404)
    def route(request: Request) -> Response:  # noqa: ARG001 - the decorator reads it
        if current_caller().sessions is not None:
            raise HTTPException(404)
        return answer()

    return route
