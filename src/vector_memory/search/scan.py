"""Both measures of the pieces of a scope, from memory: the cosine of their nearest passage, and BM25."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vector_memory.search.catalogue import highest
from vector_memory.search.pieces import Rows
from vector_memory.search.ranking import VECTOR_WEIGHT, Hit, best_of_each_memory, in_order, shown, sources_of
from vector_memory.search.view import Nearby, View
from vector_memory.search.word_scores import Scores, word_scores
from vector_memory.storage.database import Connection
from vector_memory.values import Scope

PASSAGES_PER_PIECE = 4
GROWTH = 4


class Scan:
    """Finds the best pieces of a scope, or with `memories` the whole memories that have the best pieces.

    `depth`: so many are the nearest, which `sources` names besides those with the words.
    """

    def __init__(
        self, connection: Connection, view: View, scope: Scope, terms: Sequence[str], *, depth: int, memories: bool
    ) -> None:
        self._connection = connection
        self._view = view
        self._scope = scope
        self._depth = depth
        self._memories = memories
        self._pieces = view.pieces
        self._members = view.members(connection, scope)
        self._words = word_scores(connection, view.pieces, self._members, terms)

    def by_words(self, count: int) -> tuple[list[Hit], None]:
        """Return the best pieces of those that have one of the words; no cosine is known."""
        entries = self._words.entries
        return self._hits(*self._best(entries, self._words.of(entries), count), {}, frozenset()), None

    def by_both(self, table: str, query: NDArray[np.float32], count: int) -> tuple[list[Hit], float | None]:
        """Return the best pieces, and the cosine of the scope's best passage; its vectors are in the table."""
        comparison = self._view.comparison(self._connection, table, self._scope, self._members, query, self._words)
        number = PASSAGES_PER_PIECE * count
        while True:
            nearby = comparison.find(number, PASSAGES_PER_PIECE * self._depth)
            hits = self._fused(nearby, count)
            if nearby.horizon is None or len(hits) >= count:
                return hits[:count], shown(float(nearby.cosines.max())) if len(nearby.cosines) else None
            number *= GROWTH

    def _fused(self, nearby: Nearby, count: int) -> list[Hit]:
        """Return the best pieces, of those that are near or have no passage, above the horizon."""
        entries, cosines = nearby.entries, nearby.cosines
        nearest = np.lexsort((self._pieces.ids[entries], -cosines))[: self._depth]
        bare = np.setdiff1d(self._view.without_passages(self._words.entries), entries)
        everything = np.concatenate([entries, bare])
        # A piece that has no vector yet counts as one with cosine 0.
        scores = VECTOR_WEIGHT * np.pad(cosines, (0, len(bare))) + (1 - VECTOR_WEIGHT) * self._words.of(everything)
        least = -np.inf if nearby.horizon is None else VECTOR_WEIGHT * nearby.horizon
        settled = np.flatnonzero(scores > least)
        similarities = dict(zip(entries.tolist(), cosines.tolist(), strict=True))
        near = frozenset(entries[nearest].tolist())
        return self._hits(*self._best(everything[settled], scores[settled], count), similarities, near)

    def _best(self, entries: Rows, scores: Scores, count: int) -> tuple[Rows, Scores]:
        """Return the entries that can be among the `count` best, or all of what can be the `count` best memories."""
        if not self._memories:
            chosen = highest(scores, count)
        else:
            best = np.full(self._pieces.memory_count, -np.inf)
            np.maximum.at(best, self._pieces.owners[entries], scores)
            is_best = np.zeros(self._pieces.memory_count, np.bool_)
            is_best[highest(best, count)] = True
            chosen = np.flatnonzero(is_best[self._pieces.owners[entries]])
        return entries[chosen], scores[chosen]

    def _hits(
        self, entries: Rows, scores: Scores, similarities: Mapping[int, float], near: frozenset[int]
    ) -> list[Hit]:
        """Return hits, in order; `near` are the entries of the nearest. What has none of the words is here as near."""
        worded = frozenset(entries[np.isin(entries, self._words.entries)].tolist())
        near = near | frozenset(entries.tolist()) - worded
        ids, memory_ids = self._pieces.named(entries)
        hits = [
            Hit(piece, memory_id, score, shown(similarities.get(entry)), sources_of(entry, near, worded))
            for entry, piece, memory_id, score in zip(
                entries.tolist(), ids.tolist(), memory_ids.tolist(), scores.tolist(), strict=True
            )
        ]
        return best_of_each_memory(in_order(hits)) if self._memories else in_order(hits)
