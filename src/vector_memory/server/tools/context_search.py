"""The tools that read what a session's main agent has stored: states and the user's prompts."""

from functools import partial

from fastmcp.tools import tool

from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.results.sessions import SearchMemoriesResult
from vector_memory.search.neighbours import NEIGHBOURS
from vector_memory.server.tools.params import (
    READS,
    CreatedAfter,
    CreatedBefore,
    Detail,
    Explain,
    InSession,
    LatestFirst,
    Limit,
    MaxTokens,
    Neighbours,
    OfAgent,
    OfIteration,
    OptionalQuery,
    Skip,
    Store,
    found_by,
)
from vector_memory.server.tools.tracing import traced
from vector_memory.store import SessionMemoryStore


def in_session(
    store: SessionMemoryStore, query: str | None, scope: Scope, page: Page, *, latest_first: bool, neighbours: int = 0
) -> SearchMemoriesResult:
    """Return the memories of a session that match a query best, or without one the newest (or oldest)."""
    if query is None:
        return store.search_scoped(scope, page, latest_first=latest_first)
    return store.search_memories(query, scope, page, neighbours=neighbours)


@tool(title="Search session context", annotations=READS, meta=found_by("recall session state, where we left off"))
def search_session_context(
    *,
    store: Store,
    session_id: InSession,
    query: OptionalQuery = None,
    agent_id: OfAgent = None,
    session_iter: OfIteration = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 5,
    latest_first: LatestFirst = True,
    detail: Detail = None,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> SearchMemoriesResult:
    """Read a session's saved states, newest first."""
    scope = Scope(
        MemoryKind.SESSION_CONTEXT,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        created_after=created_after,
        created_before=created_before,
    )
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens, detail=detail)
    search = partial(in_session, store, query, scope, latest_first=latest_first)
    return traced(store, search, query, scope, page, explain)


@tool(title="Search input prompts", annotations=READS, meta=found_by("recall what the user asked, last time"))
def search_input_prompts(
    *,
    store: Store,
    session_id: InSession,
    query: OptionalQuery = None,
    agent_id: OfAgent = None,
    session_iter: OfIteration = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 5,
    latest_first: LatestFirst = True,
    neighbours: Neighbours = NEIGHBOURS,
    detail: Detail = None,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> SearchMemoriesResult:
    """Read a session's user prompts, newest first."""
    scope = Scope(
        MemoryKind.INPUT_PROMPT,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        created_after=created_after,
        created_before=created_before,
    )
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens, detail=detail)
    search = partial(in_session, store, query, scope, latest_first=latest_first, neighbours=neighbours)
    return traced(store, search, query, scope, page, explain)
