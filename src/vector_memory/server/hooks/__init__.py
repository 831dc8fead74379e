"""Tools that a client's hooks call: they store and recall without being asked.

They are in no list, so a model never sees them. Whatever happens, they answer with success: clients show a user the
errors of hooks.
"""

import json
from typing import Any

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp_types import CallToolRequestParams, TextContent

from vector_memory.clients.events import HOOKS
from vector_memory.errors import VectorMemoryError

HEARD_AT = "heard_at"
"""The argument with the time at which a relay heard of an event."""

FAILED = "vector-memory/failed"
"""The key of an answer's `_meta` with the code of an error: a relay then sends again what has waited."""


class HookTools(Middleware):
    """Answers the calls of hooks."""

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Answer the call of a hook; pass any other to the next handler."""
        name, arguments = context.message.name, context.message.arguments or {}
        if name not in HOOKS:
            return await call_next(context)
        from vector_memory.server.hooks import capture  # noqa: PLC0415 - needs the store, and a list of tools does not

        told, failed = None, None
        try:
            if event := capture.event_of(context.fastmcp_context, arguments):
                told = await getattr(capture, name)(event)
        except Exception as error:
            capture.log_failure(f"{name} failed", error)
            failed = {FAILED: getattr(error, "code", VectorMemoryError.code)}
        said = TextContent(type="text", text=json.dumps(as_output(HOOKS[name], told)))
        return ToolResult(content=[said], meta=failed)


def as_output(event_name: str, told: str | None) -> dict[str, Any]:
    """Return what clients read from a hook's answer: an addition to the agent's context, or nothing."""
    if told is None:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event_name, "additionalContext": told}}
