"""The keyword index of a scope: what BM25 (`storage.word_ranking`) needs of it."""

from collections.abc import Sequence
from typing import NamedTuple

from vector_memory.domain import Scope
from vector_memory.storage.connection import Connection
from vector_memory.storage.postings import ReadPostings
from vector_memory.storage.queries.filters import memory_filter
from vector_memory.storage.scoring import Match


class MemoryInBlock(NamedTuple):
    """A memory of a scope: the block of its units, the number of the first one there, and that unit's id.

    `lengths`: the terms of its units, an array of `storage.postings.LENGTH`. `units`: of the block; -1: it is missing.
    """

    memory_id: int
    block_id: int
    first: int
    lengths: bytes
    first_unit: int
    units: int


class ChunkNumber(NamedTuple):
    """Where a chunk is: its id, its memory, and its number there."""

    id: int
    memory_id: int
    number: int


class ScopeWords:
    """The keyword index of one scope, in the connection's transaction. `read_postings`: reads rows of postings."""

    def __init__(self, connection: Connection, scope: Scope, read_postings: ReadPostings) -> None:
        self.read_postings = read_postings
        self._connection = connection
        self._scope = scope

    def memories(self) -> list[MemoryInBlock]:
        """Return the memories of the scope, sorted by block and first unit."""
        condition = memory_filter(self._scope)
        sql = f"""
            select k.memory_id, k.block_id, k.first_unit as first, k.lengths,
                coalesce((select c.id from memory_chunks c where c.parent_id = m.id and c.chunk_index = 0), m.id)
                    as first_unit,
                coalesce(b.units, -1) as units
            from session_memories m join keyword_memories k on k.memory_id = m.id
            left join keyword_blocks b on b.id = k.block_id
            where {condition.sql} order by k.block_id, k.first_unit
        """
        return self._connection.fetch(MemoryInBlock, sql, condition.parameters)

    def units_at(self, places: Sequence[tuple[int, int]]) -> list[int]:
        """Return the ids of units, given their memories and their numbers in these."""
        sql = """
            select coalesce(c.id, place.first) from {each_pair:places} place
            left join memory_chunks c on c.parent_id = place.first and c.chunk_index = place.second
            order by place.number
        """
        return self._connection.fetch_column(sql, {"places": list(map(list, places))}) if places else []

    def numbers_of(self, matches: Sequence[Match]) -> list[int]:
        """Return the numbers of units in their memories; 0 for a memory that is not chunked."""
        sql = "select id, parent_id as memory_id, chunk_index as number from memory_chunks where id {among:ids}"
        chunks = self._connection.fetch(ChunkNumber, sql, {"ids": [match.id for match in matches]}) if matches else []
        known = {(chunk.id, chunk.memory_id): chunk.number for chunk in chunks}
        return [known.get((match.id, match.memory_id), 0) for match in matches]
