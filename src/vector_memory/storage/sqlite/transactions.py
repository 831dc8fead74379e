"""The verbs of `storage.connection` for this engine, and what it reads and writes in its own way."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from vector_memory.domain import Chunk, Fingerprint, MemoryKind, Scope
from vector_memory.storage.connection import NOTHING, Asked, Parameters
from vector_memory.storage.queries.insert import Numbered, Passage
from vector_memory.storage.records import Cursor, Memory
from vector_memory.storage.sqlite import rows
from vector_memory.storage.sqlite.dialect import as_sqlite, bound
from vector_memory.storage.transactions import Reader, Writer

if TYPE_CHECKING:
    from vector_memory.storage.maintenance_api import Upkeep
    from vector_memory.storage.postings import Words
    from vector_memory.storage.scoring import CandidateSource, IndexFeed, Method, Numbers, Vectors

# Modules that import numpy are imported where they are used: commands that only list memories do not need it.
# ruff: noqa: PLC0415, D102 - the methods are described in storage.transactions


T = TypeVar("T")

TABLES: dict[Numbered, str] = {"memory": "session_memories", "chunk": "memory_chunks", "passage": "memory_passages"}
"""What has ids of its own, and where."""


class SqliteConnection:
    """`storage.connection.Connection` over a connection in a transaction, which is `raw`."""

    def __init__(self, raw: apsw.Connection) -> None:
        self.raw = raw

    def fetch(self, make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> list[T]:
        """Run a query and return `make(**columns)` for each row."""
        return rows.fetch(self.raw, make, as_sqlite(sql), bound(parameters))

    def fetch_one(self, make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> T | None:
        """Run a query and return `make(**columns)` for its first row, or None."""
        return rows.fetch_one(self.raw, make, as_sqlite(sql), bound(parameters))

    def fetch_value(self, sql: str, parameters: Parameters = NOTHING) -> Any:
        """Run a query and return the first column of its first row, or None."""
        return rows.fetch_value(self.raw, as_sqlite(sql), bound(parameters))

    def fetch_column(self, sql: str, parameters: Parameters = NOTHING) -> list[Any]:
        """Run a query and return the first column of every row."""
        return rows.fetch_column(self.raw, as_sqlite(sql), bound(parameters))

    def batch(self, *asked: Asked) -> list[list[Any]]:
        """Run several queries, one after the other."""
        return [self.fetch(*one) for one in asked]

    def later(self, sql: str, parameters: Parameters = NOTHING) -> None:
        """Run a statement at once."""
        self.raw.execute(as_sqlite(sql), bound(parameters))


class SqliteReader(Reader):
    """A reader over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(SqliteConnection(connection))
        self.raw = connection

    def together(self, *reads: Callable[[Reader], Any]) -> list[Any]:
        return [read(self) for read in reads]

    def mean_vectors(self, memory_ids: Sequence[int]) -> "tuple[Numbers, Vectors]":
        from vector_memory.storage.sqlite import vectors

        return vectors.mean_vectors(self.raw, memory_ids)

    def cursor(self) -> Cursor:
        sql = "select seq from sqlite_sequence where name = 'session_memories'"
        return Cursor(int(self.connection.fetch_value(sql) or 0))

    def fingerprint(self) -> Fingerprint | None:
        from vector_memory.storage.sqlite import vectors

        return vectors.fingerprint_of(self.raw)

    def require_comparable(self, fingerprint: Fingerprint) -> None:
        from vector_memory.storage.sqlite import vectors

        vectors.require_same_fingerprint(self.raw, fingerprint)

    def token_states(self, kind: MemoryKind, unit_ids: Sequence[int]) -> dict[int, list[bytes | None]]:
        from vector_memory.storage.sqlite import vectors

        return vectors.token_states(self.raw, kind, unit_ids)

    def candidates(self, scope: Scope, method: "Method") -> "CandidateSource":
        from vector_memory.storage.sqlite.candidates import SqliteCandidates

        return SqliteCandidates(SqliteConnection(self.raw), scope, method)

    @property
    def feed(self) -> "IndexFeed":
        from vector_memory.storage.sqlite.feed import SqliteFeed

        return SqliteFeed(self.raw)

    @property
    def upkeep(self) -> "Upkeep":
        from vector_memory.storage.maintenance_api import Upkeep
        from vector_memory.storage.sqlite import bulk_read, keywords, reembedding

        vectors, portions = reembedding.SqliteSpareVectors(self.raw), bulk_read.SqlitePortions(self.raw)
        return Upkeep(vectors, portions, partial(keywords.rebuild, self.raw))


class SqliteWriter(SqliteReader, Writer):
    """A writer over a connection in a write transaction."""

    def discard_vectors(self, memory_id: int) -> None:
        from vector_memory.storage.sqlite import vectors

        vectors.discard_partial_vectors(self.raw, memory_id)

    def next_ids(self, of: Numbered, count: int) -> list[int]:
        return rows.next_ids(self.raw, TABLES[of], count)

    def insert_chunk_rows(self, memory: Memory, chunks: Sequence[Chunk], ids: Sequence[int], *, enriched: bool) -> None:
        from vector_memory.storage.sqlite import insert

        insert.insert_chunk_rows(self.raw, memory, chunks, ids, enriched=enriched)

    def add_words(self, memory: Memory, words: "Words") -> None:
        from vector_memory.storage.sqlite import keywords

        keywords.add(self.raw, memory.id, words)

    def remove_words(self, memory_id: int) -> None:
        from vector_memory.storage.sqlite import keywords

        keywords.remove(self.raw, memory_id)

    def adopt_fingerprint(self, fingerprint: Fingerprint) -> int:
        from vector_memory.storage.sqlite import vectors

        return vectors.adopt_fingerprint(self.raw, fingerprint)

    def add_passages(
        self,
        memory: Memory,
        passages: Sequence[Passage],
        vectors: "Vectors",
        states: Sequence[bytes | None] | None = None,
    ) -> None:
        from vector_memory.storage.sqlite import vectors as tables

        tables.add_passages(self.raw, memory, passages, vectors, states)
