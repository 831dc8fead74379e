"""The tools that find memories: by time, or by meaning at one of three granularities."""

from functools import partial

from fastmcp.tools import tool

from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.results.mapping import said_once
from vector_memory.results.sessions import (
    CoarseSearchResult,
    FineSearchResult,
    MediumSearchResult,
    SearchMemoriesResult,
)
from vector_memory.search.neighbours import NEIGHBOURS
from vector_memory.search.probes import asked, required
from vector_memory.server.tools.params import (
    READS,
    CreatedAfter,
    CreatedBefore,
    Detail,
    Explain,
    Limit,
    MaxTokens,
    Mode,
    Neighbours,
    OfAgent,
    OfIteration,
    OfSession,
    OfTask,
    OneQuery,
    OptionalQuery,
    Order,
    Queries,
    Query,
    Skip,
    Store,
    found_by,
)
from vector_memory.server.tools.tracing import traced


@tool(title="Search system memory", annotations=READS, meta=found_by("recall, search memory, command, configuration"))
def search_system_memory(
    *,
    store: Store,
    query: OptionalQuery = None,
    agent_id: OfAgent = None,
    session_id: OfSession = None,
    session_iter: OfIteration = None,
    task_code: OfTask = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 10,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> SearchMemoriesResult:
    """Find saved commands and configuration by meaning."""
    scope = Scope(
        MemoryKind.SYSTEM_MEMORY,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        created_after=created_after,
        created_before=created_before,
    )
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens)
    search = partial(store.search_memories, query, scope)
    return traced(store, search, query, scope, page, explain)


@tool(
    title="Search reports: chunks",
    annotations=READS,
    meta=found_by("recall, search memory, find, what did we do last time, what do we know about", always=True),
)
def search_reports_specific_chunks(
    *,
    store: Store,
    query: OneQuery = None,
    queries: Queries = None,
    agent_id: OfAgent = None,
    session_id: OfSession = None,
    session_iter: OfIteration = None,
    task_code: OfTask = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 10,
    search_mode: Mode = None,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> FineSearchResult:
    """Find a fact in reports: the chunks closest in meaning. Try this first."""
    scope = Scope(
        MemoryKind.REPORT,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        created_after=created_after,
        created_before=created_before,
    )
    questions = required(query, queries)
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens)
    search = partial(store.search_chunks, questions, scope, mode=search_mode)
    return traced(store, lambda page: said_once(search(page)), questions, scope, page, explain, mode=search_mode)


@tool(title="Search reports: sections", annotations=READS, meta=found_by("recall, search memory, find, topic"))
def search_reports_section_context(
    *,
    store: Store,
    query: OneQuery = None,
    queries: Queries = None,
    agent_id: OfAgent = None,
    session_id: OfSession = None,
    session_iter: OfIteration = None,
    task_code: OfTask = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 5,
    search_mode: Mode = None,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> MediumSearchResult:
    """Find full sections of reports on a topic."""
    scope = Scope(
        MemoryKind.REPORT,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        created_after=created_after,
        created_before=created_before,
    )
    questions = required(query, queries)
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens)
    search = partial(store.search_sections, questions, scope, mode=search_mode)
    return traced(
        store, lambda page: said_once(search(page)), questions, scope, page, explain, grain="section", mode=search_mode
    )


@tool(
    title="Search reports: documents",
    annotations=READS,
    meta=found_by("recall, search memory, read report, what did we do last time"),
)
def search_reports_full_documents(
    *,
    store: Store,
    query: OptionalQuery = None,
    queries: Queries = None,
    agent_id: OfAgent = None,
    session_id: OfSession = None,
    session_iter: OfIteration = None,
    task_code: OfTask = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 3,
    order: Order = None,
    detail: Detail = None,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> CoarseSearchResult:
    """Read whole reports: the best matches, or the newest. To look over many, send detail="lines", then read by id."""
    scope = Scope(
        MemoryKind.REPORT,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        created_after=created_after,
        created_before=created_before,
    )
    questions = asked(query, queries)
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens, detail=detail)
    search = partial(store.search_documents, questions, scope, order=order)
    return traced(store, search, questions, scope, page, explain, grain="document", order=order)


@tool(title="Search working memory: chunks", annotations=READS, meta=found_by("recall, search memory, notes"))
def search_working_memory_specific_chunks(
    *,
    store: Store,
    query: OneQuery = None,
    queries: Queries = None,
    agent_id: OfAgent = None,
    session_id: OfSession = None,
    session_iter: OfIteration = None,
    task_code: OfTask = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 10,
    search_mode: Mode = None,
    neighbours: Neighbours = NEIGHBOURS,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> FineSearchResult:
    """Find a fact in working memory: the chunks closest in meaning."""
    scope = Scope(
        MemoryKind.WORKING_MEMORY,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        created_after=created_after,
        created_before=created_before,
    )
    questions = required(query, queries)
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens)
    search = partial(store.search_chunks, questions, scope, mode=search_mode, neighbours=neighbours)
    return traced(store, lambda page: said_once(search(page)), questions, scope, page, explain, mode=search_mode)


@tool(title="Search working memory: sections", annotations=READS)
def search_working_memory_section_context(
    *,
    store: Store,
    query: Query,
    agent_id: OfAgent = None,
    session_id: OfSession = None,
    session_iter: OfIteration = None,
    task_code: OfTask = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 5,
    search_mode: Mode = None,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> MediumSearchResult:
    """Find full sections of working memory on a topic."""
    scope = Scope(
        MemoryKind.WORKING_MEMORY,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        created_after=created_after,
        created_before=created_before,
    )
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens)
    search = partial(store.search_sections, query, scope, mode=search_mode)
    return traced(
        store, lambda page: said_once(search(page)), query, scope, page, explain, grain="section", mode=search_mode
    )


@tool(title="Search working memory: documents", annotations=READS)
def search_working_memory_full_documents(
    *,
    store: Store,
    query: OptionalQuery = None,
    agent_id: OfAgent = None,
    session_id: OfSession = None,
    session_iter: OfIteration = None,
    task_code: OfTask = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 3,
    order: Order = None,
    detail: Detail = None,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> CoarseSearchResult:
    """Read whole working memories: the best matches, or the newest."""
    scope = Scope(
        MemoryKind.WORKING_MEMORY,
        agent_id=agent_id,
        session_id=session_id,
        session_iter=session_iter,
        task_code=task_code,
        created_after=created_after,
        created_before=created_before,
    )
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens, detail=detail)
    search = partial(store.search_documents, query, scope, order=order)
    return traced(store, search, query, scope, page, explain, grain="document", order=order)
