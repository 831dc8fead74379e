"""The verbs of `storage.connection` for this engine, and what it reads and writes in its own way."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from vector_memory.domain import Chunk, Fingerprint, MemoryKind, NewMemory, Scope
from vector_memory.storage.connection import NOTHING, Asked, Parameters
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.dialect import as_postgres
from vector_memory.storage.postgres.generations import gaps_in
from vector_memory.storage.postgres.rows import rows_of
from vector_memory.storage.postgres.statement import Statement
from vector_memory.storage.queries.insert import Numbered, Passage, duplicate_of
from vector_memory.storage.records import Cursor, Memory, Pending
from vector_memory.storage.transactions import Reader, Writer

if TYPE_CHECKING:
    from vector_memory.storage.maintenance_api import Upkeep
    from vector_memory.storage.postings import Words
    from vector_memory.storage.scoring import CandidateSource, IndexFeed, Method, Numbers, Vectors

# Modules that import numpy are imported where they are used: commands that only list memories do not need it.
# ruff: noqa: PLC0415, D102 - the methods are described in storage.transactions


T = TypeVar("T")


class PostgresConnection:
    """`storage.connection.Connection` over a connection in a transaction, which is `raw`."""

    def __init__(self, raw: Connection) -> None:
        self.raw = raw

    def fetch(self, make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> list[T]:
        """Run a query and return `make(**columns)` for each row."""
        return rows_of(self.raw.execute(as_postgres(sql), parameters, binary=True), make)

    def fetch_one(self, make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> T | None:
        """Run a query and return `make(**columns)` for its first row, or None."""
        return next(iter(self.fetch(make, sql, parameters)), None)

    def fetch_value(self, sql: str, parameters: Parameters = NOTHING) -> Any:
        """Run a query and return the first column of its first row, or None."""
        return next(iter(self.fetch_column(sql, parameters)), None)

    def fetch_column(self, sql: str, parameters: Parameters = NOTHING) -> list[Any]:
        """Run a query and return the first column of every row."""
        return [row[0] for row in self.raw.execute(as_postgres(sql), parameters, binary=True).fetchall()]

    def batch(self, *asked: Asked) -> list[list[Any]]:
        """Run several queries in one round trip."""
        cursors = self.raw.together(*(Statement(as_postgres(one.sql), one.parameters, binary=True) for one in asked))
        return [rows_of(cursor, one.make) for cursor, one in zip(cursors, asked, strict=True)]

    def later(self, sql: str, parameters: Parameters = NOTHING) -> None:
        """Send a statement with the next one that is read, or with the commit."""
        self.raw.later(as_postgres(sql), parameters)


class PostgresReader(Reader):
    """A reader over a connection in a transaction."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(PostgresConnection(connection))
        self.raw = connection

    def together(self, *reads: Callable[[Reader], Any]) -> list[Any]:
        return self.raw.gathered(reads, self)

    def mean_vectors(self, memory_ids: Sequence[int]) -> "tuple[Numbers, Vectors]":
        from vector_memory.storage.postgres import vectors

        return vectors.mean_vectors(self.raw, memory_ids)

    def cursor(self) -> Cursor:
        state = self.raw.state
        return Cursor(state.last_memory_id, gaps=gaps_in(state.generations, state.lineage, state.last_memory_id))

    def pending(self, scope: Scope, until: int | None = None, owner: str | None = None) -> Pending:
        return super().pending(scope, until, owner) if self.raw.state.pending else Pending()

    def fingerprint(self) -> Fingerprint | None:
        from vector_memory.storage.postgres import vectors

        return vectors.fingerprint_of(self.raw)

    def require_comparable(self, fingerprint: Fingerprint) -> None:
        from vector_memory.storage.postgres import vectors

        vectors.require_same_fingerprint(self.raw, fingerprint)

    def token_states(self, kind: MemoryKind, unit_ids: Sequence[int]) -> dict[int, list[bytes | None]]:
        from vector_memory.storage.postgres import vectors

        return vectors.token_states(self.raw, kind, unit_ids)

    def candidates(self, scope: Scope, method: "Method") -> "CandidateSource":
        from vector_memory.storage.postgres.candidates import PostgresCandidates

        return PostgresCandidates(PostgresConnection(self.raw), scope, method)

    @cached_property
    def feed(self) -> "IndexFeed":
        from vector_memory.storage.postgres.feed import PostgresFeed

        return PostgresFeed(self.raw)

    @property
    def upkeep(self) -> "Upkeep":
        from vector_memory.storage.maintenance_api import Upkeep
        from vector_memory.storage.postgres import bulk_read, keywords, reembedding

        vectors, portions = reembedding.PostgresSpareVectors(self.raw), bulk_read.PostgresPortions(self.raw)
        return Upkeep(vectors, portions, partial(keywords.rebuild, self.raw))


class PostgresWriter(PostgresReader, Writer):
    """A writer over a connection in a write transaction."""

    def discard_vectors(self, memory_id: int) -> None:
        from vector_memory.storage.postgres import vectors

        vectors.discard_partial_vectors(self.raw, memory_id)

    def find_duplicate(self, new: NewMemory, content_hash: str, at: str | None = None) -> int | None:
        """Read what `add_memory` needs in the same round trip."""
        from vector_memory.storage.postgres import keywords

        asked = duplicate_of(new, content_hash, at)
        found, block = self.raw.together(
            Statement(as_postgres(asked.sql), asked.parameters), keywords.latest_block(new.session_id)
        )
        self.raw.state.blocks[new.session_id] = keywords.block_in(block)
        return next((int(number) for (number,) in found.fetchall()), None)

    def next_ids(self, of: Numbered, count: int) -> list[int]:
        return self.raw.state.next_ids(of, count)

    def insert_chunk_rows(self, memory: Memory, chunks: Sequence[Chunk], ids: Sequence[int], *, enriched: bool) -> None:
        from vector_memory.storage.postgres import insert

        insert.insert_chunk_rows(self.raw, memory.id, chunks, ids, enriched=enriched)

    def add_words(self, memory: Memory, words: "Words") -> None:
        from vector_memory.storage.postgres import keywords

        keywords.add(self.raw, memory.id, memory.session_id, words)

    def remove_words(self, memory_id: int) -> None:
        from vector_memory.storage.postgres import keywords

        keywords.remove(self.raw, memory_id)

    def adopt_fingerprint(self, fingerprint: Fingerprint) -> int:
        from vector_memory.storage.postgres import vectors

        return vectors.adopt_fingerprint(self.raw, fingerprint)

    def add_passages(
        self,
        memory: Memory,
        passages: Sequence[Passage],
        vectors: "Vectors",
        states: Sequence[bytes | None] | None = None,
    ) -> None:
        from vector_memory.storage.postgres import vectors as tables

        tables.add_passages(self.raw, memory, passages, vectors, states)
