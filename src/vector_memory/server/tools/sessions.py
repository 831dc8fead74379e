"""The tools that read stored memories, catch up with other agents, count, list and delete."""

import asyncio
from functools import partial
from typing import Annotated, Any

from fastmcp import Context
from fastmcp.tools import tool
from mcp_types import InputRequiredResult
from pydantic import Field

from vector_memory.answers import documents
from vector_memory.answers.models import ChangesResult
from vector_memory.answers.overview import CleanupResult, SessionsResult, SessionStatsResult
from vector_memory.domain import TRAITS, Page, Scope, Window
from vector_memory.domain.text import counted
from vector_memory.domain.validation import check_range
from vector_memory.server.conversation import client_of
from vector_memory.server.current_store import SessionMemoryStore
from vector_memory.server.tools import params
from vector_memory.server.tools.confirmation import confirm
from vector_memory.server.turns import in_writers_thread, until_new


@tool(
    title="Load session context for task",
    annotations=params.READS,
    meta=params.found_by("continue where we left off, resume, what did we do last time, recall session", always=True),
)
def load_session_context_for_task(
    *,
    store: params.Store,
    session_id: params.InSession,
    session_iter: params.LatestIteration = None,
    max_tokens: Annotated[params.WholeNumber | None, Field(description="Maximum answer length; default 4000")] = None,
    as_of: params.AsOf = None,
) -> documents.TaskContextResult:
    """Continue a session: read its saved state and prompts, and the beginnings of its latest reports and notes."""
    return store.load_session_context_for_task(session_id, session_iter, max_tokens, as_of)


@tool(title="Expand chunk context", annotations=params.READS)
def expand_chunk_context(
    *,
    store: params.Store,
    chunk_id: params.ChunkId,
    surrounding_chunks: Annotated[params.WholeNumber, Field(description="Chunks on each side (0-50)")] = 2,
) -> documents.ExpandedChunkResult:
    """Read the text around a chunk that a search found."""
    return store.expand_chunk_context(chunk_id, surrounding_chunks)


@tool(title="Reconstruct document", annotations=params.READS)
def reconstruct_document(
    *, store: params.Store, memory_id: params.MemoryId, offset: params.Offset = 0
) -> documents.DocumentResult:
    """Read the exact text of a document; long documents in parts, by offset."""
    return store.reconstruct_document(memory_id, offset)


@tool(title="Get memory by id", annotations=params.READS)
def get_memory_by_id(
    *, store: params.Store, memory_id: params.MemoryId, offset: params.Offset = 0
) -> documents.MemoryResult:
    """Session memory: read one of any kind by id; long ones in parts, by offset."""
    return store.get_memory_by_id(memory_id, offset)


@tool(
    title="Write document to file",
    annotations=params.DELETES,  # because of `overwrite`; repeating the call writes the same file
)
def write_document_to_file(
    *,
    store: params.Store,
    memory_id: params.MemoryId,
    output_path: Annotated[str, Field(description="Path inside the export folder")],
    overwrite: Annotated[params.Switch, Field(description="Replace an existing file")] = False,
) -> documents.ExportResult:
    """Export a memory to a Markdown file with YAML front matter."""
    return store.write_document_to_file(memory_id, output_path, overwrite=overwrite)


# What is new in a session.

MAX_WAIT = 50
"""Seconds: Codex gives up on a call after 60."""

SESSION_KINDS = [str(kind) for kind, traits in TRAITS.items() if traits.session_scoped]

SINCE = 'cursor of the last answer; default: from the start; "now": only a cursor'
WAIT = "Seconds to wait for something new, up to 50"

PARAMETERS: params.Parameters = {
    "store": (params.Store,),
    "session_id": (params.InSession,),
    "since": (Annotated[params.TextOrNumber | None, Field(description=SINCE)], None),
    "own_agent_id": (Annotated[str | None, Field(description="Your agent_id: omits your own memories")], None),
    "query": (Annotated[str | None, Field(description="Best matches first, not oldest first")], None),
    "memory_type": (
        Annotated[str | None, Field(description="Only this kind", json_schema_extra={"enum": [*SESSION_KINDS]})],
        None,
    ),
    **params.all_but(params.FILTERED, "agent_id", "session_id", "category"),
    "limit": (params.Limit, 20),
    "full": (Annotated[params.Switch, Field(description="Whole texts as far as they fit, not beginnings")], False),
    "max_tokens": (params.MaxTokens, None),
    "wait": (Annotated[params.WholeNumber, Field(description=WAIT)], 0),
}


async def changes_since(
    *,
    store: SessionMemoryStore,
    since: str | int | None,
    query: str | None,
    memory_type: str | None,
    limit: int,
    full: bool,
    max_tokens: int | None,
    wait: int,
    **filters: Any,
) -> ChangesResult:
    """Return what is new, as soon as there is something or the time is up."""
    check_range("wait", wait, 0, MAX_WAIT)
    scope, page = Scope(memory_type, **filters), Page(limit=limit, max_tokens=max_tokens)

    def changes(since: str | int | None) -> ChangesResult:
        return store.search_changes(scope, since=since, query=query, page=page, full=full)

    return await until_new(store, changes, since, wait)


search_changes = params.declared(
    changes_since,
    "search_changes",
    "Search changes",
    """Catch up: see what other agents stored in a session since your last call.

    Shows beginnings: read the rest with get_memory_by_id. Keep the cursor for the next call. While has_more is true,
    call again.
    """,
    PARAMETERS,
    params.READS,
    params.found_by("catch up, what is new, what did other agents do, recall"),
)


# Counting, listing and deleting.


@tool(title="Get session statistics", annotations=params.READS)
def get_session_stats(*, store: params.Store, session_id: params.InSession) -> SessionStatsResult:
    """Count a session's memories by kind and agent."""
    return store.get_session_stats(session_id)


@tool(
    title="List sessions",
    annotations=params.READS,
    meta=params.found_by("what did we do last time, recall, history, which session to continue"),
)
def list_sessions(
    *,
    store: params.Store,
    limit: params.Limit = 20,
    agent_id: params.OfAgent = None,
    created_after: params.CreatedAfter = None,
    created_before: params.CreatedBefore = None,
    as_of: params.AsOf = None,
) -> SessionsResult:
    """List sessions, latest activity first."""
    window = Window(created_after=created_after, created_before=created_before, as_of=as_of)
    return store.list_sessions(limit, agent_id, **window)


@tool(title="Delete memory", annotations=params.DELETES)
async def delete_memory(
    *, store: params.Store, context: Context, memory_id: params.MemoryId
) -> documents.DeleteResult | InputRequiredResult:
    """Session memory: delete one by id, with its chunks. People can undo or erase it: `vector-memory undo`."""
    if asked := await confirm(context, partial(store.describe_memory, memory_id)):
        return asked
    return await in_writers_thread(store.delete_memory, memory_id, by=client_of(context))


@tool(title="Clean up old memories", annotations=params.CLEANS_UP)
async def cleanup_old_memories(
    *,
    store: params.Store,
    context: Context,
    days_old: Annotated[params.WholeNumber, Field(description="Minimum age in days")] = 90,
    dry_run: Annotated[params.Switch, Field(description="Only count")] = True,
) -> CleanupResult | InputRequiredResult:
    """Count the memories of all sessions older than days_old; with dry_run=false, delete them."""
    if dry_run:
        return await asyncio.to_thread(store.cleanup_old_memories, days_old)
    if asked := await confirm(context, partial(_older_than, store, days_old)):
        return asked
    return await in_writers_thread(store.cleanup_old_memories, days_old, dry_run=False, by=client_of(context))


def _older_than(store: SessionMemoryStore, days_old: int) -> str:
    number = store.cleanup_old_memories(days_old, dry_run=True).memories_deleted
    memories, days = counted(number, "memory", "memories"), counted(days_old, "day")
    return f"{memories} older than {days}, from all sessions and agents"
