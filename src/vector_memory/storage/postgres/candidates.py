"""The CandidateSource of a schema: it compares all passages of a scope, which it finds by an index."""

from collections.abc import Sequence
from functools import partial

from vector_memory.domain import Scope
from vector_memory.storage.knn import Candidates, ScopeCandidates
from vector_memory.storage.postgres import vectors
from vector_memory.storage.postgres.keywords import read_postings
from vector_memory.storage.postgres.transactions import PostgresConnection
from vector_memory.storage.queries.words import ScopeWords
from vector_memory.storage.scoring import Method, Numbers, Vectors


class PostgresCandidates(ScopeCandidates):
    """The CandidateSource of a scope of memories of one kind, in the connection's transaction."""

    def __init__(self, connection: PostgresConnection, scope: Scope, method: Method) -> None:
        super().__init__(method, ScopeWords(connection, scope, partial(read_postings, connection.raw)))
        self._raw = connection.raw
        self._scope = scope

    def _nearest_passages(self, query: Vectors, k: int) -> Candidates:
        return vectors.nearest(self._raw, self._scope, query, k)

    def _passages(self, limit: int) -> Numbers:
        return vectors.passages_in(self._raw, self._scope, limit)

    def _vectors_of(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        return vectors.vectors_of(self._raw, passage_ids)

    def _vectors_of_units(self, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        return vectors.vectors_of_units(self._raw, self._scope, unit_ids)
