"""The keyword index of a scope, for BM25."""

from collections.abc import Mapping, Sequence

import numpy as np

from vector_memory.domain import Scope
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.filters import memory_filter
from vector_memory.storage.postgres.keywords import read_postings
from vector_memory.storage.postings import FoundPostings
from vector_memory.storage.scoring import Match, Numbers
from vector_memory.storage.word_ranking import MemoryInBlock, ScopeRanking, rank_units


def rank(connection: Connection, scope: Scope, wanted: Sequence[str], plain: Mapping[str, str]) -> ScopeRanking:
    """Score the units of a scope that contain any of the terms by BM25, with the statistics of the scope."""
    return rank_units(ScopeWords(connection, scope), wanted, plain)


class ScopeWords:
    """The WordTable of a scope, in the connection's transaction."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        self._connection = connection
        self._scope = scope

    def memories(self) -> tuple[Sequence[MemoryInBlock], Mapping[int, int]]:
        """Return the memories of the scope, sorted by block and first unit, and how many units their blocks have."""
        condition = memory_filter(self._scope)
        rows = self._connection.execute(
            f"""
            select k.memory_id, k.block_id, k.first_unit, k.lengths,
                coalesce((select c.id from memory_chunks c where c.parent_id = m.id and c.chunk_index = 0), m.id),
                b.units
            from session_memories m join keyword_memories k on k.memory_id = m.id
            join keyword_blocks b on b.id = k.block_id
            where {condition.sql} order by k.block_id, k.first_unit
            """,
            condition.parameters,
            binary=True,
        ).fetchall()
        return [MemoryInBlock._make(row[:5]) for row in rows], {row[1]: row[5] for row in rows}

    def read_postings(self, row_ids: Numbers) -> FoundPostings:
        """Return the postings of those rows that exist."""
        return read_postings(self._connection, row_ids)

    def units_at(self, places: Sequence[tuple[int, int]]) -> list[int]:
        """Return the ids of units, given their memories and their numbers in these."""
        return self._column(
            """
            select coalesce(c.id, w.memory_id)
            from unnest(%s::bigint[], %s::bigint[]) with ordinality w(memory_id, unit, number)
            left join memory_chunks c on c.parent_id = w.memory_id and c.chunk_index = w.unit order by w.number
            """,
            places,
        )

    def numbers_of(self, matches: Sequence[Match]) -> list[int]:
        """Return the numbers of units in their memories; 0 for a memory that is not chunked."""
        return self._column(
            """
            select coalesce(c.chunk_index, 0)
            from unnest(%s::bigint[], %s::bigint[]) with ordinality w(id, memory_id, number)
            left join memory_chunks c on c.id = w.id and c.parent_id = w.memory_id order by w.number
            """,
            [match[:2] for match in matches],
        )

    def _column(self, sql: str, pairs: Sequence[tuple[int, int]]) -> list[int]:
        if not pairs:
            return []
        columns = np.array(pairs, np.int64).T
        return [value for (value,) in self._connection.execute(sql, (columns[0], columns[1])).fetchall()]
