"""Counts the calls of each namespace against its quota, and records them."""

import logging
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from anyio import CancelScope, CapacityLimiter
from anyio.to_thread import run_sync
from fastmcp.exceptions import FastMCPError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp import MCPError
from mcp_types import INVALID_REQUEST, CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams

from vector_memory.answers.models import Result
from vector_memory.clients.events import HOOKS
from vector_memory.errors import VectorMemoryError
from vector_memory.extras.teams.audit import AuditLog
from vector_memory.extras.teams.metrics import CANCELLED, Metrics
from vector_memory.extras.teams.namespaces import Namespaces
from vector_memory.extras.teams.registry import Paces
from vector_memory.server.current_store import current_caller
from vector_memory.server.tools import functions_of
from vector_memory.server.tools.failures import failed_result, protocol_errors
from vector_memory.settings import Toolset

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


class Accounting(Middleware):
    """Refuses calls beyond the quota, and writes a line into the audit log for each call, refused or not."""

    def __init__(self, namespaces: Namespaces, paces: Paces, audit: AuditLog, metrics: Metrics) -> None:
        self._namespaces = namespaces
        self._paces = paces
        self._audit = audit
        self._metrics = metrics
        self._threads, self._opening = CapacityLimiter(THREADS), CapacityLimiter(OPENING_THREADS)

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Check the quota, call the tool, and record both."""
        name, arguments, began = context.message.name, context.message.arguments or {}, time.perf_counter()
        if name not in NAMES:  # a stranger's words do not belong in a log
            return await call_next(context)
        body: Mapping[str, Any] = {"error": CANCELLED}
        try:
            with self._metrics.running():
                async with self._admitted(stores=name.startswith(("store_", "hook_"))):
                    answer = await call_next(context)
            body = answer.structured_content or {}
        except VectorMemoryError as error:
            answer = failed_result(Result, error)
            body = {"error": error.code}
        finally:
            self._metrics.count_call(name, time.perf_counter() - began, error=body.get("error"))
            await self._record(name, audited_ids(arguments, body), body.get("error"))
        return answer

    async def on_read_resource(
        self, context: MiddlewareContext[ReadResourceRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        """Check the quota, and record who read which resource."""
        uri = str(context.message.uri)[:LONGEST_NAME]
        return await self._recorded("resources/read", {"uri": [uri]}, context, call_next)

    async def on_get_prompt(
        self, context: MiddlewareContext[GetPromptRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        """Check the quota, and record who asked for a prompt about which session."""
        return await self._recorded("prompts/get", audited_ids(context.message.arguments or {}, {}), context, call_next)

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Check the quota, and record completions; other requests have methods of their own."""
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
                await recorded.enter_async_context(self.recorded(call, ids))
            return await call_next(context)

    @asynccontextmanager
    async def recorded(
        self, call: str, ids: Mapping[str, list[int | str]], *, stores: bool = False
    ) -> AsyncIterator[None]:
        """Check the quota, keep the caller's namespace open during the block, and record how it ended.

        Raises QuotaExceededError, and NotFoundError if the namespace is gone.
        """
        failure: str | None = CANCELLED
        try:
            async with self._admitted(stores=stores):
                yield
            failure = None
        except Exception as error:
            failure = type(error).__name__
            raise
        finally:
            await self._record(call, ids, failure)

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

    async def _record(self, call: str, ids: Mapping[str, list[int | str]], error: str | None) -> None:
        try:
            record = partial(self._audit.record, current_caller(), call, ids=ids, error=error)
            with CancelScope(shield=True):
                await run_sync(record, limiter=self._threads)
        except VectorMemoryError as failure:  # a full disk must not keep agents from reading
            logger.error("%s", failure)  # noqa: TRY400 - the traceback adds nothing


def audited_ids(arguments: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, list[int | str]]:
    """Return the ids and the session that a call names, and the id of what it stored; no other value."""
    found: dict[str, list[int | str]] = {}
    for name in IDS:
        given = (ID.fullmatch(str(named.get(name))) for named in (arguments, body))
        found[name] = sorted({int(number[1]) for number in given if number})
    session = arguments.get("session_id")
    if isinstance(session, str) and len(session) <= LONGEST_NAME:
        found["session_id"] = [session]
    return found
