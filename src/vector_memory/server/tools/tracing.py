"""Adds to an answer how the search came to it, for whoever wants to know why something was not found."""

from typing import TypeVar

from vector_memory.domain import Page, Scope, SearchMode
from vector_memory.results.sessions import SearchResult
from vector_memory.store import SessionMemoryStore

A = TypeVar("A", bound=SearchResult)


def traced(
    store: SessionMemoryStore,
    answer: A,
    query: str | None,
    scope: Scope,
    page: Page,
    explain: str | int | None,
    mode: str | None = None,
) -> A:
    """Return the answer with a trace, if one was asked for and something was compared."""
    if explain is None or query is None:
        return answer
    memory_id = None if explain == "all" else explain
    return answer.model_copy(
        update={"trace": store.explaining.explain(query, scope, page, SearchMode.of(mode), memory_id)}
    )
