"""Which pieces of a scope have the words of a query, and how much that says."""

from collections.abc import Sequence

from vector_memory.domain import Scope
from vector_memory.indexing.indexer import is_chunked
from vector_memory.search.fusion import Match, Ranked
from vector_memory.storage.sqlite import keywords
from vector_memory.storage.sqlite.database import Connection


class WordRanking:
    """The BM25 scores of a scope's pieces, each as a share of the best that any text could have.

    `terms`: as `storage.terms.query_terms` returns them. The scope is of one kind.
    """

    def __init__(self, connection: Connection, scope: Scope, terms: Sequence[str]) -> None:
        self._connection = connection
        self._chunked = scope.kind is not None and is_chunked(scope.kind)
        self._ranking = keywords.rank(connection, scope, terms)

    def find(self, count: int) -> Ranked:
        """Return the `count` best pieces of those that have one of the words."""
        matches = [
            Match(memory_id if chunk_id is None else chunk_id, memory_id, score / self._ranking.possible)
            for memory_id, chunk_id, score in self._ranking.best(self._connection, count + 1)
        ]
        return Ranked(matches[:count], complete=len(matches) <= count)

    def scores(self, matches: Sequence[Match]) -> dict[int, float]:
        """Return, in the same measure, the scores of pieces that were found by something else."""
        pieces = [keywords.Piece(match.memory_id, match.id if self._chunked else None) for match in matches]
        scores = self._ranking.scores_of(self._connection, pieces)
        return {match.id: score / self._ranking.possible for match, score in zip(matches, scores, strict=True) if score}
