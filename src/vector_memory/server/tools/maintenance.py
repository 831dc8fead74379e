"""The tools that count, list and delete."""

import asyncio
from functools import partial
from typing import Annotated

from fastmcp import Context
from fastmcp.tools import tool
from mcp_types import InputRequiredResult
from pydantic import Field

from vector_memory.answers.documents import DeleteResult
from vector_memory.answers.overview import CleanupResult, SessionsResult, SessionStatsResult
from vector_memory.domain import Window
from vector_memory.domain.text import counted
from vector_memory.server.current_store import SessionMemoryStore
from vector_memory.server.tools.confirmation import confirm
from vector_memory.server.tools.params import (
    CLEANS_UP,
    DELETES,
    READS,
    AsOf,
    CreatedAfter,
    CreatedBefore,
    InSession,
    Limit,
    MemoryId,
    OfAgent,
    Store,
    Switch,
    WholeNumber,
    found_by,
)
from vector_memory.server.turns import in_writers_thread


@tool(title="Get session statistics", annotations=READS)
def get_session_stats(*, store: Store, session_id: InSession) -> SessionStatsResult:
    """Count a session's memories by kind and agent."""
    return store.get_session_stats(session_id)


@tool(
    title="List sessions",
    annotations=READS,
    meta=found_by("what did we do last time, recall, history, which session to continue"),
)
def list_sessions(
    *,
    store: Store,
    limit: Limit = 20,
    agent_id: OfAgent = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    as_of: AsOf = None,
) -> SessionsResult:
    """List sessions, latest activity first."""
    window = Window(created_after=created_after, created_before=created_before, as_of=as_of)
    return store.list_sessions(limit, agent_id, **window)


@tool(title="Delete memory", annotations=DELETES)
async def delete_memory(*, store: Store, context: Context, memory_id: MemoryId) -> DeleteResult | InputRequiredResult:
    """Session memory: permanently delete one by id, with its chunks."""
    if asked := await confirm(context, partial(store.describe_memory, memory_id)):
        return asked
    return await in_writers_thread(store.delete_memory, memory_id)


@tool(title="Clean up old memories", annotations=CLEANS_UP)
async def cleanup_old_memories(
    *,
    store: Store,
    context: Context,
    days_old: Annotated[WholeNumber, Field(description="Minimum age in days")] = 90,
    dry_run: Annotated[Switch, Field(description="Only count")] = True,
) -> CleanupResult | InputRequiredResult:
    """Count the memories of all sessions older than days_old; with dry_run=false, permanently delete them."""
    if dry_run:
        return await asyncio.to_thread(store.cleanup_old_memories, days_old)
    if asked := await confirm(context, partial(_older_than, store, days_old)):
        return asked
    return await in_writers_thread(store.cleanup_old_memories, days_old, dry_run=False)


def _older_than(store: SessionMemoryStore, days_old: int) -> str:
    number = store.cleanup_old_memories(days_old, dry_run=True).memories_deleted
    memories, days = counted(number, "memory", "memories"), counted(days_old, "day")
    return f"{memories} older than {days}, from all sessions and agents"
