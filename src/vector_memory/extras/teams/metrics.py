"""Readiness, and figures about the running server for Prometheus.

Both need a token with the scope admin that is not limited to sessions: figures name all namespaces.
"""

import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.authentication import requires
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from vector_memory.domain.callers import Permission
from vector_memory.errors import DatabaseError
from vector_memory.extras.teams.namespaces import Namespaces
from vector_memory.server.current_store import current_caller
from vector_memory.server.http.serving import SHARED

READINESS = "/readyz"
METRICS = "/metrics"
PREFIX = "vector_memory"

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the latencies that are counted together, in seconds."""

CANCELLED = "Cancelled"
"""The error of a call whose client did not wait for the answer."""

KILOBYTE = 1 if sys.platform == "darwin" else 1024
"""The unit in which the system reports memory."""

disable_created_metrics()


class Metrics:
    """Counts calls and their latencies, together with the other workers'; thread-safe."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(State(namespaces))
        own = None if SHARED in os.environ else self._registry
        if own is None:
            MultiProcessCollector(self._registry)
        self._running = Gauge(
            f"{PREFIX}_running_calls",
            "Calls that are worked on, or wait for a turn.",
            registry=own,
            multiprocess_mode="livesum",
        )
        meaning = "Calls by tool and error; no error: success."
        self._calls = Counter(f"{PREFIX}_calls", meaning, ["tool", "error"], registry=own)
        self._seconds = Histogram(f"{PREFIX}_call_seconds", "Latency by tool.", ["tool"], registry=own, buckets=BUCKETS)

    def running(self) -> AbstractContextManager[None]:
        """Count a call as running during the block: it is worked on, or waits for a turn."""
        return self._running.track_inprogress()

    def count_call(self, tool: str, seconds: float, *, error: str | None) -> None:
        """Count a call of one of the tools."""
        self._calls.labels(tool, error or "").inc()
        self._seconds.labels(tool).observe(seconds)

    def as_text(self) -> bytes:
        """Return all figures in the text format of Prometheus."""
        return generate_latest(self._registry)


class State(Collector):
    """The state of this process rather than its counts: its memory, and the namespaces."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    def collect(self) -> Iterator[Metric]:
        """Yield the figures."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE
        yield figure("peak_memory_bytes", "Largest resident memory of the process.", peak)
        yield figure("model_loaded", "1 while the embedding model is loaded.", int(self._namespaces.has_model))
        yield figure("open_namespaces", "Namespaces that are open in this process.", self._namespaces.open_count)
        meaning = "Memories whose vectors are being computed, in open namespaces."
        yield figures("pending_vectors", meaning, self._namespaces.count_pending())
        registry = self._namespaces.registry
        try:
            sizes = {name: registry.sizes(name) for name in registry.names()}
        except DatabaseError:  # readiness says so; the other figures are needed anyway
            return
        databases = {name: size.database_bytes for name, size in sizes.items()}
        yield figures("database_bytes", "Size of the database.", databases)
        logs = {name: size.log_bytes for name, size in sizes.items()}
        yield figures("log_bytes", "Size of its write-ahead log.", logs)


def figure(name: str, meaning: str, value: float) -> Metric:
    """Return a figure of the process."""
    return GaugeMetricFamily(f"{PREFIX}_{name}", meaning, value)


def figures(name: str, meaning: str, values: Mapping[str, float]) -> Metric:
    """Return a figure of each namespace."""
    family = GaugeMetricFamily(f"{PREFIX}_{name}", meaning, labels=["namespace"])
    for namespace, value in values.items():
        family.add_metric([namespace], value)
    return family


def add_operations(app: Starlette, namespaces: Namespaces, metrics: Metrics) -> None:
    """Add the routes to an application that knows who calls."""

    def ready() -> Response:
        if (problem := namespaces.problem()) is not None:
            return PlainTextResponse(f"{problem}\n", 503)
        return PlainTextResponse("ready\n")

    def counted() -> Response:
        return Response(metrics.as_text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    app.add_route(READINESS, for_operators(ready), methods=["GET"])
    app.add_route(METRICS, for_operators(counted), methods=["GET"])


def for_operators(answer: Callable[[], Response]) -> Callable[[Request], Response]:
    """Return a route for those who may know of all namespaces; for others it does not exist."""

    @requires(Permission.ADMIN, status_code=404)
    def route(request: Request) -> Response:  # noqa: ARG001 - the decorator reads it
        if current_caller().sessions is not None:
            raise HTTPException(404)
        return answer()

    return route
