"""Exact nearest neighbours under any filter."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vector_memory.errors import ValidationError
from vector_memory.indexing import is_chunked
from vector_memory.kinds import MemoryKind
from vector_memory.search.ranking import Match, Ranked, best_pieces, cosine
from vector_memory.settings import Settings
from vector_memory.storage.database import Connection
from vector_memory.storage.vectors import MAX_K, distances, nearest, scan, table_for
from vector_memory.values import Scope

GROWTH = 4
"""Each batch is so many times the one before. vec0 scans its vectors anew for each, so few large steps are cheaper
than the many small ones of seed 001."""

PASSAGES_PER_PIECE = 4


class NearestNeighbours:
    """Answers "what is closest to this vector in this scope?" with the ids and order of a brute-force scan.

    Filters the index holds are applied in it. For the others candidates are fetched in growing batches until enough
    that pass are nearer than the last one fetched: then nothing that is still unseen, not even a tie, can rank among
    them. What goes beyond sqlite-vec's 4,096 neighbours is read by a full scan of the scope.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def find(self, connection: Connection, query: NDArray[np.float32], scope: Scope, count: int) -> Ranked:
        """Return the `count` nearest pieces of the scope, which is of one kind."""
        table = table_of(scope)
        if not self._settings.use_iterative_fetching:
            matches = best_pieces(scan(connection, table, scope, query))
            return Ranked(matches[:count], complete=len(matches) <= count)
        k = max(self._settings.vector_search_batch_size, count * PASSAGES_PER_PIECE)
        while k <= MAX_K:
            candidates = nearest(connection, table, scope, query, k)
            if len(candidates) < k:
                matches = best_pieces(candidates)
                return Ranked(matches[:count], complete=len(matches) <= count)
            horizon = cosine(candidates[-1].distance)
            settled = [match for match in best_pieces(candidates) if match.score > horizon]
            if len(settled) >= count:
                return Ranked(settled[:count], complete=False)
            k = MAX_K if k < MAX_K < k * GROWTH else k * GROWTH
        matches = best_pieces(scan(connection, table, scope, query))
        return Ranked(matches[:count], complete=len(matches) <= count)


def cosines(
    connection: Connection, query: NDArray[np.float32], scope: Scope, matches: Sequence[Match]
) -> dict[int, float]:
    """Return the cosines of pieces of the scope that were found by something else; without vectors they have none."""
    found = distances(connection, table_of(scope), [match.id for match in matches], query)
    return {piece: cosine(distance) for piece, distance in found.items()}


def table_of(scope: Scope) -> str:
    """Return the table that holds the vectors of a scope of one kind. Raises ValidationError for any other."""
    if scope.kind is None:
        raise ValidationError(f"A search is for one memory_type: {', '.join(MemoryKind)}.")
    return table_for(chunked=is_chunked(scope.kind))
