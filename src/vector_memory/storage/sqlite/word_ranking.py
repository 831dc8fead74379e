"""The keyword index of a scope in a file, for BM25."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from vector_memory.domain import Scope
from vector_memory.storage.postings import FoundPostings
from vector_memory.storage.scoring import Match, Numbers
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.keywords import read_postings
from vector_memory.storage.sqlite.rows import fetch_column
from vector_memory.storage.word_ranking import MemoryInBlock, ScopeRanking, rank_units


def rank(connection: apsw.Connection, scope: Scope, wanted: Sequence[str], plain: Mapping[str, str]) -> ScopeRanking:
    """Score the units of a scope that contain any of the terms by BM25, with the statistics of the scope."""
    return rank_units(ScopeWords(connection, scope), wanted, plain)


class ScopeWords:
    """The WordTable of a scope, in the connection's transaction."""

    def __init__(self, connection: apsw.Connection, scope: Scope) -> None:
        self._connection = connection
        self._scope = scope

    def memories(self) -> tuple[Sequence[MemoryInBlock], Mapping[int, int]]:
        """Return the memories of the scope, sorted by block and first unit, and how many units their blocks have."""
        condition = memory_filter(self._scope)
        rows = self._connection.execute(
            f"""
            select k.memory_id, k.block_id, k.first_unit, k.lengths,
                coalesce((select min(c.id) from memory_chunks c where c.parent_id = k.memory_id), k.memory_id)
            from session_memories m join keyword_memories k on k.memory_id = m.id
            where {condition.sql} order by k.block_id, k.first_unit
            """,
            condition.bindings,
        ).fetchall()
        memories = list(map(MemoryInBlock._make, rows))
        sizes: list[Any] = self._connection.execute(
            "select b.id, b.units from json_each(?) wanted cross join keyword_blocks b on b.id = wanted.value",
            (json.dumps(list({memory.block_id for memory in memories})),),
        ).fetchall()
        return memories, dict(sizes)

    def read_postings(self, row_ids: Numbers) -> FoundPostings:
        """Return the postings of those rows that exist."""
        return read_postings(self._connection, row_ids)

    def units_at(self, places: Sequence[tuple[int, int]]) -> list[int]:
        """Return the ids of units, given their memories and their numbers in these."""
        sql = """
            select coalesce(c.id, place.value ->> 0) from json_each(?) place
            left join memory_chunks c on c.parent_id = place.value ->> 0 and c.chunk_index = place.value ->> 1
            order by place.key
        """
        return fetch_column(self._connection, sql, (json.dumps(places),))

    def numbers_of(self, matches: Sequence[Match]) -> list[int]:
        """Return the numbers of units in their memories; 0 for a memory that is not chunked."""
        sql = """
            select coalesce(c.chunk_index, 0) from json_each(?) wanted
            left join memory_chunks c on c.id = wanted.value ->> 0 and c.parent_id = wanted.value ->> 1
            order by wanted.key
        """
        return fetch_column(self._connection, sql, (json.dumps([match[:2] for match in matches]),))
