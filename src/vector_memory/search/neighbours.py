"""The nearest neighbours of a query under any filter, from memory or from the tables."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vector_memory.errors import ValidationError
from vector_memory.indexing import is_chunked
from vector_memory.kinds import MemoryKind
from vector_memory.search.passage_index import Nearest, PassageIndex
from vector_memory.search.ranking import Match, Ranked, best_pieces, cosine
from vector_memory.settings import Settings
from vector_memory.storage.database import Connection
from vector_memory.storage.vectors import MAX_K, distances, nearest, scan, table_for
from vector_memory.values import Scope

GROWTH = 4
"""Each batch is so many times the one before. All vectors are compared anew for each, so few large steps are cheaper
than the many small ones of seed 001."""

PASSAGES_PER_PIECE = 4


class NearestNeighbours:
    """Answers "what is closest to this vector in this scope?" with the ids and order of a brute-force scan.

    Passages are fetched in growing batches until enough pieces are nearer than what has not been fetched: then nothing
    that is still unseen, not even a tie, can rank among them. In a scope that is too large to be compared completely,
    a passage that has not been fetched may be nearer than it seems (`PassageIndex`).
    """

    def __init__(self, settings: Settings, index: PassageIndex) -> None:
        self._settings = settings
        self._index = index

    def find(self, connection: Connection, query: NDArray[np.float32], scope: Scope, count: int) -> Ranked:
        """Return the `count` nearest pieces of the scope, which is of one kind."""
        k = max(self._settings.vector_search_batch_size, count * PASSAGES_PER_PIECE)
        while True:
            batch = self._fetch(connection, query, scope, k)
            matches = best_pieces(batch.candidates)
            if batch.horizon is None:
                return Ranked(matches[:count], complete=len(matches) <= count)
            settled = [match for match in matches if match.score > batch.horizon]
            if len(settled) >= count:
                return Ranked(settled[:count], complete=False)
            k = MAX_K if k < MAX_K < k * GROWTH else k * GROWTH

    def cosines(
        self, connection: Connection, query: NDArray[np.float32], scope: Scope, matches: Sequence[Match]
    ) -> dict[int, float]:
        """Return the cosines of pieces of the scope that something else has found; without vectors they have none."""
        table, pieces = table_of(scope), [match.id for match in matches]
        view = self._index.view(connection)
        found = None if view is None else view.cosines(connection, table, scope, query, pieces)
        if found is not None:
            return found
        return {piece: cosine(distance) for piece, distance in distances(connection, table, pieces, query).items()}

    def _fetch(self, connection: Connection, query: NDArray[np.float32], scope: Scope, k: int) -> Nearest:
        """Return about the `k` nearest passages: all of the scope if the tables are asked for more than they give."""
        table = table_of(scope)
        if not self._settings.use_iterative_fetching:
            return Nearest(scan(connection, table, scope, query), None)
        view = self._index.view(connection)
        if view is not None:
            return view.nearest(connection, table, scope, query, k)
        if k > MAX_K:
            return Nearest(scan(connection, table, scope, query), None)
        candidates = nearest(connection, table, scope, query, k)
        return Nearest(candidates, None if len(candidates) < k else cosine(candidates[-1].distance))


def table_of(scope: Scope) -> str:
    """Return the table that holds the vectors of a scope of one kind. Raises ValidationError for any other."""
    if scope.kind is None:
        raise ValidationError(f"A search is for one memory_type: {', '.join(MemoryKind)}.")
    return table_for(chunked=is_chunked(scope.kind))
