"""The tools that change what stands beside a memory's text."""

from typing import Annotated

from fastmcp.tools import tool
from pydantic import BeforeValidator, Field

from vector_memory.results.documents import AmendResult
from vector_memory.server.tools.params import STORES, MemoryId, Store, from_json
from vector_memory.server.turns import in_writers_thread


@tool(title="Pin memory", annotations=STORES)
async def pin_memory(
    *, store: Store, memory_id: MemoryId, pinned: Annotated[bool, Field(description="false: unpin")] = True
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
