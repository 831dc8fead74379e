"""The best pieces of a scope, from memory: by the cosine of their nearest passage, by BM25, or by both."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.search.fusion import Found, Hit, best_of_each_memory, fused_scores, in_order, shown, sources_of
from vector_memory.search.index.bm25 import Scores, word_scores
from vector_memory.search.index.snapshot import Nearby, View, Wanted, of_best_memories
from vector_memory.search.index.units import Rows
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.scores import best, rounded

NOTHING = Nearby(np.empty(0, np.int64), np.empty(0))


class Scan:
    """Finds the best pieces of a scope, or with `memories` the whole memories that have the best pieces.

    `terms` None: nothing is compared by words. `depth`: so many are the nearest, which `sources` names besides those
    with the words.
    """

    def __init__(
        self,
        connection: Connection,
        view: View,
        scope: Scope,
        terms: Sequence[str] | None,
        *,
        depth: int,
        memories: bool,
    ) -> None:
        self._connection = connection
        self._view = view
        self._scope = scope
        self._depth = depth
        self._memories = memories
        self._pieces = view.pieces
        self._members = view.members(connection, scope)
        self._words = None if terms is None else word_scores(connection, view.pieces, self._members, terms)

    def find(self, table: str, query: NDArray[np.float32] | None, count: int) -> Found:
        """Return the `count` best; the table has the vectors of the scope. Without a query only words are compared."""
        nearby, nearest = NOTHING, None
        if query is not None:
            comparison = self._view.comparison(self._connection, table, self._scope, self._members, query, self._words)
            nearby = comparison.find(Wanted(count, 0 if self._words is None else self._depth, self._memories))
            nearest = shown(float(nearby.cosines.max())) if len(nearby.cosines) else None
        hits = self._hits(nearby, count, by_meaning=query is not None)
        return Found(hits[:count], nearest, nearby.partial)

    def _hits(self, nearby: Nearby, count: int, *, by_meaning: bool) -> list[Hit]:
        """Return the best pieces, of those that are near or have words but no passage, in order."""
        worded = np.empty(0, np.int64) if self._words is None else self._words.entries
        bare = np.setdiff1d(self._view.without_passages(worded) if by_meaning else worded, nearby.entries)
        entries = np.concatenate([nearby.entries, bare])
        # A piece that has no vector yet counts as one with cosine 0.
        similarities = np.pad(nearby.cosines, (0, len(bare)))
        ids, owners = self._pieces.named(entries)
        scores = self._scores(entries, similarities, by_meaning=by_meaning)
        chosen = of_best_memories(scores, owners, count) if self._memories else best(scores, ids, count)
        known = frozenset(nearby.entries.tolist())
        nearest = frozenset(nearby.entries[best(nearby.cosines, ids[: len(known)], self._depth)].tolist())
        having = frozenset(entries[chosen][np.isin(entries[chosen], worded)].tolist())
        hits = []
        for entry, piece, memory_id, score, similarity in zip(
            *(column[chosen].tolist() for column in (entries, ids, owners, scores, similarities)), strict=True
        ):
            # What has none of the words is here as near.
            near = {entry} - having | {entry} & nearest
            sources = sources_of(entry, near, having)
            hits.append(Hit(piece, memory_id, score, shown(similarity) if entry in known else None, sources))
        return best_of_each_memory(in_order(hits)) if self._memories else in_order(hits)

    def _scores(self, entries: Rows, similarities: Scores, *, by_meaning: bool) -> Scores:
        if self._words is None:
            return similarities
        words = self._words.of(entries)
        return fused_scores(similarities, words) if by_meaning else rounded(words)
