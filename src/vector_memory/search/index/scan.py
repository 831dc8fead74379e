"""Finds the best units of a scope in memory: by the cosine of their nearest passage, by BM25, or by both."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vector_memory.domain import Scope
from vector_memory.search.fusion import (
    FIRST_BY_WORDS,
    Hit,
    SearchHits,
    best_of_each_memory,
    clipped,
    fused_scores,
    pending_weight,
    sort_hits,
    sources_of,
)
from vector_memory.search.index.bm25 import word_scores
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
from vector_memory.storage.scoring import NOTHING_TYPED, VECTOR_WEIGHT, Vectors, best, rounded


class Scan:
    """Finds the best units of a scope, or the memories that have the best units.

    `members`: for each memory row, whether it is in the scope. `terms` None: keywords are not compared. `depth`: this
    many nearest units have "vector" among their `sources`, even if they contain the words. `weight`: of the cosines
    where all units have vectors.
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
        plain: Mapping[str, str] = NOTHING_TYPED,
    ) -> None:
        self._view = view
        self._scope = scope
        self._depth = depth
        self._weight = weight
        self._members = members
        self._words = None if terms is None else word_scores(view.feed, view.units, self._members, terms, plain)

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
        wording = None if self._words is None else self._words.wording
        if query is None:
            hits = self._hits(NOTHING, self._word_entries(), self._weight, count, by_meaning=False, memories=memories)
            return SearchHits(hits[:count], None, wording=wording, weight=self._weight)

        def promises(cosine: float) -> bool:
            return is_worthwhile is None or is_worthwhile(SearchHits([], clipped(cosine), wording=wording))

        nearest_wanted = 0 if self._words is None else self._depth
        goal = Goal(count, nearest_wanted, memories, promises if is_worthwhile else None)
        while True:
            lacking = self._without_vectors()
            weight = self._weight_while(lacking)
            nearby = self._comparison(query, weight).find(goal)
            if len(self._without_vectors()) == len(lacking):  # else vectors have turned out to be removed
                break
        nearest = clipped(float(nearby.cosines.max())) if len(nearby.cosines) else None
        hits = self._hits(nearby, lacking, weight, count, by_meaning=True, memories=memories)
        return SearchHits(hits[:count], nearest, nearby.partial, wording, weight)

    def _word_entries(self) -> Rows:
        """Return the entries of the units that contain words."""
        return np.empty(0, np.int64) if self._words is None else self._words.entries

    def _without_vectors(self) -> Rows:
        """Return those of them that have no vector yet."""
        return self._view.without_vectors(self._word_entries())

    def _weight_while(self, lacking: Rows) -> float:
        """Return the weight of cosines while some of the units that contain words have no vector."""
        if self._words is None or not len(lacking):
            return self._weight
        shares, (ids, _) = rounded(self._words.of(self._words.entries)), self._view.units.ids_of(self._words.entries)
        first = self._words.entries[best(shares, ids, FIRST_BY_WORDS)]
        return pending_weight(self._weight, int(np.count_nonzero(~are_in(lacking, first))), len(first))

    def _comparison(self, query: Vectors, weight: float) -> "Comparison":
        """Return an object that compares the query with the passages of the scope."""
        cached = self._view.cached(self._scope) if self._members.any() else CachedVectors.with_capacity(0, len(query))
        if cached is None:
            return SignatureComparison(self._view, self._members, query, self._words, weight, self._scope)
        return ExactComparison(self._view, self._members, query, self._words, weight, cached)

    def _hits(
        self, nearby: Nearby, others: Rows, weight: float, count: int, *, by_meaning: bool, memories: bool
    ) -> list[Hit]:
        """Return the best units in order, among those that are near and the `others`, which have no cosine."""
        keyword = self._word_entries()
        others = others[~are_in(nearby.entries, others)]
        entries = np.concatenate([nearby.entries, others])
        similarities = np.pad(nearby.cosines, (0, len(others)), constant_values=np.nan)
        ids, owners = self._view.units.ids_of(entries)
        words = None if self._words is None else rounded(self._words.of(entries))
        measured = similarities if words is None else words
        scores = fused_scores(similarities, words, weight) if by_meaning and words is not None else measured
        chosen = of_best_memories(scores, owners, count) if memories else best(scores, ids, count)
        known = frozenset(nearby.entries.tolist())
        nearest = frozenset(nearby.entries[best(nearby.cosines, ids[: len(known)], self._depth)].tolist())
        with_words = frozenset(entries[chosen][are_in(keyword, entries[chosen])].tolist())
        hits = []
        columns = (entries, ids, owners, scores, similarities, measured)
        for entry, unit, memory_id, score, similarity, share in zip(
            *(column[chosen].tolist() for column in columns), strict=True
        ):
            # A unit without any of the words is here because it is near.
            near = {entry} - with_words | {entry} & nearest
            sources = sources_of(entry, near, with_words)
            compared = clipped(similarity) if entry in known else None
            hits.append(Hit(unit, memory_id, score, compared, sources, None if words is None else share))
        return best_of_each_memory(sort_hits(hits)) if memories else sort_hits(hits)


def are_in(ascending: Rows, entries: Rows) -> Bools:
    """Return for each of the entries whether it is among those in ascending order, which may be many more."""
    if not len(ascending):
        return np.zeros(len(entries), np.bool_)
    found: Bools = ascending.take(ascending.searchsorted(entries), mode="clip") == entries
    return found
