"""The tools that store a memory, one for each kind."""

from typing import Annotated

from fastmcp.tools import tool
from pydantic import Field

from vector_memory.domain import DEFAULT_CATEGORY, MAIN_AGENT, MemoryKind
from vector_memory.results.sessions import StoreMemoryResult
from vector_memory.server.tools.params import (
    STORES,
    AgentId,
    Content,
    Description,
    Document,
    Metadata,
    OnProgress,
    OptionalIteration,
    ReportId,
    SessionId,
    Store,
    Tags,
    TaskCode,
    Title,
    found_by,
)
from vector_memory.server.tools.waiting import stored


@tool(
    title="Store session context",
    annotations=STORES,
    meta=found_by("save memory, session state, checkpoint, hand over"),
)
async def store_session_context(
    *,
    store: Store,
    on_progress: OnProgress,
    content: Content,
    session_id: SessionId = None,
    session_iter: OptionalIteration = None,
    agent_id: AgentId = MAIN_AGENT,
    task_code: TaskCode = None,
    title: Title = None,
    description: Description = None,
    tags: Tags = None,
    metadata: Metadata = None,
) -> StoreMemoryResult:
    """Save a session's state (goal, decisions, next steps) to continue from later. For the main agent."""
    return await stored(
        store,
        store.store_memory,
        MemoryKind.SESSION_CONTEXT,
        content,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        title=title,
        description=description,
        tags=tags,
        metadata=metadata,
        on_progress=on_progress,
    )


@tool(title="Store input prompt", annotations=STORES, meta=found_by("save memory, user prompt, request"))
async def store_input_prompt(
    *,
    store: Store,
    on_progress: OnProgress,
    content: Content,
    session_id: SessionId = None,
    session_iter: OptionalIteration = None,
    agent_id: AgentId = MAIN_AGENT,
    task_code: TaskCode = None,
    title: Title = None,
    description: Description = None,
    tags: Tags = None,
    metadata: Metadata = None,
) -> StoreMemoryResult:
    """Save a user's prompt word for word. For the main agent."""
    return await stored(
        store,
        store.store_memory,
        MemoryKind.INPUT_PROMPT,
        content,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        title=title,
        description=description,
        tags=tags,
        metadata=metadata,
        on_progress=on_progress,
    )


@tool(
    title="Store system memory",
    annotations=STORES,
    meta=found_by("remember, save memory, command, configuration, how to run"),
)
async def store_system_memory(
    *,
    store: Store,
    on_progress: OnProgress,
    content: Content,
    agent_id: AgentId = None,
    session_id: SessionId = None,
    session_iter: OptionalIteration = None,
    task_code: TaskCode = None,
    title: Title = None,
    description: Description = None,
    tags: Tags = None,
    metadata: Metadata = None,
) -> StoreMemoryResult:
    """Save commands, configuration, endpoints or scripts for reuse."""
    return await stored(
        store,
        store.store_memory,
        MemoryKind.SYSTEM_MEMORY,
        content,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        title=title,
        description=description,
        tags=tags,
        metadata=metadata,
        on_progress=on_progress,
    )


@tool(
    title="Store report",
    annotations=STORES,
    meta=found_by("remember this, save memory, note, finding, result, summary of work", always=True),
)
async def store_report(
    *,
    store: Store,
    on_progress: OnProgress,
    content: Document,
    agent_id: AgentId = None,
    session_id: SessionId = None,
    session_iter: OptionalIteration = None,
    task_code: TaskCode = None,
    title: Title = None,
    description: Description = None,
    tags: Tags = None,
    metadata: Metadata = None,
) -> StoreMemoryResult:
    """Save finished findings. Long texts are fine."""
    return await stored(
        store,
        store.store_memory,
        MemoryKind.REPORT,
        content,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        title=title,
        description=description,
        tags=tags,
        metadata=metadata,
        on_progress=on_progress,
    )


@tool(title="Store report observation", annotations=STORES, meta=found_by("correct, add to report, save memory"))
async def store_report_observation(
    *,
    store: Store,
    on_progress: OnProgress,
    content: Content,
    agent_id: AgentId = None,
    session_id: SessionId = None,
    session_iter: OptionalIteration = None,
    task_code: TaskCode = None,
    title: Title = None,
    description: Description = None,
    tags: Tags = None,
    metadata: Metadata = None,
    parent_report_id: ReportId = None,
) -> StoreMemoryResult:
    """Save a correction or addition to a report."""
    return await stored(
        store,
        store.store_memory,
        MemoryKind.REPORT_OBSERVATION,
        content,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        title=title,
        description=description,
        tags=tags,
        metadata=metadata,
        parent_report_id=parent_report_id,
        on_progress=on_progress,
    )


@tool(
    title="Store working memory",
    annotations=STORES,
    meta=found_by("remember, save memory, note, interim finding, progress"),
)
async def store_working_memory(
    *,
    store: Store,
    on_progress: OnProgress,
    content: Document,
    agent_id: AgentId = None,
    session_id: SessionId = None,
    session_iter: OptionalIteration = None,
    task_code: TaskCode = None,
    title: Title = None,
    description: Description = None,
    tags: Tags = None,
    metadata: Metadata = None,
) -> StoreMemoryResult:
    """Save interim findings during a task. Save finished findings as a report."""
    return await stored(
        store,
        store.store_memory,
        MemoryKind.WORKING_MEMORY,
        content,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        title=title,
        description=description,
        tags=tags,
        metadata=metadata,
        on_progress=on_progress,
    )


@tool(
    title="Store knowledge base entry",
    annotations=STORES,
    meta=found_by("remember this, save memory, lasting fact, convention, decision, lesson"),
)
async def store_knowledge_base(
    *,
    store: Store,
    on_progress: OnProgress,
    title: Annotated[str, Field(description="Title")],
    content: Document,
    agent_id: AgentId = None,
    category: Annotated[str | None, Field(description=f"Default {DEFAULT_CATEGORY}")] = None,
    description: Description = None,
    tags: Tags = None,
    metadata: Metadata = None,
) -> StoreMemoryResult:
    """Save knowledge for all sessions and agents."""
    return await stored(
        store,
        store.store_memory,
        MemoryKind.KNOWLEDGE_BASE,
        content,
        agent_id=agent_id,
        title=title,
        category=category,
        description=description,
        tags=tags,
        metadata=metadata,
        on_progress=on_progress,
    )
