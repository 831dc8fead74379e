"""Counts the calls of each namespace against its quota, and records them."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp_types import CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams

from vector_memory.errors import VectorMemoryError
from vector_memory.results.sessions import Result
from vector_memory.server.callers import current_caller
from vector_memory.server.hooks import HOOKS
from vector_memory.server.http.metrics import Metrics
from vector_memory.server.tools import FUNCTIONS
from vector_memory.server.tools.failures import failed_result, protocol_errors
from vector_memory.tenancy.audit import AuditLog
from vector_memory.tenancy.namespaces import Namespaces

logger = logging.getLogger(__name__)

NAMES = {function.__name__ for groups in FUNCTIONS.values() for group in groups.values() for function in group}
NAMES |= HOOKS.keys()
IDS = ("memory_id", "chunk_id", "parent_report_id")
LONGEST_NAME = 200


class Accounting(Middleware):
    """Refuses calls beyond the quota, and writes a line into the audit log for each call, refused or not."""

    def __init__(self, namespaces: Namespaces, audit: AuditLog, metrics: Metrics) -> None:
        self._namespaces = namespaces
        self._audit = audit
        self._metrics = metrics

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Check the quota, call the tool, and record both."""
        name, arguments, began = context.message.name, context.message.arguments or {}, time.perf_counter()
        if name not in NAMES:  # a stranger's words, which belong into no log
            return await call_next(context)
        try:
            self._namespaces.admit(current_caller().namespace, stores=name.startswith(("store_", "hook_")))
            answer = await call_next(context)
        except VectorMemoryError as error:
            answer = failed_result(Result, error)
        body = answer.structured_content or {}
        self._metrics.count_call(name, time.perf_counter() - began, error=body.get("error"))
        self._record(name, arguments, body)
        return answer

    async def on_read_resource(
        self, context: MiddlewareContext[ReadResourceRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        """Check the quota, and record who read which resource."""
        with protocol_errors("resources/read"):
            self._namespaces.admit(current_caller().namespace, stores=False)
        self._record("resources/read", {"session_id": str(context.message.uri)}, {})
        return await call_next(context)

    async def on_get_prompt(
        self, context: MiddlewareContext[GetPromptRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        """Check the quota, and record who asked for which prompt."""
        with protocol_errors("prompts/get"):
            self._namespaces.admit(current_caller().namespace, stores=False)
        self._record(f"prompts/get {context.message.name}", context.message.arguments or {}, {})
        return await call_next(context)

    def _record(self, call: str, arguments: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        try:
            self._audit.record(current_caller(), call, ids=ids_in(arguments, body), error=body.get("error"))
        except VectorMemoryError as error:  # a full disk must not keep agents from reading
            logger.error("%s", error)  # noqa: TRY400 - the traceback adds nothing


def ids_in(arguments: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, list[int | str]]:
    """Return the ids and the session that a call names, and the id of what it stored; no other value."""
    found: dict[str, list[int | str]] = {}
    for name in IDS:
        numbers = {value for value in (arguments.get(name), body.get(name)) if str(value).isdecimal()}
        found[name] = sorted(int(number) for number in map(str, numbers))
    session = arguments.get("session_id")
    if isinstance(session, str) and len(session) <= LONGEST_NAME:
        found["session_id"] = [session]
    return found
