"""Exact nearest neighbours under any filter."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import ValidationError
from vector_memory.indexing import is_chunked
from vector_memory.kinds import MemoryKind
from vector_memory.search.ranking import Match, best_chunks, best_memories, settled
from vector_memory.search.wording import all_too_different, not_indexed, nothing_stored
from vector_memory.settings import Settings
from vector_memory.storage.database import Connection, Database
from vector_memory.storage.memories import count_unindexed, list_memories
from vector_memory.storage.vectors import MAX_K, Candidate, nearest, require_same_fingerprint, scan, table_for
from vector_memory.values import MAX_QUERY, Scope, check_text

GROWTH = 4
"""Each batch is so many times the one before. vec0 scans its vectors anew for each, so few large steps are cheaper
than the many small ones of seed 001."""

PASSAGES_PER_RESULT = 4

Ranking = Callable[[Iterable[Candidate]], list[Match]]


class NearestNeighbours:
    """Answers "what is closest to this query in this scope", with the ids and order of a brute-force scan.

    Filters the index holds are applied in it. For the others candidates are fetched in growing batches until enough
    that pass are nearer than the last one fetched: then nothing that is still unseen, not even a tie, can rank among
    them. What goes beyond sqlite-vec's 4,096 neighbours is read by a full scan of the scope.
    """

    def __init__(self, database: Database, model: EmbeddingModel, settings: Settings) -> None:
        self._database = database
        self._model = model
        self._settings = settings

    def embed(self, query: str) -> NDArray[np.float32]:
        """Return the query's vector. Raises ValidationError, EmbeddingUnavailableError."""
        vector = self._model.embed_query(check_text("query", query, MAX_QUERY))
        with self._database.read() as connection:
            require_same_fingerprint(connection, self._model.fingerprint)
        return vector

    def chunks(self, connection: Connection, query: NDArray[np.float32], scope: Scope, limit: int) -> list[Match]:
        """Return the `limit` nearest chunks."""
        return self._find(connection, query, scope, limit, best_chunks)

    def memories(self, connection: Connection, query: NDArray[np.float32], scope: Scope, limit: int) -> list[Match]:
        """Return the `limit` nearest memories."""
        return self._find(connection, query, scope, limit, best_memories)

    def explain_missing(self, connection: Connection, scope: Scope, *, found: bool) -> str | None:
        """Say why a search found nothing, or may not have found everything; None if there is nothing to say."""
        missing = count_unindexed(connection, scope)
        if missing:
            return not_indexed(missing)
        if found:
            return None
        if list_memories(connection, scope, 1):
            return all_too_different(self._settings.similarity_threshold)
        return nothing_stored(scope)

    def _find(
        self, connection: Connection, query: NDArray[np.float32], scope: Scope, limit: int, rank: Ranking
    ) -> list[Match]:
        if scope.kind is None:
            raise ValidationError(f"A search by meaning is for one memory_type: {', '.join(MemoryKind)}.")
        table = table_for(chunked=is_chunked(scope.kind))
        matches = (
            self._fetch_iteratively(connection, table, query, scope, limit, rank)
            if self._settings.use_iterative_fetching
            else rank(scan(connection, table, scope, query))
        )
        return [match for match in matches[:limit] if self._is_similar_enough(match)]

    def _fetch_iteratively(
        self,
        connection: Connection,
        table: str,
        query: NDArray[np.float32],
        scope: Scope,
        limit: int,
        rank: Ranking,
    ) -> list[Match]:
        k = max(self._settings.vector_search_batch_size, limit * PASSAGES_PER_RESULT)
        while k <= MAX_K:
            candidates = nearest(connection, table, scope, query, k)
            if len(candidates) < k:
                return rank(candidates)
            found = settled(rank(candidates), horizon=candidates[-1].distance)
            if len(found) >= limit:
                return found
            k = MAX_K if k < MAX_K < k * GROWTH else k * GROWTH
        return rank(scan(connection, table, scope, query))

    def _is_similar_enough(self, match: Match) -> bool:
        settings = self._settings
        return not settings.use_threshold_filtering or match.similarity >= settings.similarity_threshold
