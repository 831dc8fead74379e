"""The tools that store a memory, one for each kind. Their parameters are the same, with a few exceptions."""

from collections.abc import Callable
from typing import Annotated, Any

from fastmcp.tools import tool
from pydantic import Field

from vector_memory.answers.documents import AmendResult, SupersedeResult
from vector_memory.answers.models import StoreMemoryResult
from vector_memory.answers.overview import ReviewResult
from vector_memory.domain import DEFAULT_CATEGORY, MAIN_AGENT, MemoryKind
from vector_memory.domain.fields import FieldType
from vector_memory.server.current_store import SessionMemoryStore
from vector_memory.server.tools import params
from vector_memory.server.turns import in_writers_thread, stored

BY_AGENT: params.Parameters = {
    **params.STORED,
    "ttl_days": (params.TtlDays, None),
    "supersedes": (params.Supersedes, None),
    "sources": (params.Sources, None),
    "evidence": (params.Evidence, None),
}
"""The fields of any agent's memory in a session."""

PLACE: params.Parameters = {name: params.STORED[name] for name in ("session_id", "session_iter")}
MAIN: params.Parameters = {"agent_id": (params.optional(FieldType.TEXT, "Agent")[0], MAIN_AGENT)}
BY_MAIN_AGENT: params.Parameters = {**PLACE, **BY_AGENT, **MAIN}

COMMON: params.Parameters = {
    "store": (params.Store,),
    "on_progress": (params.OnProgress,),
    "came_from": (params.CurrentWay,),
}
TEXT: params.Parameters = {**COMMON, "content": (params.Content,), **BY_AGENT}
DOCUMENT: params.Parameters = {**COMMON, "content": (params.Document,), **BY_AGENT}
OF_MAIN_AGENT: params.Parameters = {**COMMON, "content": (params.Content,), **BY_MAIN_AGENT}
OBSERVATION = {**TEXT, "parent_report_id": (params.ReportId, None), "corrects": (params.Corrects, False)}
ENTRY: params.Parameters = {
    **COMMON,
    "title": (Annotated[str, Field(description="Title")],),
    "content": (params.Document,),
    "agent_id": params.STORED["agent_id"],
    "category": params.optional(FieldType.TEXT, f"Default {DEFAULT_CATEGORY}"),
    **params.all_but(BY_AGENT, *PLACE, "task_code", "title"),
}

HINTS = {
    MemoryKind.SESSION_CONTEXT: "save memory, session state, checkpoint, hand over",
    MemoryKind.INPUT_PROMPT: "save memory, user prompt, request",
    MemoryKind.SYSTEM_MEMORY: "remember, save memory, command, configuration, how to run",
    MemoryKind.REPORT: "remember this, save memory, note, finding, result, summary of work",
    MemoryKind.REPORT_OBSERVATION: "correct, add to report, save memory",
    MemoryKind.WORKING_MEMORY: "remember, save memory, note, interim finding, progress",
    MemoryKind.KNOWLEDGE_BASE: "remember this, save memory, lasting fact, convention, decision, lesson",
}


def storing(kind: MemoryKind, parameters: params.Parameters, description: str) -> Callable[..., Any]:
    """Return the tool that stores memories of a kind."""

    async def store(*, store: SessionMemoryStore, content: str, **facts: Any) -> StoreMemoryResult:
        return await stored(store, store.store_memory, kind, content, **facts)

    title = f"Store {kind.replace('_', ' ')}{' entry' if kind is MemoryKind.KNOWLEDGE_BASE else ''}"
    found_by = params.found_by(HINTS[kind], always=kind is MemoryKind.REPORT)
    return params.declared(store, f"store_{kind}", title, description, parameters, params.STORES, found_by)


TOOLS = (
    storing(
        MemoryKind.SESSION_CONTEXT,
        OF_MAIN_AGENT,
        "Save a session's state (goal, decisions, next steps) to continue from later. For the main agent.",
    ),
    storing(MemoryKind.INPUT_PROMPT, OF_MAIN_AGENT, "Save a user's prompt word for word. For the main agent."),
    storing(MemoryKind.SYSTEM_MEMORY, TEXT, "Save commands, configuration, endpoints or scripts for reuse."),
    storing(MemoryKind.REPORT, DOCUMENT, "Save finished findings. Long texts are fine."),
    storing(MemoryKind.REPORT_OBSERVATION, OBSERVATION, "Save a correction or addition to a report."),
    storing(
        MemoryKind.WORKING_MEMORY, DOCUMENT, "Save interim findings during a task. Save finished findings as a report."
    ),
    storing(MemoryKind.KNOWLEDGE_BASE, ENTRY, "Save knowledge for all sessions and agents."),
)


# Curation: what may be outdated, and changes to everything but the text.


@tool(title="Review memories", annotations=params.READS)
def review_memories(
    *, store: params.Store, session_id: params.OfSession = None, limit: params.Limit = 20
) -> ReviewResult:
    """List memories that may be outdated: newer ones on their subject exist, or nobody ever read them."""
    return store.review(session_id, limit)


@tool(title="Supersede memories", annotations=params.STORES)
async def supersede_memories(
    *,
    store: params.Store,
    memory_id: params.MemoryId,
    older_ids: Annotated[list[params.WholeNumber], Field(description="Ids it replaces"), params.FromJson],
    release: Annotated[params.Switch, Field(description="true: undo")] = False,
) -> SupersedeResult:
    """Mark older memories as replaced by a stored one, or undo that."""
    return await in_writers_thread(store.release if release else store.supersede, memory_id, *older_ids)


@tool(title="Pin memory", annotations=params.STORES)
async def pin_memory(
    *,
    store: params.Store,
    memory_id: params.MemoryId,
    pinned: Annotated[params.Switch, Field(description="false: unpin")] = True,
) -> AmendResult:
    """Pin a memory: it is never cleaned up, and comes first in its session's context."""
    return await in_writers_thread(store.pin if pinned else store.unpin, memory_id)


@tool(title="Amend memory", annotations=params.STORES)
async def amend_memory(
    *,
    store: params.Store,
    memory_id: params.MemoryId,
    title: Annotated[str | None, Field(description='"" removes it')] = None,
    description: Annotated[str | None, Field(description="Summary")] = None,
    tags: Annotated[list[str] | None, Field(description="Replaces all tags", fail_fast=True), params.FromJson] = None,
) -> AmendResult:
    """Change a memory's title, description or tags; to change its text, store another one."""
    return await in_writers_thread(store.amend_memory, memory_id, title=title, description=description, tags=tags)
