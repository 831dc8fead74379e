"""The CandidateSource of a schema: it compares all passages of a scope, which it finds by an index."""

from collections.abc import Mapping, Sequence

from vector_memory.domain import Scope
from vector_memory.storage.knn import Candidates, NearestUnits
from vector_memory.storage.postgres import vectors
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.word_ranking import rank
from vector_memory.storage.scoring import NOTHING_TYPED, Method, Numbers, Vectors, WordRanking


class ScopeVectors:
    """The VectorTable of a scope of memories of one kind."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        self._connection = connection
        self._scope = scope

    def nearest(self, query: Vectors, k: int) -> Candidates:
        """Return the `k` passages nearest to the query, nearest first."""
        return vectors.nearest(self._connection, self._scope, query, k)

    def sorted_by_unit(self, limit: int) -> Numbers:
        """Return the first `limit` passages sorted by unit id; -1: all."""
        return vectors.passages_in(self._connection, self._scope, limit)

    def vectors_of(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of those passages that have vectors, ascending, and the vectors."""
        return vectors.vectors_of(self._connection, passage_ids)

    def vectors_of_units(self, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the unit of each passage of these units, and the vectors of the passages."""
        return vectors.vectors_of_units(self._connection, self._scope, unit_ids)


class PostgresCandidates(NearestUnits):
    """The CandidateSource of a scope of memories, in the connection's transaction."""

    def __init__(self, connection: Connection, scope: Scope, method: Method) -> None:
        super().__init__(ScopeVectors(connection, scope), method)
        self._connection = connection
        self._scope = scope

    def rank_words(self, terms: Sequence[str], plain: Mapping[str, str] = NOTHING_TYPED) -> WordRanking:
        """Rank the units of the scope that contain any of the terms."""
        return rank(self._connection, self._scope, terms, plain)
