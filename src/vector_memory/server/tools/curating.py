"""The tools that keep a memory in order: they say what may be outdated, and change what stands beside a text."""

from typing import Annotated

from fastmcp.tools import tool
from pydantic import BeforeValidator, Field

from vector_memory.results.documents import AmendResult, SupersedeResult
from vector_memory.results.overview import ReviewResult
from vector_memory.server.tools.params import (
    READS,
    STORES,
    Limit,
    MemoryId,
    OfSession,
    Store,
    Switch,
    WholeNumber,
    from_json,
)
from vector_memory.server.turns import in_writers_thread


@tool(title="Review memories", annotations=READS)
def review_memories(*, store: Store, session_id: OfSession = None, limit: Limit = 20) -> ReviewResult:
    """List memories with later ones on their subject, and old ones never read."""
    return store.review(session_id, limit)


@tool(title="Supersede memories", annotations=STORES)
async def supersede_memories(
    *,
    store: Store,
    memory_id: MemoryId,
    older_ids: Annotated[list[WholeNumber], Field(description="Ids it replaces"), BeforeValidator(from_json)],
    release: Annotated[Switch, Field(description="true: they are current again")] = False,
) -> SupersedeResult:
    """Say that a stored memory replaces older ones, or no longer does."""
    return await in_writers_thread(store.release if release else store.supersede, memory_id, *older_ids)


@tool(title="Pin memory", annotations=STORES)
async def pin_memory(
    *, store: Store, memory_id: MemoryId, pinned: Annotated[Switch, Field(description="false: unpin")] = True
) -> AmendResult:
    """Keep a memory whatever its age, first in its session's context."""
    return await in_writers_thread(store.pin if pinned else store.unpin, memory_id)


@tool(title="Amend memory", annotations=STORES)
async def amend_memory(
    *,
    store: Store,
    memory_id: MemoryId,
    title: Annotated[str | None, Field(description='"" removes it')] = None,
    description: Annotated[str | None, Field(description="Summary")] = None,
    tags: Annotated[
        list[str] | None, Field(description="All of them", fail_fast=True), BeforeValidator(from_json)
    ] = None,
) -> AmendResult:
    """Change a memory's title, description or tags; to change its text, store another one."""
    return await in_writers_thread(store.amend_memory, memory_id, title=title, description=description, tags=tags)
