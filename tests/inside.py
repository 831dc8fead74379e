"""The one place where tests reach behind the facade: to see what a memory keeps, and to change it as others would."""

from typing import Any

import apsw
import pytest

from vector_memory.extras.postgres.transactions import PostgresConnection
from vector_memory.search import Retriever, rank
from vector_memory.storage.base import Storage
from vector_memory.storage.queries.keywords import KeywordIndex
from vector_memory.storage.sqlite.transactions import SqliteConnection
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.indexer import Indexer


def storage_of(store: SessionMemoryStore) -> Storage:
    """Return the interface of the engine that keeps a memory."""
    return store._storage


def database_of(memory: SessionMemoryStore | Storage) -> Any:
    """Return the connections of the engine: `read()` and `write()` yield one that executes SQL."""
    return (memory if hasattr(memory, "_database") else memory._storage)._database


def retriever_of(store: SessionMemoryStore) -> Retriever:
    """Return what finds the passages of a query."""
    return store._search.retriever


def indexer_of(store: SessionMemoryStore) -> Indexer:
    """Return what derives chunks, words and vectors from a text."""
    return store._indexer


def stop_counting(store: SessionMemoryStore) -> None:
    """Write down which memories were read, and count no more."""
    store._access.close()


def rebuild_words(connection: Any) -> None:
    """Rebuild the keyword index, in a transaction of either engine."""
    is_file = isinstance(connection, apsw.Connection)
    words = KeywordIndex(SqliteConnection(connection) if is_file else PostgresConnection(connection))
    words.clear()
    words.fill()


def compare_all(patch: pytest.MonkeyPatch) -> None:
    """Let searches of however many units compare all passages."""
    _limit_exact(patch, 10**9)


def compare_likeliest(patch: pytest.MonkeyPatch, count: int = rank.MAX_COMPARED) -> None:
    """Let searches of however few units compare only so many of the likeliest passages, or a few more."""
    _limit_exact(patch, 0)
    patch.setattr(rank, "MIN_COMPARED", 2 * count)


def _limit_exact(patch: pytest.MonkeyPatch, units: int) -> None:
    for name in ("MAX_EXACT_UNITS", "MAX_EXACT_UNITS_OF_SESSION"):
        patch.setattr(rank, name, units)
