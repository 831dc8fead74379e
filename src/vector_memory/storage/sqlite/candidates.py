"""The CandidateSource of a file."""

from collections.abc import Mapping, Sequence

import apsw

from vector_memory.domain import TRAITS, Scope
from vector_memory.storage.knn import Candidates, NearestUnits
from vector_memory.storage.scoring import NOTHING_TYPED, Method, Numbers, Vectors, WordRanking
from vector_memory.storage.sqlite import vectors as vector_rows
from vector_memory.storage.sqlite.vectors import table_for
from vector_memory.storage.sqlite.word_ranking import rank


class MemoryVectors:
    """The VectorTable of a scope of memories of one kind."""

    def __init__(self, connection: apsw.Connection, scope: Scope) -> None:
        self._connection = connection
        self._scope = scope
        self._table = table_of(scope)

    def nearest(self, query: Vectors, k: int) -> Candidates:
        """Return the `k` passages nearest to the query, nearest first."""
        return vector_rows.nearest(self._connection, self._table, self._scope, query, k)

    def sorted_by_unit(self, limit: int) -> Numbers:
        """Return the first `limit` passages sorted by unit id; -1: all."""
        return vector_rows.passages_in(self._connection, self._scope, limit)

    def vectors_of(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of those passages that have vectors, ascending, and the vectors."""
        return vector_rows.vectors_of(self._connection, self._table, passage_ids)

    def vectors_of_units(self, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the unit of each passage of these units, and the vectors of the passages."""
        return vector_rows.vectors_of_units(self._connection, self._table, unit_ids)


class MemoryCandidates(NearestUnits):
    """The CandidateSource of a scope of memories, in the connection's transaction."""

    def __init__(self, connection: apsw.Connection, scope: Scope, method: Method) -> None:
        super().__init__(MemoryVectors(connection, scope), method)
        self._connection = connection
        self._scope = scope

    def rank_words(self, terms: Sequence[str], plain: Mapping[str, str] = NOTHING_TYPED) -> WordRanking:
        """Rank the units of the scope that contain any of the terms."""
        return rank(self._connection, self._scope, terms, plain)


def table_of(scope: Scope) -> str:
    """Return the vec0 table for a scope of one kind."""
    return table_for(chunked=scope.kind is not None and TRAITS[scope.kind].chunked)
