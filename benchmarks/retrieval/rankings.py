"""Rankings by the store's own search: a set stored in a memory, and its questions asked."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from judged import JudgedSet, Question

from vector_memory.domain import Page, Scope, SearchMode
from vector_memory.embedding import Embedder
from vector_memory.errors import DuplicateMemoryError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

DEPTH = 10

FIRST = datetime(2026, 1, 5, tzinfo=UTC)
APART = timedelta(minutes=7)
"""When the first document of a scope was stored, and how long after it the next one."""


class SearchModeRanking:
    """The real search of the real store. `documents`: what each memory is."""

    def __init__(self, store: SessionMemoryStore, judged: JudgedSet, documents: Mapping[int, str]) -> None:
        self._store = store
        self._kind = judged.kind
        self._documents = documents

    def rank(self, question: Question) -> list[str]:
        """Search for whole documents by relevance: each counts with its best chunk."""
        scope = Scope(self._kind, session_id=question.scope)
        found = self._store.search_documents(question.text, scope, Page(limit=DEPTH), order="relevance")
        return [self._documents[memory.id] for memory in found.results]


def opened(path: Path, mode: SearchMode, embedder: Embedder, *, late_interaction: bool = True) -> SessionMemoryStore:
    """Open a store that never cuts an answer: what counts is the order."""
    settings = Settings(
        search_mode=mode,
        late_interaction=late_interaction,
        max_response_tokens=1_000_000,
        sqlite_synchronous="NORMAL",
    )
    return SessionMemoryStore(path, settings, embedder=embedder)


def filled(store: SessionMemoryStore, judged: JudgedSet) -> Iterator[tuple[int, str]]:
    """Store the documents of every scope; yield which memory is which. Of equal documents the first counts.

    They are stored minutes apart: a later one may then pass for a correction.
    """
    for scope, names in judged.scopes.items():
        for number, name in enumerate(names):
            created = (FIRST + number * APART).isoformat()
            try:
                receipt = store.store_memory(judged.kind, judged.documents[name], session_id=scope, created_at=created)
            except DuplicateMemoryError:
                continue
            if receipt.memory_id is not None:
                yield receipt.memory_id, name
