"""The IndexFeed of a file: memories, units and passages for the in-memory index, and their postings."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import apsw
import numpy as np

from vector_memory.domain import Scope
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.postings import LENGTH, FoundPostings, place_of
from vector_memory.storage.queries.filters import memory_filter
from vector_memory.storage.scoring import (
    IndexedMemory,
    NewPassages,
    Numbers,
    Occurring,
    PlacedPassage,
    Revision,
    Vectors,
    signatures_of,
)
from vector_memory.storage.sqlite.dialect import as_sqlite, bound
from vector_memory.storage.sqlite.keywords import read_postings
from vector_memory.storage.sqlite.rows import fetch_column, fetch_one
from vector_memory.storage.sqlite.upgrading import has_old_words
from vector_memory.storage.sqlite.vec0.blocks import read_scattered_vectors
from vector_memory.storage.sqlite.vectors import all_vectors_of, table_of, vector_dimensions

MISSING = "The revision record of the database is missing: run `vector-memory doctor --fix`."


class SqliteFeed:
    """The IndexFeed of a file, in the connection's transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def revision(self) -> Revision:
        """Return the revision of the snapshot."""
        sql = """
            select epoch, removals,
                coalesce((select seq from sqlite_sequence where name = 'session_memories'), 0) as last_memory_id,
                coalesce((select seq from sqlite_sequence where name = 'memory_chunks'), 0) as last_chunk_id,
                coalesce((select seq from sqlite_sequence where name = 'memory_passages'), 0) as last_passage_id
            from revision
        """
        revision = fetch_one(self._connection, Revision, sql)
        if revision is None:
            raise DamagedError(MISSING)
        return revision

    def is_settled(self) -> bool:
        """Return whether the words of units stay as they are."""
        return not has_old_words(self._connection)

    def dimensions(self) -> int:
        """Return the length of the vectors."""
        return vector_dimensions(self._connection)

    def memories_after(self, memory_id: int, limit: int) -> list[IndexedMemory]:
        """Return at most `limit` indexed memories with ids above `memory_id`, sorted by id."""
        return self._memories("k.memory_id > :id order by k.memory_id limit :limit", {"id": memory_id, "limit": limit})

    def memories_with_chunks_after(self, chunk_id: int, last_memory_id: int) -> list[IndexedMemory]:
        """Return the memories with ids up to `last_memory_id` that have chunks with ids above `chunk_id`."""
        return self._memories(
            "k.memory_id in (select parent_id from memory_chunks where id > :chunk and parent_id <= :last)",
            {"chunk": chunk_id, "last": last_memory_id},
        )

    def memory_ids(self) -> list[int]:
        """Return the ids of all indexed memories."""
        return fetch_column(self._connection, "select memory_id from keyword_memories")

    def chunks_of(self, memory_ids: Sequence[int]) -> Numbers:
        """Return memory id and chunk id, shape (chunks, 2), in the order of `memory_ids` and of the chunks."""
        sql = """
            select c.parent_id, c.id from json_each(?) wanted cross join memory_chunks c on c.parent_id = wanted.value
            order by wanted.key, c.chunk_index
        """
        rows = self._connection.execute(sql, (json.dumps(memory_ids),)).fetchall()
        return np.array(rows, np.int64).reshape(-1, 2)

    def memories_in(self, scope: Scope) -> list[int]:
        """Return the ids of the memories of a scope."""
        condition = memory_filter(scope)
        sql = f"select m.id from session_memories m where {condition.sql}"
        return fetch_column(self._connection, as_sqlite(sql), bound(condition.parameters))

    def read_ahead(self, asked: Callable[[], Occurring]) -> None:
        """Do nothing: reading takes as long at any time."""

    def passages_after(self, passage_id: int, limit: int, *, with_vectors: bool) -> NewPassages:  # noqa: ARG002
        """Return at most `limit` passages with ids above `passage_id`, always with their vectors."""
        sql = """
            select id, memory_id, coalesce(chunk_id, memory_id) from memory_passages where id > ? order by id limit ?
        """
        rows = self._connection.execute(sql, (passage_id, limit)).fetchall()
        placed = list(map(PlacedPassage._make, rows))
        ids, vectors = all_vectors_of(self._connection, [passage.id for passage in placed])
        readable = set(ids.tolist())
        return NewPassages(
            [passage for passage in placed if passage.id in readable],
            signatures_of(vectors),
            vectors,
            placed[-1].id if len(placed) == limit else None,
        )

    def existing_passages(self, passage_ids: Sequence[int]) -> list[int]:
        """Return the ids of the passages that exist."""
        sql = "select p.id from json_each(?) wanted join memory_passages p on p.id = wanted.value"
        return fetch_column(self._connection, sql, (json.dumps(passage_ids),))

    def vectors(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of those passages that have vectors, ascending, and the vectors. Fast for neighbouring ids."""
        return all_vectors_of(self._connection, passage_ids)

    def scattered_vectors(self, scope: Scope, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the same for passages of a scope of one kind, one at a time: fast for ids that are far apart."""
        return read_scattered_vectors(self._connection, table_of(scope), self.dimensions(), passage_ids)

    def read_postings(self, row_ids: Numbers) -> FoundPostings:
        """Return the rows of postings that exist."""
        return read_postings(self._connection, row_ids)

    def _memories(self, condition: str, bindings: dict[str, int]) -> list[IndexedMemory]:
        sql = f"""
            select m.id, m.memory_type, coalesce(m.session_id, ''), m.agent_id, coalesce(m.task_code, ''),
                m.session_iter, m.created_at, k.block_id, k.first_unit, k.lengths
            from keyword_memories k join session_memories m on m.id = k.memory_id where {condition}
        """
        rows: list[Any] = self._connection.execute(sql, bindings).fetchall()
        return [
            IndexedMemory._make((*row[:7], place_of(row[7], row[8]), np.frombuffer(row[9], LENGTH))) for row in rows
        ]
