"""The one place where tests reach behind the facade: to see what a memory keeps, and to change it as others would."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw

from vector_memory.domain import Scope
from vector_memory.indexing.indexer import Indexer
from vector_memory.search import PassageIndex, Retriever
from vector_memory.storage.base import Storage
from vector_memory.storage.postgres.transactions import PostgresConnection
from vector_memory.storage.queries.keywords import KeywordIndex
from vector_memory.storage.queries.words import ScopeWords
from vector_memory.storage.sqlite.candidates import read_postings
from vector_memory.storage.sqlite.transactions import SqliteConnection
from vector_memory.storage.word_ranking import ScopeRanking, rank_units
from vector_memory.store import SessionMemoryStore


def storage_of(store: SessionMemoryStore) -> Storage:
    """Return the interface of the engine that keeps a memory."""
    return store._storage


def database_of(memory: SessionMemoryStore | Storage) -> Any:
    """Return the connections of the engine: `read()` and `write()` yield one that executes SQL."""
    return (memory if hasattr(memory, "_database") else memory._storage)._database


def index_of(store: SessionMemoryStore) -> PassageIndex:
    """Return what this process keeps in memory for searches."""
    return store._index


def load_index(store: SessionMemoryStore) -> None:
    """Answer from memory from now on."""
    store._index.start_loading()
    store._index.wait_for_loading()


def retriever_of(store: SessionMemoryStore) -> Retriever:
    """Return what finds the passages of a query."""
    return store._fine._retriever


def indexer_of(store: SessionMemoryStore) -> Indexer:
    """Return what derives chunks, words and vectors from a text."""
    return store._indexer


def stop_counting(store: SessionMemoryStore) -> None:
    """Write down which memories were read, and count no more."""
    store._access.close()


def rebuild_words(connection: Any) -> None:
    """Rebuild the keyword index, in a transaction of either engine."""
    is_file = isinstance(connection, apsw.Connection)
    KeywordIndex(SqliteConnection(connection) if is_file else PostgresConnection(connection)).rebuild()


def rank(connection: apsw.Connection, scope: Scope, terms: Sequence[str]) -> ScopeRanking:
    """Rank the units of a scope that contain any of the terms, from the tables."""
    return rank_units(ScopeWords(SqliteConnection(connection), scope, partial(read_postings, connection)), terms)
