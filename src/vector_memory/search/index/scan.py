"""Finds the best units of a scope in memory: by the cosine of their nearest passage, by BM25, or by both."""

from collections.abc import Callable, Sequence

import numpy as np

from vector_memory.domain import Scope
from vector_memory.search.fusion import (
    Hit,
    SearchHits,
    best_of_each_memory,
    clipped,
    fused_scores,
    sort_hits,
    sources_of,
)
from vector_memory.search.index.bm25 import Scores, word_scores
from vector_memory.search.index.comparison import (
    NOTHING,
    Comparison,
    ExactComparison,
    Goal,
    Nearby,
    SignatureComparison,
    of_best_memories,
)
from vector_memory.search.index.signatures import CachedVectors, View
from vector_memory.search.index.units import Bools, Rows
from vector_memory.storage.ranking import VECTOR_WEIGHT, Vectors, best, rounded


class Scan:
    """Finds the best units of a scope, or the memories that have the best units.

    `members`: for each memory row, whether it is in the scope. `terms` None: keywords are not compared. `depth`: this
    many nearest units have "vector" among their `sources`, even if they contain the words. `weight`: of the cosines.
    """

    def __init__(
        self,
        view: View,
        scope: Scope,
        members: Bools,
        terms: Sequence[str] | None,
        *,
        depth: int,
        weight: float = VECTOR_WEIGHT,
    ) -> None:
        self._view = view
        self._scope = scope
        self._depth = depth
        self._weight = weight
        self._members = members
        self._words = None if terms is None else word_scores(view.feed, view.units, self._members, terms)

    def find(
        self,
        query: Vectors | None,
        count: int,
        is_worthwhile: Callable[[SearchHits], bool] | None = None,
        *,
        memories: bool = False,
    ) -> SearchHits:
        """Return the `count` best units or `memories`. If `query` is None, only keywords are compared.

        `is_worthwhile`: a large scope is searched only if this returns True for what is known early: how near the
        nearest passage probably is, and the wording.
        """
        nearby, nearest = NOTHING, None
        wording = None if self._words is None else self._words.wording
        if query is not None:

            def promises(cosine: float) -> bool:
                return is_worthwhile is None or is_worthwhile(SearchHits([], clipped(cosine), wording=wording))

            nearest_wanted = 0 if self._words is None else self._depth
            goal = Goal(count, nearest_wanted, memories, promises if is_worthwhile else None)
            nearby = self._comparison(query).find(goal)
            nearest = clipped(float(nearby.cosines.max())) if len(nearby.cosines) else None
        hits = self._hits(nearby, count, by_meaning=query is not None, memories=memories)
        return SearchHits(hits[:count], nearest, nearby.partial, wording)

    def _comparison(self, query: Vectors) -> "Comparison":
        """Return an object that compares the query with the passages of the scope."""
        cached = self._view.cached(self._scope) if self._members.any() else CachedVectors.with_capacity(0, len(query))
        if cached is None:
            return SignatureComparison(self._view, self._members, query, self._words, self._weight, self._scope)
        return ExactComparison(self._view, self._members, query, self._words, self._weight, cached)

    def _hits(self, nearby: Nearby, count: int, *, by_meaning: bool, memories: bool) -> list[Hit]:
        """Return the best units in order, among those that are near and those that contain words but have no vector."""
        keyword = np.empty(0, np.int64) if self._words is None else self._words.entries
        without_vector = self._view.without_vectors(keyword) if by_meaning else keyword
        without_vector = without_vector[~are_in(nearby.entries, without_vector)]
        entries = np.concatenate([nearby.entries, without_vector])
        # A unit without a vector counts as one with cosine 0.
        similarities = np.pad(nearby.cosines, (0, len(without_vector)))
        ids, owners = self._view.units.ids_of(entries)
        words = None if self._words is None else rounded(self._words.of(entries))
        scores = self._scores(similarities, words, by_meaning=by_meaning)
        chosen = of_best_memories(scores, owners, count) if memories else best(scores, ids, count)
        known = frozenset(nearby.entries.tolist())
        nearest = frozenset(nearby.entries[best(nearby.cosines, ids[: len(known)], self._depth)].tolist())
        with_words = frozenset(entries[chosen][are_in(keyword, entries[chosen])].tolist())
        hits = []
        columns = (entries, ids, owners, scores, similarities, scores if words is None else words)
        for entry, unit, memory_id, score, similarity, share in zip(
            *(column[chosen].tolist() for column in columns), strict=True
        ):
            # A unit without any of the words is here because it is near.
            near = {entry} - with_words | {entry} & nearest
            sources = sources_of(entry, near, with_words)
            compared = clipped(similarity) if entry in known else None
            hits.append(Hit(unit, memory_id, score, compared, sources, None if words is None else share))
        return best_of_each_memory(sort_hits(hits)) if memories else sort_hits(hits)

    def _scores(self, similarities: Scores, words: Scores | None, *, by_meaning: bool) -> Scores:
        if words is None:
            return similarities
        return fused_scores(similarities, words, self._weight) if by_meaning else words


def are_in(ascending: Rows, entries: Rows) -> Bools:
    """Return for each of the entries whether it is among those in ascending order, which may be many more."""
    if not len(ascending):
        return np.zeros(len(entries), np.bool_)
    found: Bools = ascending.take(ascending.searchsorted(entries), mode="clip") == entries
    return found
