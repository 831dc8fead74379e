"""The tools that store a memory, one for each kind. Their parameters are the same, with a few exceptions."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from vector_memory.domain import DEFAULT_CATEGORY, MAIN_AGENT, MemoryKind
from vector_memory.results.sessions import StoreMemoryResult
from vector_memory.server.current_store import SessionMemoryStore
from vector_memory.server.tools.params import (
    STORES,
    AgentId,
    Content,
    Corrects,
    Description,
    Document,
    Metadata,
    OnProgress,
    OptionalIteration,
    Parameters,
    ReportId,
    SessionId,
    Store,
    Supersedes,
    Tags,
    TaskCode,
    Title,
    TtlDays,
    declared,
    found_by,
)
from vector_memory.server.tools.waiting import stored

COMMON: Parameters = {"store": (Store,), "on_progress": (OnProgress,)}
TEXT: Parameters = {**COMMON, "content": (Content,)}
DOCUMENT: Parameters = {**COMMON, "content": (Document,)}

AGENT: Parameters = {"agent_id": (AgentId, None)}
PLACE: Parameters = {"session_id": (SessionId, None), "session_iter": (OptionalIteration, None)}
TASK: Parameters = {"task_code": (TaskCode, None)}
FACTS: Parameters = {
    "description": (Description, None),
    "tags": (Tags, None),
    "metadata": (Metadata, None),
    "ttl_days": (TtlDays, None),
    "supersedes": (Supersedes, None),
}

BY_AGENT: Parameters = {**AGENT, **PLACE, **TASK, "title": (Title, None), **FACTS}
"""What goes with a memory of any agent in a session."""

BY_MAIN_AGENT: Parameters = {**PLACE, "agent_id": (AgentId, MAIN_AGENT), **TASK, "title": (Title, None), **FACTS}


def storing(
    kind: MemoryKind, description: str, parameters: Parameters, hint: str, *, title: str = "", always: bool = False
) -> Callable[..., Any]:
    """Return the tool that stores memories of a kind."""

    async def store(*, store: SessionMemoryStore, content: str, **facts: Any) -> StoreMemoryResult:
        return await stored(store, store.store_memory, kind, content, **facts)

    title = title or f"Store {kind.replace('_', ' ')}"
    return declared(store, f"store_{kind}", title, description, parameters, STORES, found_by(hint, always=always))


TOOLS = (
    storing(
        MemoryKind.SESSION_CONTEXT,
        "Save a session's state (goal, decisions, next steps) to continue from later. For the main agent.",
        {**TEXT, **BY_MAIN_AGENT},
        "save memory, session state, checkpoint, hand over",
    ),
    storing(
        MemoryKind.INPUT_PROMPT,
        "Save a user's prompt word for word. For the main agent.",
        {**TEXT, **BY_MAIN_AGENT},
        "save memory, user prompt, request",
    ),
    storing(
        MemoryKind.SYSTEM_MEMORY,
        "Save commands, configuration, endpoints or scripts for reuse.",
        {**TEXT, **BY_AGENT},
        "remember, save memory, command, configuration, how to run",
    ),
    storing(
        MemoryKind.REPORT,
        "Save finished findings. Long texts are fine.",
        {**DOCUMENT, **BY_AGENT},
        "remember this, save memory, note, finding, result, summary of work",
        always=True,
    ),
    storing(
        MemoryKind.REPORT_OBSERVATION,
        "Save a correction or addition to a report.",
        {**TEXT, **BY_AGENT, "parent_report_id": (ReportId, None), "corrects": (Corrects, False)},
        "correct, add to report, save memory",
    ),
    storing(
        MemoryKind.WORKING_MEMORY,
        "Save interim findings during a task. Save finished findings as a report.",
        {**DOCUMENT, **BY_AGENT},
        "remember, save memory, note, interim finding, progress",
    ),
    storing(
        MemoryKind.KNOWLEDGE_BASE,
        "Save knowledge for all sessions and agents.",
        {
            **COMMON,
            "title": (Annotated[str, Field(description="Title")],),
            "content": (Document,),
            **AGENT,
            "category": (Annotated[str | None, Field(description=f"Default {DEFAULT_CATEGORY}")], None),
            **FACTS,
        },
        "remember this, save memory, lasting fact, convention, decision, lesson",
        title="Store knowledge base entry",
    ),
)
