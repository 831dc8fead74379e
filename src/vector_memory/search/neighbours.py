"""The nearest neighbours of a query under any filter, from the tables."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import MemoryKind, Scope
from vector_memory.errors import ValidationError
from vector_memory.indexing.indexer import is_chunked
from vector_memory.search.fusion import ROUNDING, Match, Ranked, cosines
from vector_memory.settings import Settings
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.passages import passages_in, vectors_of
from vector_memory.storage.sqlite.scores import best, rounded
from vector_memory.storage.sqlite.vectors import MAX_K, Candidate, named_vectors, nearest, table_for, vectors_of_pieces

GROWTH = 4
"""Each batch is so many times the one before. All vectors are compared anew for each, so few large steps are cheaper
than the many small ones of seed 001."""

PASSAGES_PER_PIECE = 4

MAX_SCANNED = 50_000
"""Passages that are read one after another where the index cannot say which are nearest, before a search gives up."""

SCANNED_AT_ONCE = 4_096


class Matches:
    """Pieces and the cosines of their nearest passages, as far as passages have been looked at."""

    def __init__(self) -> None:
        self._pieces = self._memories = np.empty(0, np.int64)
        self._cosines = np.empty(0)

    def add(self, pieces: NDArray[np.int64], memories: NDArray[np.int64], similarities: NDArray[np.float64]) -> None:
        """Add passages, by their pieces, the memories of these, and their cosines."""
        all_pieces = np.concatenate([self._pieces, pieces])
        owners = np.concatenate([self._memories, memories])
        self._pieces, firsts, places = np.unique(all_pieces, return_index=True, return_inverse=True)
        self._memories = owners[firsts]
        highest = np.full(len(self._pieces), -np.inf)
        np.maximum.at(highest, places, np.concatenate([self._cosines, similarities]))
        self._cosines = highest

    def best(self, count: int) -> list[Match]:
        """Return the `count` nearest, the one with the lower id first of those that are equally near."""
        order = best(self._cosines, self._pieces, count)
        columns = (self._pieces[order].tolist(), self._memories[order].tolist(), self._cosines[order].tolist())
        return [Match(*row) for row in zip(*columns, strict=True)]

    def settled(self, horizon: float, seen: int = 0) -> int:
        """Return how many no other piece comes before, if none is nearer than the horizon.

        `seen`: all pieces with lower ids have been looked at.
        """
        equal = (self._cosines == horizon) & (self._pieces < seen)
        return int(np.count_nonzero((self._cosines > horizon) | equal))

    def __len__(self) -> int:
        return len(self._pieces)


class NearestNeighbours:
    """Answers "what is closest to this vector in this scope?" with the ids and order of a brute-force scan.

    Passages are fetched in growing batches until enough pieces are nearer than what has not been fetched: then nothing
    that is still unseen can rank among them. Where more are equally near than the index gives, the scope is read in the
    order of the ids until enough of them are known.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def find(self, connection: Connection, query: NDArray[np.float32], scope: Scope, count: int) -> Ranked:
        """Return the `count` nearest pieces of the scope, which is of one kind."""
        table, found, horizon = table_of(scope), Matches(), 1.0
        k = max(self._settings.vector_search_batch_size, count * PASSAGES_PER_PIECE)
        while k <= MAX_K and self._settings.use_iterative_fetching:
            candidates = nearest(connection, table, scope, query, k)
            add_candidates(found, candidates, query)
            if len(candidates) < k:
                return Ranked(found.best(count), complete=len(found) <= count)
            furthest = 1 - candidates[-1].distance ** 2 / 2
            if found.settled(furthest + ROUNDING) >= count:
                return Ranked(found.best(count), complete=False)
            horizon = float(rounded(np.array(furthest)))
            k = MAX_K if k < MAX_K < k * GROWTH else k * GROWTH
        return self._scanned(connection, query, scope, count, found, horizon)

    def _scanned(
        self,
        connection: Connection,
        query: NDArray[np.float32],
        scope: Scope,
        count: int,
        found: Matches,
        horizon: float,
    ) -> Ranked:
        """Read the scope in the order of the ids of its pieces, of which none that is not found is nearer than this."""
        limit = MAX_SCANNED if self._settings.use_iterative_fetching else -1
        passages = passages_in(connection, scope, limit)
        for start in range(0, len(passages), SCANNED_AT_ONCE):
            rows = passages[start : start + SCANNED_AT_ONCE]
            rows = rows[np.argsort(rows[:, 0])]
            ids, vectors = vectors_of(connection, table_of(scope), rows[:, 0].tolist())
            rows = rows[np.isin(rows[:, 0], ids)]
            found.add(rows[:, 1], rows[:, 2], cosines(vectors, query))
            if len(rows) and found.settled(horizon, seen=int(rows[:, 1].max())) >= count:
                return Ranked(found.best(count), complete=False)
        partial = len(passages) == limit
        return Ranked(found.best(count), complete=len(found) <= count and not partial, partial=partial)

    def cosines(
        self, connection: Connection, query: NDArray[np.float32], scope: Scope, matches: Sequence[Match]
    ) -> dict[int, float]:
        """Return the cosines of pieces of the scope that something else has found; without vectors they have none."""
        pieces, vectors = vectors_of_pieces(connection, table_of(scope), [match.id for match in matches])
        highest: dict[int, float] = {}
        for piece, similarity in zip(pieces.tolist(), cosines(vectors, query).tolist(), strict=True):
            highest[piece] = max(highest.get(piece, -1.0), similarity)
        return highest


def add_candidates(found: Matches, candidates: Sequence[Candidate], query: NDArray[np.float32]) -> None:
    """Add the wanted ones of the passages that the index has found."""
    wanted = [candidate for candidate in candidates if candidate.wanted]
    pieces, vectors = named_vectors(
        [(one.memory_id if one.chunk_id is None else one.chunk_id, one.vector) for one in wanted], len(query)
    )
    found.add(pieces, np.array([one.memory_id for one in wanted], np.int64), cosines(vectors, query))


def table_of(scope: Scope) -> str:
    """Return the table that holds the vectors of a scope of one kind. Raises ValidationError for any other."""
    if scope.kind is None:
        raise ValidationError(f"A search needs one memory_type: {', '.join(MemoryKind)}.")
    return table_for(chunked=is_chunked(scope.kind))
