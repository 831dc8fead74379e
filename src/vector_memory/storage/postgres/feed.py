"""The IndexFeed of a schema: memories, units and passages for the in-memory index, and their postings."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vector_memory.domain import Scope
from vector_memory.storage import postings
from vector_memory.storage.postgres.arrays import as_numbers, as_signatures, as_vectors
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.filters import memory_filter
from vector_memory.storage.postgres.keywords import read_postings
from vector_memory.storage.postgres.vectors import vectors_of
from vector_memory.storage.postings import LENGTH, FoundPostings, place_of
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

SIGNATURE = "binary_quantize(embedding)"


class PostgresFeed:
    """The IndexFeed of a schema, in the connection's transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ahead: tuple[Numbers, FoundPostings] | None = None
        """Rows of postings by their ids, which were read with the first questions of the transaction."""

    def revision(self) -> Revision:
        """Return the revision of the snapshot."""
        state = self._connection.state
        return Revision(state.epoch, state.removals, state.last_memory_id, state.last_chunk_id, state.last_passage_id)

    def is_settled(self) -> bool:
        """Return whether the words of units stay as they are."""
        return not self._connection.state.has_old_words

    def dimensions(self) -> int:
        """Return the length of the vectors."""
        return self._connection.state.dimensions

    def memories_after(self, memory_id: int, limit: int) -> list[IndexedMemory]:
        """Return at most `limit` indexed memories with ids above `memory_id`, sorted by id."""
        return self._memories("k.memory_id > %s order by k.memory_id limit %s", (memory_id, limit))

    def memories_with_chunks_after(self, chunk_id: int, last_memory_id: int) -> list[IndexedMemory]:
        """Return the memories with ids up to `last_memory_id` that have chunks with ids above `chunk_id`."""
        return self._memories(
            "k.memory_id in (select parent_id from memory_chunks where id > %s and parent_id <= %s)",
            (chunk_id, last_memory_id),
        )

    def memory_ids(self) -> list[int]:
        """Return the ids of all indexed memories."""
        return self._column("select memory_id from keyword_memories", {})

    def chunks_of(self, memory_ids: Sequence[int]) -> Numbers:
        """Return memory id and chunk id, shape (chunks, 2), in the order of `memory_ids` and of the chunks."""
        sql = """
            select string_agg(int8send(found.parent_id) || int8send(found.id), ''::bytea) from (
                select c.parent_id, c.id from unnest(%s::bigint[]) with ordinality w(id, number)
                join memory_chunks c on c.parent_id = w.id order by w.number, c.chunk_index
            ) found
        """
        rows = self._connection.execute(sql, (np.array(memory_ids, np.int64),), binary=True).fetchall()
        return as_numbers(rows[0][0]).reshape(-1, 2)

    def memories_in(self, scope: Scope) -> list[int]:
        """Return the ids of the memories of a scope."""
        condition = memory_filter(scope)
        return self._column(f"select m.id from session_memories m where {condition.sql}", condition.parameters)

    def read_ahead(self, asked: Callable[[], Occurring]) -> None:
        """Read what `occurrences` will probably be asked for. It does not matter if it is asked for something else."""
        row_ids = postings.rows_with(*asked())
        if len(row_ids):
            self._ahead = (row_ids, read_postings(self._connection, row_ids))

    def passages_after(self, passage_id: int, limit: int, *, with_vectors: bool) -> NewPassages:
        """Return at most `limit` passages with ids above `passage_id`.

        Without their vectors, the server makes the signatures, which are a thirtieth as long.
        """
        sql = f"""
            select id, memory_id, coalesce(chunk_id, memory_id), {"embedding" if with_vectors else SIGNATURE}
            from memory_passages where id > %s order by id limit %s
        """
        rows = self._connection.execute(sql, (passage_id, limit), binary=True).fetchall()
        sent, vectors = [row[3] for row in rows], None
        if with_vectors:
            vectors = as_vectors(sent, self.dimensions())
            signatures = signatures_of(vectors)
        else:
            signatures = as_signatures(sent, self.dimensions())
        placed = [PlacedPassage(*row[:3]) for row in rows]
        return NewPassages(placed, signatures, vectors, placed[-1].id if len(placed) == limit else None)

    def existing_passages(self, passage_ids: Sequence[int]) -> list[int]:
        """Return the ids of the passages that exist: all that the revision knows.

        A passage goes with its memory, which `removals` counts, or with a new epoch.
        """
        return list(passage_ids)

    def vectors(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of the passages that have vectors, ascending, and the vectors. Fast for neighbouring ids."""
        return vectors_of(self._connection, passage_ids)

    def scattered_vectors(self, scope: Scope, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:  # noqa: ARG002
        """Return the same for passages of a scope of one kind, which are in one table with all others."""
        return vectors_of(self._connection, passage_ids)

    def read_postings(self, row_ids: Numbers) -> FoundPostings:
        """Return the rows of postings that exist."""
        if self._ahead is not None and np.array_equal(self._ahead[0], row_ids):
            return self._ahead[1]
        return read_postings(self._connection, row_ids)

    def _column(self, sql: str, parameters: dict[str, Any]) -> list[int]:
        return [value for (value,) in self._connection.execute(sql, parameters, binary=True).fetchall()]

    def _memories(self, condition: str, parameters: tuple[int, int]) -> list[IndexedMemory]:
        sql = f"""
            select m.id, m.memory_type, coalesce(m.session_id, ''), m.agent_id, coalesce(m.task_code, ''),
                m.session_iter, m.created_at, k.block_id, k.first_unit, k.lengths
            from keyword_memories k join session_memories m on m.id = k.memory_id where {condition}
        """
        rows = self._connection.execute(sql, parameters, binary=True).fetchall()
        return [
            IndexedMemory._make((*row[:7], place_of(row[7], row[8]), np.frombuffer(row[9], LENGTH))) for row in rows
        ]
