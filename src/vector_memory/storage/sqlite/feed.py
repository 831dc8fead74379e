"""The IndexFeed of a file: memories, units and passages for the in-memory index, and their postings."""

import json
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.storage.ranking import (
    PLACES_PER_BLOCK,
    IndexedMemory,
    Numbers,
    PlacedPassage,
    Revision,
    Vectors,
)
from vector_memory.storage.sqlite.candidates import table_of
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.guards import DamagedError
from vector_memory.storage.sqlite.keywords import (
    BUCKETS,
    DAMAGED_KEYWORDS,
    HASH_BITS,
    LENGTH,
    MAX_COUNT,
    hash_of,
    hashes_of,
    hits_in,
    numbers_of,
    read_postings,
)
from vector_memory.storage.sqlite.rows import fetch_column, fetch_one
from vector_memory.storage.sqlite.vec0.blocks import read_scattered_vectors
from vector_memory.storage.sqlite.vectors import all_vectors_of, vector_dimensions

MISSING = "The revision record of the database is missing: run `vector-memory doctor --fix`."

MAX_BLOCKS = 1 << 24
"""Arrays have an entry for each block, so a higher block number counts as damage."""


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
        return fetch_column(self._connection, sql, condition.bindings)

    def key_of(self, term: str) -> int:
        """Return a number that stands for a term: its bucket and its hash."""
        bucket, hashed = hash_of(term)
        return bucket << HASH_BITS | hashed

    def keys_in(self, blocks: Numbers) -> tuple[Numbers, Numbers]:
        """Return the keys of the terms in some blocks: for each posting the position of its block, and its key."""
        numbers = (blocks[:, None] * BUCKETS + np.arange(BUCKETS)).ravel()
        rows, postings = read_postings(self._connection, numbers)
        block, bucket = np.divmod(rows, BUCKETS)
        return block, bucket << HASH_BITS | hashes_of(postings).astype(np.int64)

    def occurrences(self, terms: Sequence[str], blocks: Sequence[Numbers]) -> list[tuple[Numbers, NDArray[np.uint16]]]:
        """Return for each term, in blocks of its own, the places of the units that contain it, and its counts in them.

        One query reads the postings of all terms.
        """
        hashes = [hash_of(term) for term in terms]
        row_ids = [own * BUCKETS + bucket for own, (bucket, _) in zip(blocks, hashes, strict=True)]
        rows, postings = read_postings(self._connection, np.concatenate(row_ids))
        starts = np.concatenate(blocks) * PLACES_PER_BLOCK
        ends = np.searchsorted(rows, np.cumsum([len(own) for own in blocks])).tolist()
        found = []
        for begin, end, (_, hashed) in zip([0, *ends], ends, hashes, strict=False):
            hits = begin + hits_in(postings[begin:end], hashed)
            own = postings[hits]
            places = starts[rows[hits]] + numbers_of(own)
            found.append((places, (own & np.uint64(MAX_COUNT)).astype(np.uint16)))
        return found

    def passages_after(self, passage_id: int, limit: int) -> list[PlacedPassage]:
        """Return at most `limit` passages with ids above `passage_id`, sorted by id."""
        sql = """
            select id, memory_id, coalesce(chunk_id, memory_id) from memory_passages where id > ? order by id limit ?
        """
        return list(map(PlacedPassage._make, self._connection.execute(sql, (passage_id, limit)).fetchall()))

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

    def _memories(self, condition: str, bindings: dict[str, int]) -> list[IndexedMemory]:
        sql = f"""
            select m.id, m.memory_type, coalesce(m.session_id, ''), m.agent_id, coalesce(m.task_code, ''),
                m.session_iter, m.created_at, k.block_id, k.first_piece, k.lengths
            from keyword_memories k join session_memories m on m.id = k.memory_id where {condition}
        """
        rows: list[Any] = self._connection.execute(sql, bindings).fetchall()
        return [
            IndexedMemory._make((*row[:7], place_of(row[7], row[8]), np.frombuffer(row[9], LENGTH))) for row in rows
        ]


def place_of(block_id: int, first: int) -> int:
    """Return the place of a unit in the file as one number. Raises DamagedError if it is out of range."""
    if not 0 <= first < PLACES_PER_BLOCK or not 0 < block_id < MAX_BLOCKS:
        raise DamagedError(DAMAGED_KEYWORDS)
    return block_id * PLACES_PER_BLOCK + first
