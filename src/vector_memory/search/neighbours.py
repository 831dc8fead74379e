"""The nearest neighbours of a query under any filter, from memory or from the tables."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.errors import ValidationError
from vector_memory.indexing import is_chunked
from vector_memory.kinds import MemoryKind
from vector_memory.search.passage_index import PassageIndex
from vector_memory.search.ranking import Match, Ranked, best_pieces, cosine
from vector_memory.settings import Settings
from vector_memory.storage.database import Connection
from vector_memory.storage.vectors import MAX_K, distances, nearest, scan, table_for
from vector_memory.values import Scope

GROWTH = 4
"""Each batch is so many times the one before. All vectors are compared anew for each, so few large steps are cheaper
than the many small ones of seed 001."""

PASSAGES_PER_PIECE = 4


class Nearest(NamedTuple):
    """Pieces near a query, nearest first, then by id. No other passage is nearer than `horizon`; None: no others."""

    matches: list[Match]
    horizon: float | None


Fetch = Callable[[int], Nearest]
"""Returns the pieces of about so many nearest passages of a scope, or all of it."""


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
        fetch = self._from_memory(connection, query, scope) or self._from_tables(connection, query, scope)
        k = max(self._settings.vector_search_batch_size, count * PASSAGES_PER_PIECE)
        while True:
            matches, horizon = fetch(k)
            if horizon is None:
                return Ranked(matches[:count], complete=len(matches) <= count)
            settled = [match for match in matches if match.score > horizon]
            if len(settled) >= count:
                return Ranked(settled[:count], complete=False)
            k = MAX_K if k < MAX_K < k * GROWTH else k * GROWTH

    def cosines(
        self, connection: Connection, query: NDArray[np.float32], scope: Scope, matches: Sequence[Match]
    ) -> dict[int, float]:
        """Return the cosines of pieces of the scope that something else has found; without vectors they have none."""
        far = distances(connection, table_of(scope), [match.id for match in matches], query)
        return {piece: cosine(distance) for piece, distance in far.items()}

    def _from_memory(self, connection: Connection, query: NDArray[np.float32], scope: Scope) -> Fetch | None:
        view = self._index.view(connection) if self._settings.use_iterative_fetching else None
        if view is None:
            return None
        comparison = view.comparison(connection, table_of(scope), scope, view.members(connection, scope), query)

        def fetch(k: int) -> Nearest:
            found = comparison.find(k)
            ids, memory_ids = view.pieces.named(found.entries)
            order = np.lexsort((ids, -found.cosines))
            columns = (ids[order].tolist(), memory_ids[order].tolist(), found.cosines[order].tolist())
            return Nearest([Match(*row) for row in zip(*columns, strict=True)], found.horizon)

        return fetch

    def _from_tables(self, connection: Connection, query: NDArray[np.float32], scope: Scope) -> Fetch:
        table = table_of(scope)

        def fetch(k: int) -> Nearest:
            if k > MAX_K or not self._settings.use_iterative_fetching:
                return Nearest(best_pieces(scan(connection, table, scope, query)), None)
            candidates = nearest(connection, table, scope, query, k)
            return Nearest(best_pieces(candidates), None if len(candidates) < k else cosine(candidates[-1].distance))

        return fetch


def table_of(scope: Scope) -> str:
    """Return the table that holds the vectors of a scope of one kind. Raises ValidationError for any other."""
    if scope.kind is None:
        raise ValidationError(f"A search is for one memory_type: {', '.join(MemoryKind)}.")
    return table_for(chunked=is_chunked(scope.kind))
