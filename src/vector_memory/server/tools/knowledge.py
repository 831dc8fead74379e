"""The tools that find entries of the knowledge base, at one of three granularities."""

from functools import partial

from fastmcp.tools import tool

from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.results.mapping import said_once
from vector_memory.results.sessions import (
    CoarseSearchResult,
    FineSearchResult,
    MediumSearchResult,
)
from vector_memory.search.probes import required
from vector_memory.server.tools.params import (
    READS,
    CreatedAfter,
    CreatedBefore,
    Detail,
    Explain,
    Limit,
    MaxTokens,
    Mode,
    OfAgent,
    OfCategory,
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


@tool(
    title="Search knowledge base: chunks",
    annotations=READS,
    meta=found_by("recall, search memory, knowledge, convention, decision"),
)
def search_knowledge_base_specific_chunks(
    *,
    store: Store,
    query: OneQuery = None,
    queries: Queries = None,
    agent_id: OfAgent = None,
    category: OfCategory = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 10,
    search_mode: Mode = None,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> FineSearchResult:
    """Find a fact in the knowledge base: the chunks closest in meaning."""
    scope = Scope(
        MemoryKind.KNOWLEDGE_BASE,
        agent_id=agent_id,
        category=category,
        created_after=created_after,
        created_before=created_before,
    )
    questions = required(query, queries)
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens)
    search = partial(store.search_chunks, questions, scope, mode=search_mode)
    return traced(store, lambda page: said_once(search(page)), questions, scope, page, explain, mode=search_mode)


@tool(title="Search knowledge base: sections", annotations=READS)
def search_knowledge_base_section_context(
    *,
    store: Store,
    query: Query,
    agent_id: OfAgent = None,
    category: OfCategory = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 5,
    search_mode: Mode = None,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> MediumSearchResult:
    """Find full sections of the knowledge base on a topic."""
    scope = Scope(
        MemoryKind.KNOWLEDGE_BASE,
        agent_id=agent_id,
        category=category,
        created_after=created_after,
        created_before=created_before,
    )
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens)
    search = partial(store.search_sections, query, scope, mode=search_mode)
    return traced(
        store, lambda page: said_once(search(page)), query, scope, page, explain, grain="section", mode=search_mode
    )


@tool(title="Search knowledge base: documents", annotations=READS)
def search_knowledge_base_full_documents(
    *,
    store: Store,
    query: OptionalQuery = None,
    agent_id: OfAgent = None,
    category: OfCategory = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 3,
    order: Order = None,
    detail: Detail = None,
    offset: Skip = 0,
    max_tokens: MaxTokens = None,
    explain: Explain = None,
) -> CoarseSearchResult:
    """Read whole knowledge base entries: the best matches, or the newest."""
    scope = Scope(
        MemoryKind.KNOWLEDGE_BASE,
        agent_id=agent_id,
        category=category,
        created_after=created_after,
        created_before=created_before,
    )
    page = Page(limit=limit, offset=offset, max_tokens=max_tokens, detail=detail)
    search = partial(store.search_documents, query, scope, order=order)
    return traced(store, search, query, scope, page, explain, grain="document", order=order)
