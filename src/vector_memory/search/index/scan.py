"""Finds the best units of a scope in memory: by the cosine of their nearest passage, by BM25, or by both."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

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
from vector_memory.search.index.bm25 import WordScores, word_scores
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
from vector_memory.search.question import Question
from vector_memory.storage.scoring import NOTHING_TYPED, VECTOR_WEIGHT, Vectors, Wording, best, cosines, rounded

PROBED = 16_384
"""Passages among which those near a question are counted: the newest of the whole memory."""

COUNTED = 20
"""The highest count. If vectors are not in memory, those of so many passages are read, the likeliest of the scope."""

MOST_COMPARED = 512
"""The same for vectors in memory."""


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
        self._word_entries = np.empty(0, np.int64) if self._words is None else self._words.entries
        self._comparisons: dict[float, Comparison] = {}

    def find(self, query: Vectors | None, count: int, *, memories: bool = False) -> SearchHits:
        """Return the `count` best units or `memories`. If `query` is None, only keywords are compared.

        The query has to be the same in all calls.
        """
        wording = None if self._words is None else self._words.wording
        if query is None:
            hits = self._hits(NOTHING, self._word_entries, self._weight, count, by_meaning=False, memories=memories)
            return SearchHits(hits[:count], None, wording=wording, weight=self._weight)

        goal = Goal(count, 0 if self._words is None else self._depth, memories)
        while True:
            lacking = self._view.without_vectors(self._word_entries)
            weight = self._weight_while(lacking)
            if weight not in self._comparisons:
                self._comparisons[weight] = self._comparison(query, weight)
            nearby = self._comparisons[weight].find(goal)
            if len(self._view.without_vectors(self._word_entries)) == len(lacking):
                break  # else vectors have turned out to be removed
        nearest = clipped(float(nearby.cosines.max())) if len(nearby.cosines) else None
        hits = self._hits(nearby, lacking, weight, count, by_meaning=True, memories=memories)
        return SearchHits(hits[:count], nearest, nearby.partial, wording, weight)

    def count_strong(self, question: Question, threshold: float | None) -> int:
        """Return how many units match strongly: by words, or by one of the likeliest of the newest passages."""
        words = self._words or WordScores(0, np.zeros(1), self._word_entries, Wording(0.0))
        calibration, least = question.calibration, -1.0 if threshold is None else threshold
        shares = words.window * (words.wording.covered / (words.window.max() or 1.0))
        by_words = calibration.are_strong(0.0, shares[words.entries - words.first])
        if question.vector is None:
            return int(by_words.sum())
        rows, similarities = self._likeliest(question.vector)
        near = self._view.passages.entries[rows]
        by_both = calibration.are_strong(similarities, shares.take(near - words.first, mode="clip"))
        return len(np.union1d(near[by_both & (similarities >= least)], words.entries[by_words]))

    def _likeliest(self, query: Vectors) -> tuple[Rows, NDArray[np.float64]]:
        """Return those of the newest passages that are likeliest to be near the query, and their cosines."""
        passages, cached = self._view.passages, self._view.cached(Scope())
        rows = np.arange(max(0, self._view.count - PROBED), self._view.count)
        rows = rows[self._members.take(self._view.units.owners.take(passages.entries[rows]))]
        most = COUNTED if cached is None else MOST_COMPARED
        if len(rows) > most:
            rows = rows[np.argpartition(passages.differences(query, rows), most)[:most]]
        if cached is None:
            ids, vectors = self._view.feed.scattered_vectors(self._scope, np.sort(passages.ids[rows]).tolist())
            return passages.rows_of(ids), cosines(vectors, query)
        known = cached.rows[: cached.count]
        rows = rows[are_in(known, rows)]
        return rows, rounded(np.vecdot(cached.vectors[known.searchsorted(rows)], query))

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
        keyword = self._word_entries
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
