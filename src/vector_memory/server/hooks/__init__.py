"""Tools that a client's hooks call: they store and recall without being asked.

They are in no list, so a model never sees them. Whatever happens, they answer with success: clients show a user the
errors of hooks.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastmcp import Context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp_types import CallToolRequestParams, TextContent

from vector_memory.domain import utc_now
from vector_memory.domain.times import utc
from vector_memory.errors import VectorMemoryError
from vector_memory.server.conversation import client_of, conversation_of
from vector_memory.server.current_store import store_of_caller
from vector_memory.server.hooks.capture import Event, hear_prompt, keep_answer, keep_report, keep_summary, log_failure
from vector_memory.transcripts.importing import is_of_subagent

HEARD_AT = "heard_at"
"""The argument with the time at which a relay heard of an event."""

Hook = Callable[[Event], Awaitable[str | None]]
"""Stores an event's text, and returns the context for the agent."""

HOOKS: dict[str, tuple[str, Hook]] = {
    "hook_prompt": ("UserPromptSubmit", hear_prompt),
    "hook_subagent": ("SubagentStop", keep_report),
    "hook_answer": ("Stop", keep_answer),
    "hook_compaction": ("PostCompact", keep_summary),
}
"""The tools, their events, and their functions."""


FAILED = "vector-memory/failed"
"""The key of an answer's `_meta` with the code of an error: a relay then sends again what has waited."""


class HookTools(Middleware):
    """Answers the calls of hooks."""

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Answer the call of a hook; pass any other to the next handler."""
        name, arguments = context.message.name, context.message.arguments or {}
        if name not in HOOKS:
            return await call_next(context)
        event_name, hook = HOOKS[name]
        told, failed = None, None
        try:
            if event := event_of(context.fastmcp_context, arguments):
                told = await hook(event)
        except Exception as error:
            log_failure(f"{name} failed", error)
            failed = {FAILED: getattr(error, "code", VectorMemoryError.code)}
        said = TextContent(type="text", text=json.dumps(hook_answer(event_name, told)))
        return ToolResult(content=[said], meta=failed)


def event_of(context: Context | None, arguments: Mapping[str, Any]) -> Event | None:
    """Return the event that a call reports; None on a server without session tools, and for a sub-agent's task."""
    if context is None or "conversation" not in context.lifespan_context:
        return None
    conversation = conversation_of(context)
    given = {name: value for name, value in arguments.items() if isinstance(value, str)}
    session_id = given.get("session_id", "").strip()
    if is_of_subagent(Path(given.get("transcript_path", "")), session_id):
        return None
    if conversation.is_over_http:  # the path would be one of this machine, which is not the client's
        given.pop("transcript_path", None)
    if session_id:
        conversation.session_id = session_id
    store = store_of_caller(context.lifespan_context)
    return Event(store, conversation, conversation.session(), time_in(given), client_of(context), given)


def time_in(given: Mapping[str, str]) -> str:
    """Return when an event was heard. A relay sends the time, because its call may wait or be sent twice."""
    now = utc_now()
    with suppress(ValueError):
        return min(utc(given[HEARD_AT]), now) if HEARD_AT in given else now
    return now


def hook_answer(event_name: str, told: str | None) -> dict[str, Any]:
    """Return what clients read from a hook's answer: an addition to the agent's context, or nothing."""
    if told is None:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event_name, "additionalContext": told}}
