"""Records calls, counts them against the quota of their namespace, and reports readiness and figures for Prometheus.

Readiness and figures need a token with the scope admin that is not limited to sessions: they name all namespaces.
"""

import logging
import os
import re
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import prometheus_client
from anyio import CancelScope, CapacityLimiter
from anyio.to_thread import run_sync
from fastmcp import Context
from fastmcp.exceptions import FastMCPError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp import MCPError
from mcp_types import INVALID_REQUEST, CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.authentication import requires
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from vector_memory.answers.models import Result
from vector_memory.clients.events import HOOKS
from vector_memory.domain.callers import Permission
from vector_memory.errors import ConfigurationError, DatabaseError, VectorMemoryError
from vector_memory.extras.teams.audit import AuditLog
from vector_memory.extras.teams.namespaces import Namespaces
from vector_memory.extras.teams.registry import Paces
from vector_memory.server.conversation import client_of, conversation_of
from vector_memory.server.current_store import OWNER, current_caller
from vector_memory.server.http.serving import SHARED
from vector_memory.server.tools import functions_of
from vector_memory.server.tools.failures import failed_result, protocol_errors
from vector_memory.server.tools.memory_tool import ids_in
from vector_memory.settings import MemoryAddress, Toolset
from vector_memory.settings.locations import real_path
from vector_memory.storage.records import Told

READINESS = "/readyz"
METRICS = "/metrics"
PREFIX = "vector_memory"

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the latencies that are counted together, in seconds."""

CANCELLED = "Cancelled"
"""The error of a call whose client did not wait for the answer."""

KILOBYTE = 1 if sys.platform == "darwin" else 1024
"""The unit in which the system reports memory."""

prometheus_client.disable_created_metrics()


class Metrics:
    """Counts calls and their latencies, together with the other workers'; thread-safe."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._registry = prometheus_client.CollectorRegistry()
        self._registry.register(StateMetrics(namespaces))
        own = None if SHARED in os.environ else self._registry
        if own is None:
            MultiProcessCollector(self._registry)
        running = prometheus_client.Gauge(
            f"{PREFIX}_running_calls",
            "Calls that are being processed, or wait for a turn.",
            registry=own,
            multiprocess_mode="livesum",
        )
        self.running = running.track_inprogress
        """Counts a call as running during a block: it is being processed, or waits for a turn."""
        meaning = "Calls by tool and error; no error: success."
        self._calls = prometheus_client.Counter(f"{PREFIX}_calls", meaning, ["tool", "error"], registry=own)
        self._seconds = prometheus_client.Histogram(
            f"{PREFIX}_call_seconds", "Latency by tool.", ["tool"], registry=own, buckets=BUCKETS
        )

    def count_call(self, tool: str, seconds: float, *, error: str | None) -> None:
        """Count a call of one of the tools."""
        self._calls.labels(tool, error or "").inc()
        self._seconds.labels(tool).observe(seconds)

    def as_text(self) -> bytes:
        """Return all figures in the text format of Prometheus."""
        return prometheus_client.generate_latest(self._registry)


class StateMetrics(Collector):
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
        yield figure("pending_vectors", meaning, self._namespaces.count_pending())
        registry = self._namespaces.registry
        try:
            sizes = {name: registry.sizes(name) for name in registry.names()}
        except DatabaseError:  # readiness says so; the other figures are needed anyway
            return
        for part, meaning in (
            ("database_bytes", "Size of the database."),
            ("log_bytes", "Size of its write-ahead log."),
        ):
            yield figure(part, meaning, {name: getattr(size, part) for name, size in sizes.items()})


def figure(name: str, meaning: str, value: float | Mapping[str, float]) -> Metric:
    """Return a figure of the process, or of each namespace."""
    if not isinstance(value, Mapping):
        return GaugeMetricFamily(f"{PREFIX}_{name}", meaning, value)
    family = GaugeMetricFamily(f"{PREFIX}_{name}", meaning, labels=["namespace"])
    for namespace, each in value.items():
        family.add_metric([namespace], each)
    return family


def add_operations(app: Starlette, namespaces: Namespaces, metrics: Metrics) -> None:
    """Add the routes to an application that knows who calls."""

    def ready() -> Response:
        if (problem := namespaces.problem()) is not None:
            return PlainTextResponse(f"{problem}\n", 503)
        return PlainTextResponse("ready\n")

    def counted() -> Response:
        return Response(metrics.as_text(), media_type=prometheus_client.CONTENT_TYPE_PLAIN_0_0_4)

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


# Quotas and the audit log.

logger = logging.getLogger(__name__)

NAMES = {function.__name__ for function in functions_of(Toolset)} | HOOKS.keys()
IDS = ("memory_id", "chunk_id", "parent_report_id")
ID = re.compile(r"\s*([0-9]{1,19})(?:\.0)?\s*")
"""Matches an id. An argument may be anything that a client sends."""

LONGEST_NAME = 200
THREADS = 4
"""Checking and recording have threads of their own: neither waits for searches, and the event loop for neither."""

OPENING_THREADS = 4
"""Namespaces are opened in threads of their own too: upgrading a file takes long, and no other call waits for it."""

COMPLETE = "completion/complete"


class Recording(Middleware):
    """Writes a line into the audit log for each call."""

    def __init__(self, audit: AuditLog, metrics: Metrics | None = None) -> None:
        self._audit, self._metrics = audit, metrics
        self._threads = CapacityLimiter(THREADS)

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Call the tool, and record which memories its answer has."""
        name, arguments, began = context.message.name, context.message.arguments or {}, time.perf_counter()
        if name not in NAMES:  # a stranger's words do not belong in a log
            return await call_next(context)
        body: Mapping[str, Any] = {"error": CANCELLED}
        try:
            with self._metrics.running() if self._metrics else nullcontext():
                async with self._admitted(stores=name.startswith(("store_", "hook_"))):
                    answer = await call_next(context)
            body = answer.structured_content or {}
        except VectorMemoryError as error:
            answer = failed_result(Result, error)
            body = {"error": error.code}
        finally:
            if self._metrics:
                self._metrics.count_call(name, time.perf_counter() - began, error=body.get("error"))
            await self._record(name, audited_ids(arguments, body), body.get("error"), context.fastmcp_context)
        return answer

    async def on_read_resource(
        self, context: MiddlewareContext[ReadResourceRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        """Record who read which resource."""
        uri = str(context.message.uri).partition("?")[0][:LONGEST_NAME]
        return await self._recorded("resources/read", {"uri": [uri]}, context, call_next)

    async def on_get_prompt(
        self, context: MiddlewareContext[GetPromptRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        """Record who asked for a prompt about which session."""
        return await self._recorded("prompts/get", audited_ids(context.message.arguments or {}, {}), context, call_next)

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Record completions; other requests have methods of their own."""
        if context.method != COMPLETE:
            return await call_next(context)
        try:
            return await self._recorded(COMPLETE, {}, context, call_next)
        except FastMCPError as error:  # which FastMCP expects of resources and prompts only
            raise MCPError(INVALID_REQUEST, str(error)) from None

    async def _recorded(
        self,
        call: str,
        ids: Mapping[str, list[int | str]],
        context: MiddlewareContext[Any],
        call_next: CallNext[Any, Any],
    ) -> Any:
        async with AsyncExitStack() as recorded:
            with protocol_errors(call):
                await recorded.enter_async_context(self.recorded(call, ids, context=context.fastmcp_context))
            return await call_next(context)

    @asynccontextmanager
    async def recorded(
        self, call: str, ids: Mapping[str, list[int | str]], *, stores: bool = False, context: Context | None = None
    ) -> AsyncIterator[None]:
        """Record how the block ended. Raises what `_admitted` raises."""
        failure: str | None = CANCELLED
        try:
            async with self._admitted(stores=stores):
                yield
            failure = None
        except Exception as error:
            failure = type(error).__name__
            raise
        finally:
            await self._record(call, ids, failure, context)

    @asynccontextmanager
    async def _admitted(self, *, stores: bool) -> AsyncIterator[None]:  # noqa: ARG002 - a server for teams needs it
        """Let the call run during the block."""
        yield

    def note_told(self, told: Told) -> None:
        """Record a recap or recall, which its agent has not asked for."""
        call, ids = "recap" if told.is_recap else "recall", {"client": [told.client], "session": [told.session_id]}
        try:
            self._audit.record(OWNER, call, ids={**ids, "shown": told.memory_ids})
        except VectorMemoryError as failure:
            logger.error("%s", failure)  # noqa: TRY400 - the traceback adds nothing

    async def _record(
        self, call: str, ids: Mapping[str, list[int | str]], error: str | None, context: Context | None
    ) -> None:
        try:
            record = partial(
                self._audit.record, current_caller(), call, ids={**who_called(context), **ids}, error=error
            )
            with CancelScope(shield=True):
                await run_sync(record, limiter=self._threads)
        except VectorMemoryError as failure:  # a full disk must not keep agents from reading
            logger.error("%s", failure)  # noqa: TRY400 - the traceback adds nothing


class Accounting(Recording):
    """Refuses calls beyond the quota, and records each call, refused or not."""

    def __init__(self, namespaces: Namespaces, paces: Paces, audit: AuditLog, metrics: Metrics) -> None:
        super().__init__(audit, metrics)
        self._namespaces = namespaces
        self._paces = paces
        self._opening = CapacityLimiter(OPENING_THREADS)

    @asynccontextmanager
    async def _admitted(self, *, stores: bool) -> AsyncIterator[None]:
        """Keep the caller's namespace open during the block. Raises QuotaExceededError and the errors of `open`."""
        name = current_caller().namespace
        async with self.opened():
            await run_sync(partial(self._count, name, stores=stores), limiter=self._threads)
            yield

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep the caller's namespace open during the block, and count nothing. Raises NotFoundError if it is gone."""
        name = current_caller().namespace
        with self._namespaces.in_use(name):
            if not self._namespaces.is_open(name):
                await run_sync(self._namespaces.open, name, limiter=self._opening)
            yield

    def _count(self, name: str, *, stores: bool) -> None:
        quota = self._namespaces.registry.quota(name)
        self._paces.count(name, quota.calls_per_minute)
        if stores:
            self._namespaces.admit_store(name, quota)


def who_called(context: Context | None) -> dict[str, list[str]]:
    """Return the client of a call without a token, and the client's session if it is known."""
    if context is None or current_caller() is not OWNER:
        return {}
    known = conversation_of(context) if "conversation" in context.lifespan_context else None
    session = known and (known.session_id or known.stored_in)
    return {"client": [client_of(context)], "session": [session] if session else []}


def audited_ids(arguments: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, list[int | str]]:
    """Return the ids and the session that a call names, the id of what it stored, and those of its answer (`shown`)."""
    found: dict[str, list[int | str]] = {}
    for name in IDS:
        given = (ID.fullmatch(str(named.get(name))) for named in (arguments, body))
        found[name] = sorted({int(number[1]) for number in given if number})
    for name in ("supersedes", "older_ids"):
        others = arguments.get(name)
        found[name] = sorted({one for one in others if isinstance(one, int)}) if isinstance(others, list) else []
    found["shown"] = sorted(set(ids_in(body)).difference(found["memory_id"]))
    session = arguments.get("session_id")
    if isinstance(session, str) and len(session) <= LONGEST_NAME:
        found["session_id"] = [session]
    return found


def audit_folder(address: MemoryAddress) -> Path:
    """Return where the audit log of a server's only memory is. Raises ConfigurationError for a database."""
    if not isinstance(address, Path):
        raise ConfigurationError("A memory in a database has an audit log on a server for teams only: --data-dir.")
    path = real_path(address)
    return path.with_name(f"{path.name}-audit")


def recording_of(address: MemoryAddress) -> Recording:
    """Return what records the calls of a server of one memory. Raises ConfigurationError."""
    audit = AuditLog(audit_folder(address))
    audit.prepare()
    return Recording(audit)
