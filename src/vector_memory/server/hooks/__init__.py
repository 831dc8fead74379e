"""Tools that a client's hooks call: they store and recall without being asked.

They are not listed, so a model never sees them. They always answer with success, because clients show users the errors
of hooks.
"""

import asyncio
import json

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp_types import CallToolRequestParams, TextContent

from vector_memory.clients.events import HOOKS
from vector_memory.errors import VectorMemoryError

HEARD_AT = "heard_at"
"""The argument with the time at which a relay received an event."""

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

        added, failed, event = None, None, None
        try:
            if event := capture.event_of(context.fastmcp_context, arguments):
                added = await getattr(capture, name)(event)
                if added:
                    event.count(added)
        except asyncio.CancelledError:
            if event:
                event.untell()
            raise
        except Exception as error:
            capture.log_failure(f"{name} failed", error)
            failed = {FAILED: getattr(error, "code", VectorMemoryError.code)}
        output = {"hookEventName": HOOKS[name], "additionalContext": added}
        text = json.dumps({} if added is None else {"hookSpecificOutput": output})
        return ToolResult(content=[TextContent(type="text", text=text)], meta=failed)
