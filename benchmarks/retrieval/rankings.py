"""The rankings that are compared: the store's own search modes, and the design of the original server."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np
from judged import JudgedSet, Question

from vector_memory.chunking import chunk_document, find_token_counter
from vector_memory.domain import MemoryKind, Page, Scope, SearchMode
from vector_memory.embedding import Embedder
from vector_memory.errors import DuplicateMemoryError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

DEPTH = 10

FIRST = datetime(2026, 1, 5, tzinfo=UTC)
APART = timedelta(minutes=7)
"""When the first document of a scope was stored, and how long after it the next one."""


class Ranking(Protocol):
    """A way to answer questions."""

    def rank(self, question: Question) -> list[str]:
        """Return the ids of the ten best documents of the question's scope, best first."""
        ...


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


class OriginalDesign:
    """The original: chunks of 450 tokens, one vector each, of which the model reads the first 256 word pieces."""

    def __init__(self, judged: JudgedSet, embedder: Embedder) -> None:
        settings = Settings()
        count = find_token_counter(lambda text: len(embedder.token_spans(text)))
        self._embedder = embedder
        self._scopes = judged.scopes
        self._vectors = {}
        for name, text in judged.documents.items():
            chunks = chunk_document(text, count, settings.default_chunk_size, settings.default_chunk_overlap)
            self._vectors[name] = embedder.embed([chunk.text for chunk in chunks])

    def rank(self, question: Question) -> list[str]:
        """Order the documents by the cosine of their best chunk."""
        (query,) = self._embedder.embed([question.text])
        names = self._scopes[question.scope]
        best = np.array([(self._vectors[name] @ query).max() for name in names])
        return [names[index] for index in np.argsort(-best, kind="stable")[:DEPTH]]


@contextmanager
def rankings(judged: JudgedSet, embedder: Embedder) -> Iterator[dict[str, Ranking]]:
    """Store a set, its scopes as sessions, and yield every ranking by its name, the default search first."""
    with TemporaryDirectory() as folder, ExitStack() as open_stores:
        path = Path(folder) / "memory.db"
        stores = {mode: open_stores.enter_context(opened(path, mode, embedder)) for mode in SearchMode}
        documents = dict(filled(stores[SearchMode.HYBRID], judged))
        found: dict[str, Ranking] = {
            str(mode): SearchModeRanking(store, judged, documents) for mode, store in stores.items()
        }
        without = open_stores.enter_context(opened(path, SearchMode.HYBRID, embedder, late_interaction=False))
        found[f"{SearchMode.HYBRID}, without late interaction"] = SearchModeRanking(without, judged, documents)
        yield {**found, "original design": OriginalDesign(judged, embedder)}


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
    """Store the documents of every scope; yield which memory is which. Of equal documents the first counts."""
    yield from filled_as(store, judged, judged.kind)


def filled_as(store: SessionMemoryStore, judged: JudgedSet, kind: MemoryKind) -> Iterator[tuple[int, str]]:
    """Store the documents as memories of one kind, minutes apart: a later one may then pass for a correction."""
    for scope, names in judged.scopes.items():
        for number, name in enumerate(names):
            created = (FIRST + number * APART).isoformat()
            try:
                receipt = store.store_memory(kind, judged.documents[name], session_id=scope, created_at=created)
            except DuplicateMemoryError:
                continue
            if receipt.memory_id is not None:
                yield receipt.memory_id, name
