"""The CandidateSource of a file."""

from collections.abc import Sequence
from functools import partial

from vector_memory.domain import Scope
from vector_memory.storage.knn import Candidates, ScopeCandidates
from vector_memory.storage.queries.words import ScopeWords
from vector_memory.storage.scoring import Method, Numbers, Vectors
from vector_memory.storage.sqlite import vectors
from vector_memory.storage.sqlite.keywords import read_postings
from vector_memory.storage.sqlite.transactions import SqliteConnection


class SqliteCandidates(ScopeCandidates):
    """The CandidateSource of a scope of memories of one kind, in the connection's transaction."""

    def __init__(self, connection: SqliteConnection, scope: Scope, method: Method) -> None:
        super().__init__(method, ScopeWords(connection, scope, partial(read_postings, connection.raw)))
        self._raw = connection.raw
        self._scope = scope
        self._table = vectors.table_of(scope)

    def _nearest_passages(self, query: Vectors, k: int) -> Candidates:
        return vectors.nearest(self._raw, self._table, self._scope, query, k)

    def _passages(self, limit: int) -> Numbers:
        return vectors.passages_in(self._raw, self._scope, limit)

    def _vectors_of(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        return vectors.vectors_of(self._raw, self._table, passage_ids)

    def _vectors_of_units(self, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        return vectors.vectors_of_units(self._raw, self._table, unit_ids)
