"""The best units of a scope, from memory: by the cosine of their nearest passage, by BM25, or by both."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.search.fusion import (
    VECTOR_WEIGHT,
    Found,
    Hit,
    best_of_each_memory,
    fused_scores,
    in_order,
    shown,
    sources_of,
)
from vector_memory.search.index.bm25 import Scores, WordScores, word_scores
from vector_memory.search.index.signatures import Held, View
from vector_memory.search.index.units import Bools, Rows
from vector_memory.storage.ranking import COMPARED_AT_ONCE, ROUNDING, Vectors, best, cosines, rounded

LEAST_COMPARED = 1_000
COMPARED_SHARE = 1_000
"""Of a larger scope the likeliest by their signatures are compared: so many, or one of COMPARED_SHARE if that is more;
half as many where words help to choose them. How often one of the best is missed is in docs/performance.md."""

WORDS_FOR_COSINE = (1 - VECTOR_WEIGHT) / VECTOR_WEIGHT
"""So much of a cosine a score by words outweighs in a hybrid search."""

MOST_COMPARED = 32_768
"""Where a few units have so many of the likeliest passages that others are not seen, a search gives up after these."""

GROWTH = 4
PASSAGES_PER_UNIT = 4


class Nearby(NamedTuple):
    """Pieces near a query: their entries, ascending, and the cosines of their nearest passages, rounded.

    `partial`: so much was compared without finding as many as were wanted that the search gave up.
    """

    entries: Rows
    cosines: NDArray[np.float64]
    partial: bool = False


NOTHING = Nearby(np.empty(0, np.int64), np.empty(0))


class Wanted(NamedTuple):
    """What is looked for: the best units, so many, or with `memories` the memories that have the best units.

    `nearest`: besides, so many of the nearest units.
    """

    number: int
    nearest: int = 0
    memories: bool = False


class Scan:
    """Finds the best units of a scope, or with `memories` the whole memories that have the best units.

    `terms` None: nothing is compared by words. `depth`: so many are the nearest, which `sources` names besides those
    with the words.
    """

    def __init__(
        self,
        view: View,
        scope: Scope,
        terms: Sequence[str] | None,
        *,
        depth: int,
        memories: bool,
    ) -> None:
        self._view = view
        self._scope = scope
        self._depth = depth
        self._memories = memories
        self._members = view.members(scope)
        self._words = None if terms is None else word_scores(view.feed, view.units, self._members, terms)

    def find(self, query: Vectors | None, count: int) -> Found:
        """Return the `count` best. Without a query only words are compared."""
        nearby, nearest = NOTHING, None
        if query is not None:
            wanted = Wanted(count, 0 if self._words is None else self._depth, self._memories)
            nearby = self._comparison(query).find(wanted)
            nearest = shown(float(nearby.cosines.max())) if len(nearby.cosines) else None
        hits = self._hits(nearby, count, by_meaning=query is not None)
        return Found(hits[:count], nearest, nearby.partial, None if self._words is None else self._words.wording)

    def _comparison(self, query: Vectors) -> "Comparison":
        """Return what compares the query with the passages of the scope."""
        held = self._view.held(self._scope) if self._members.any() else Held.with_room(0, len(query))
        if held is None:
            return ComparisonBySignature(self._view, self._members, query, self._words, self._scope)
        return ComparisonOfAll(self._view, self._members, query, self._words, held)

    def _hits(self, nearby: Nearby, count: int, *, by_meaning: bool) -> list[Hit]:
        """Return the best units, of those that are near or have words but no passage, in order."""
        worded = np.empty(0, np.int64) if self._words is None else self._words.entries
        bare = np.setdiff1d(self._view.without_passages(worded) if by_meaning else worded, nearby.entries)
        entries = np.concatenate([nearby.entries, bare])
        # A unit that has no vector yet counts as one with cosine 0.
        similarities = np.pad(nearby.cosines, (0, len(bare)))
        ids, owners = self._view.units.named(entries)
        scores = self._scores(entries, similarities, by_meaning=by_meaning)
        chosen = of_best_memories(scores, owners, count) if self._memories else best(scores, ids, count)
        known = frozenset(nearby.entries.tolist())
        nearest = frozenset(nearby.entries[best(nearby.cosines, ids[: len(known)], self._depth)].tolist())
        having = frozenset(entries[chosen][np.isin(entries[chosen], worded)].tolist())
        hits = []
        for entry, unit, memory_id, score, similarity in zip(
            *(column[chosen].tolist() for column in (entries, ids, owners, scores, similarities)), strict=True
        ):
            # What has none of the words is here as near.
            near = {entry} - having | {entry} & nearest
            sources = sources_of(entry, near, having)
            hits.append(Hit(unit, memory_id, score, shown(similarity) if entry in known else None, sources))
        return best_of_each_memory(in_order(hits)) if self._memories else in_order(hits)

    def _scores(self, entries: Rows, similarities: Scores, *, by_meaning: bool) -> Scores:
        if self._words is None:
            return similarities
        words = self._words.of(entries)
        return fused_scores(similarities, words) if by_meaning else rounded(words)


class Comparison:
    """Finds the units of a scope with the highest scores: by their cosines or, with words, by both measures.

    `members` tells of each memory's row whether it is in the scope.
    """

    def __init__(self, view: View, members: Bools, query: Vectors, words: WordScores | None) -> None:
        self._view = view
        self._members = members
        self._query = query
        self._words = words
        self._entries = view.passages.entries

    def find(self, wanted: Wanted) -> Nearby:
        """Return what is wanted; of equal ones those with the lowest ids."""
        while True:
            found, gone = self._find(wanted)
            if not len(gone):
                return found
            self._view.passages.forget(gone)

    def _find(self, wanted: Wanted) -> tuple[Nearby, Rows]:
        """Also return the rows of passages that are gone."""
        raise NotImplementedError

    def _bonus(self, entries: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return what is added to the cosines of passages by their words."""
        if self._words is None:
            return np.zeros(len(entries))
        return self._words.of(entries) * WORDS_FOR_COSINE

    def _groups(self, entries: NDArray[np.integer], wanted: Wanted) -> NDArray[np.integer]:
        """Return of each entry what is counted: itself, or the row of its memory."""
        return self._view.units.owners.take(entries) if wanted.memories else entries

    def _best(self, nearby: Nearby, wanted: Wanted) -> Nearby:
        """Return those of the units that are wanted."""
        entries, similarities = nearby.entries, nearby.cosines
        ids, owners = self._view.units.named(entries)
        scores = similarities if self._words is None else fused_scores(similarities, self._words.of(entries))
        kept = of_best_memories(scores, owners, wanted.number) if wanted.memories else best(scores, ids, wanted.number)
        if wanted.nearest:
            kept = np.union1d(kept, best(similarities, ids, wanted.nearest))
        kept.sort()
        return Nearby(entries[kept], similarities[kept], nearby.partial)


class ComparisonOfAll(Comparison):
    """Compares all vectors, which are held in memory."""

    def __init__(self, view: View, members: Bools, query: Vectors, words: WordScores | None, held: Held) -> None:
        super().__init__(view, members, query, words)
        rows = view.visible(held.rows[: held.count])
        self._places = np.flatnonzero(self._inside(rows))
        self._rows = rows[self._places]
        self._vectors = held.vectors
        # Not `@`: OpenBLAS shares it out among threads, which wait for each other when the cores are busy.
        if len(self._places) * 4 > len(rows):
            self._cosines = np.vecdot(held.vectors[: len(rows)], query)[self._places]
        else:
            self._cosines = np.vecdot(held.vectors[self._places], query)

    def _inside(self, rows: Rows) -> Bools:
        owners = self._view.units.owners.take(self._entries.take(rows))
        return self._members.take(owners)

    def _find(self, wanted: Wanted) -> tuple[Nearby, Rows]:
        similarities = np.where(self._inside(self._rows), self._cosines, -np.inf)
        entries = self._entries.take(self._rows)
        chosen = candidates(similarities + self._bonus(entries), self._groups(entries, wanted), wanted.number)
        if wanted.nearest:
            chosen = np.union1d(chosen, candidates(similarities, entries, wanted.nearest))
        near = nearby(entries[chosen], self._compared(self._places[chosen]))
        found = self._best(near, wanted)
        rows = self._rows[chosen[np.isin(entries[chosen], found.entries)]]
        # If one of these is gone others may be, perhaps very many: they are looked for all at once.
        return found, self._gone(self._rows) if len(self._gone(rows)) else self._rows[:0]

    def _compared(self, places: Rows) -> NDArray[np.float64]:
        """Return the cosines of some of the vectors, which may be as many as there are if they are equal."""
        parts = [
            cosines(self._vectors[places[start : start + COMPARED_AT_ONCE]], self._query)
            for start in range(0, len(places), COMPARED_AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def _gone(self, rows: Rows) -> Rows:
        return self._view.gone(rows[self._inside(rows)])


class ComparisonBySignature(Comparison):
    """Compares those passages that are likeliest to have the highest sums."""

    def __init__(self, view: View, members: Bools, query: Vectors, words: WordScores | None, scope: Scope) -> None:
        super().__init__(view, members, query, words)
        self._scope = scope
        self._inside = view.units.entries_in(members)
        is_rare = np.count_nonzero(self._inside) * 4 < len(self._inside)
        self._among = self._rows_inside() if is_rare else view.count

    def _find(self, wanted: Wanted) -> tuple[Nearby, Rows]:
        number = self._among if isinstance(self._among, int) else len(self._among)
        likely = max(LEAST_COMPARED, number // COMPARED_SHARE) // (1 if self._words is None else 2)
        limit = min(MOST_COMPARED, max(likely, 2 * PASSAGES_PER_UNIT * (wanted.number + wanted.nearest)))
        while True:
            rows = self._rows_inside() if number <= limit else self._likeliest(limit)
            ids, vectors = self._view.feed.scattered_vectors(self._scope, self._view.passages.ids[rows].tolist())
            near = nearby(self._entries[self._view.passages.rows_of(ids)], cosines(vectors, self._query))
            gone = np.setdiff1d(rows, self._view.passages.rows_of(ids))
            is_enough = len(np.unique(self._groups(near.entries, wanted))) >= wanted.number or number <= limit
            if is_enough or len(gone) or limit >= MOST_COMPARED:
                return self._best(near._replace(partial=not is_enough), wanted), gone
            limit = min(MOST_COMPARED, limit * GROWTH)

    def _likeliest(self, limit: int) -> Rows:
        bonus = np.where(self._inside, np.float32(0), np.float32(-np.inf))
        if self._words is not None:
            bonus[self._words.entries] = self._bonus(self._words.entries)
        return self._view.passages.likeliest(self._query, bonus, self._among, limit)

    def _rows_inside(self) -> Rows:
        return np.flatnonzero(self._inside.take(self._entries[: self._view.count]))


def nearby(entries: NDArray[np.int32], similarities: NDArray[np.float64]) -> Nearby:
    """Return the units of passages, given by the entries of their units and their cosines."""
    units, places = np.unique(entries, return_inverse=True)
    highest = np.full(len(units), -np.inf)
    np.maximum.at(highest, places, similarities)
    return Nearby(units.astype(np.int64), highest)


def candidates(sums: NDArray[np.floating], groups: NDArray[np.integer], count: int) -> Rows:
    """Return the places of the highest sum of each of the `count` groups that may have the highest ones.

    Sums are not exact: what may be as high, by ROUNDING, is there too.
    """
    if not len(groups):
        return np.empty(0, np.int64)
    if np.any(groups[1:] < groups[:-1]):
        order = np.argsort(groups, kind="stable")
        return np.sort(order[candidates(sums[order], groups[order], count)])
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    highest = np.maximum.reduceat(sums, starts)
    enough = np.partition(highest, -count)[-count] if len(highest) > count else -np.inf
    places = np.flatnonzero((sums > -np.inf) & (sums >= enough - ROUNDING))
    own = highest[np.searchsorted(starts, places, side="right") - 1]
    chosen: Rows = places[sums[places] >= own - ROUNDING]
    return chosen


def of_best_memories(scores: NDArray[np.float64], owners: NDArray[np.int64], count: int) -> Rows:
    """Return the places of the units of the `count` memories that have the best ones."""
    memories, places = np.unique(owners, return_inverse=True)
    highest = np.full(len(memories), -np.inf)
    np.maximum.at(highest, places, scores)
    is_best = np.zeros(len(memories), np.bool_)
    is_best[best(highest, memories, count)] = True
    return np.flatnonzero(is_best[places])
