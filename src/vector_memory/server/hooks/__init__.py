"""Tools that a client's hooks call: they store and recall without being asked.

They are in no list, so a model never sees them. Whatever happens, they answer with success: clients show a user the
errors of hooks.
"""

import json
from typing import Any

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp_types import CallToolRequestParams, TextContent

from vector_memory.errors import VectorMemoryError

HEARD_AT = "heard_at"
"""The argument with the time at which a relay heard of an event."""

HOOKS = {
    "hook_prompt": ("UserPromptSubmit", "hear_prompt"),
    "hook_subagent": ("SubagentStop", "keep_report"),
    "hook_answer": ("Stop", "keep_answer"),
    "hook_compaction": ("PostCompact", "keep_summary"),
}
"""The tools, their events, and the functions that store an event's text and return the context for the agent."""


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

        event_name, hook = HOOKS[name]
        told, failed = None, None
        try:
            if event := capture.event_of(context.fastmcp_context, arguments):
                told = await getattr(capture, hook)(event)
        except Exception as error:
            capture.log_failure(f"{name} failed", error)
            failed = {FAILED: getattr(error, "code", VectorMemoryError.code)}
        said = TextContent(type="text", text=json.dumps(hook_answer(event_name, told)))
        return ToolResult(content=[said], meta=failed)


def hook_answer(event_name: str, told: str | None) -> dict[str, Any]:
    """Return what clients read from a hook's answer: an addition to the agent's context, or nothing."""
    if told is None:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event_name, "additionalContext": told}}
