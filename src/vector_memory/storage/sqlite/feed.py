"""The IndexFeed of a file."""

from collections.abc import Callable, Sequence

from vector_memory.domain import Scope
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.postings import FoundPostings
from vector_memory.storage.queries.feed import IndexFeed, NewPassages, Occurring, PlacedPassage, Revision
from vector_memory.storage.scoring import Numbers, Vectors, signatures_of
from vector_memory.storage.sqlite.candidates import all_vectors_of, read_postings, table_of
from vector_memory.storage.sqlite.transactions import SqliteConnection, vector_dimensions
from vector_memory.storage.sqlite.vec0.blocks import read_scattered_vectors

# ruff: noqa: D102 - the methods are described in storage.queries.feed

MISSING = "The revision record of the database is missing: run `vector-memory doctor --fix`."

REVISION = """
select epoch, removals,
    coalesce((select seq from sqlite_sequence where name = 'session_memories'), 0) as last_memory_id,
    coalesce((select seq from sqlite_sequence where name = 'memory_chunks'), 0) as last_chunk_id,
    coalesce((select seq from sqlite_sequence where name = 'memory_passages'), 0) as last_passage_id
from revision
"""


class SqliteFeed(IndexFeed):
    """The IndexFeed of a file, in the connection's transaction."""

    connection: SqliteConnection

    def revision(self) -> Revision:
        revision = self.connection.fetch_one(Revision, REVISION)
        if revision is None:
            raise DamagedError(MISSING)
        return revision

    def dimensions(self) -> int:
        return vector_dimensions(self.connection.raw)

    def read_ahead(self, asked: Callable[[], Occurring]) -> None:
        """Do nothing: reading takes as long at any time."""

    def passages_after(self, passage_id: int, limit: int, *, with_vectors: bool) -> NewPassages:  # noqa: ARG002
        """Return at most `limit` passages with ids above `passage_id`, always with their vectors."""
        sql = """
            select id, memory_id, coalesce(chunk_id, memory_id) as unit_id from memory_passages
            where id > %(id)s order by id limit %(limit)s
        """
        placed = self.connection.fetch(PlacedPassage, sql, {"id": passage_id, "limit": limit})
        ids, vectors = self.vectors([passage.id for passage in placed])
        readable = set(ids.tolist())
        return NewPassages(
            [passage for passage in placed if passage.id in readable],
            signatures_of(vectors),
            vectors,
            placed[-1].id if len(placed) == limit else None,
        )

    def existing_passages(self, passage_ids: Sequence[int]) -> list[int]:
        sql = "select p.id from {each:ids} join memory_passages p on p.id = each.value"
        return self.connection.fetch_column(sql, {"ids": list(passage_ids)})

    def vectors(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        return all_vectors_of(self.connection.raw, passage_ids)

    def scattered_vectors(self, scope: Scope, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the vectors of passages of a scope, one at a time."""
        return read_scattered_vectors(self.connection.raw, table_of(scope), self.dimensions(), passage_ids)

    def read_postings(self, row_ids: Numbers) -> FoundPostings:
        return read_postings(self.connection.raw, row_ids)
