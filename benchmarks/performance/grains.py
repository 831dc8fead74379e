"""The ways of searching that are measured."""

from collections.abc import Callable

from vector_memory.domain import Page, Scope
from vector_memory.store import SessionMemoryStore

LIMIT = 10

GRAINS: dict[str, Callable[[SessionMemoryStore, str, Scope], object]] = {
    "fine": lambda store, query, scope: store.search_chunks(query, scope, Page(limit=LIMIT)),
    "medium": lambda store, query, scope: store.search_sections(query, scope, Page(limit=LIMIT)),
    "coarse, best": lambda store, query, scope: store.search_documents(
        query, scope, Page(limit=LIMIT), order="relevance"
    ),
    "coarse, newest": lambda store, query, scope: store.search_documents(
        query, scope, Page(limit=LIMIT), order="recent"
    ),
    "fine, by meaning": lambda store, query, scope: store.search_chunks(query, scope, Page(limit=LIMIT), mode="vector"),
    "fine, by words": lambda store, query, scope: store.search_chunks(query, scope, Page(limit=LIMIT), mode="keyword"),
}
"""Through the facade, as the tools do it; every query is new, so that its embedding is a part of it."""
