"""Compares a query with the passages of a scope, in memory: with all of them, or with the likeliest ones."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.search.fusion import fused_scores
from vector_memory.search.index.bm25 import WordScores
from vector_memory.search.index.signatures import FEW, CachedVectors, View
from vector_memory.search.index.units import Bools, Rows
from vector_memory.storage.scoring import COMPARED_AT_ONCE, ROUNDING, Vectors, best, cosines

MIN_COMPARED = 1_000
COMPARED_SHARE = 1_000
"""In a scope that is too large for the cache, signatures choose the passages to compare. MIN_COMPARED of them are
compared, or one in COMPARED_SHARE if that is more; half as many in a hybrid search. docs/lab/performance.md says how
often this misses one of the best."""

MAX_COMPARED = 32_768
"""Maximum number of passages compared. A few units can have so many of the likeliest passages that others are not
found; the search then stops here, and its result is partial."""

GROWTH = 4
PASSAGES_PER_UNIT = 4


class Nearby(NamedTuple):
    """Units near a query: their entries, ascending, and the rounded cosines of their nearest passages.

    `partial`: the search stopped at MAX_COMPARED before it had found as many units as requested.
    """

    entries: Rows
    cosines: NDArray[np.float64]
    partial: bool = False


NOTHING = Nearby(np.empty(0, np.int64), np.empty(0))


class Goal(NamedTuple):
    """What to find: the `number` best units, or with `memories` the `number` memories that have the best units.

    `nearest`: number of nearest units to return in addition.
    """

    number: int
    nearest: int = 0
    memories: bool = False


class Comparison:
    """Finds the units of a scope with the highest scores: cosines or, with words, fused scores.

    `members`: for each memory row, whether it is in the scope. `weight`: of the cosines.
    """

    def __init__(self, view: View, members: Bools, query: Vectors, words: WordScores | None, weight: float) -> None:
        self._view = view
        self._members = members
        self._query = query
        self._words = words
        self._weight = weight
        self._entries = view.passages.entries

    def find(self, goal: Goal) -> Nearby:
        """Return the units of the goal. Ties: the lowest ids."""
        while True:
            found, removed = self._find(goal)
            if not len(removed):
                return found
            self._view.passages.mark_removed(removed)

    def _find(self, goal: Goal) -> tuple[Nearby, Rows]:
        """Return the units, and the rows of passages that turned out to be removed."""
        raise NotImplementedError

    def _bonus(self, entries: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return what keywords add to the cosines of passages, given the entries of their units."""
        if self._words is None:
            return np.zeros(len(entries))
        return self._words.of(entries) * ((1 - self._weight) / self._weight)

    def _groups(self, entries: NDArray[np.integer], goal: Goal) -> NDArray[np.integer]:
        """Return what each entry counts as: itself, or the row of its memory."""
        return self._view.units.owners.take(entries) if goal.memories else entries

    def _best(self, nearby: Nearby, goal: Goal) -> Nearby:
        """Return those of the units that are within the goal."""
        entries, similarities = nearby.entries, nearby.cosines
        ids, owners = self._view.units.ids_of(entries)
        scores = similarities
        if self._words is not None:
            scores = fused_scores(similarities, self._words.of(entries), self._weight)
        kept = of_best_memories(scores, owners, goal.number) if goal.memories else best(scores, ids, goal.number)
        if goal.nearest:
            kept = np.union1d(kept, best(similarities, ids, goal.nearest))
        kept.sort()
        return Nearby(entries[kept], similarities[kept], nearby.partial)


class ExactComparison(Comparison):
    """Compares all vectors of the scope, which are cached."""

    def __init__(
        self, view: View, members: Bools, query: Vectors, words: WordScores | None, weight: float, cached: CachedVectors
    ) -> None:
        super().__init__(view, members, query, words, weight)
        rows = view.visible(cached.rows[: cached.count])
        self._positions = np.flatnonzero(self._inside(rows))
        self._rows = rows[self._positions]
        self._vectors = cached.vectors
        # Not `@`: OpenBLAS splits it among threads, which wait for each other when the cores are busy.
        if len(self._positions) * 4 > len(rows):
            self._cosines = np.vecdot(cached.vectors[: len(rows)], query)[self._positions]
        else:
            self._cosines = np.vecdot(cached.vectors[self._positions], query)

    def _inside(self, rows: Rows) -> Bools:
        owners = self._view.units.owners.take(self._entries.take(rows))
        return self._members.take(owners)

    def _find(self, goal: Goal) -> tuple[Nearby, Rows]:
        similarities = np.where(self._inside(self._rows), self._cosines, -np.inf)
        entries = self._entries.take(self._rows)
        chosen = candidates(similarities + self._bonus(entries), self._groups(entries, goal), goal.number)
        if goal.nearest:
            chosen = np.union1d(chosen, candidates(similarities, entries, goal.nearest))
        near = nearby(entries[chosen], self._compared(self._positions[chosen]))
        found = self._best(near, goal)
        rows = self._rows[chosen[np.isin(entries[chosen], found.entries)]]
        # If one of these was removed, many others may have been: check all at once.
        return found, self._removed(self._rows) if len(self._removed(rows)) else self._rows[:0]

    def _compared(self, positions: Rows) -> NDArray[np.float64]:
        """Return the cosines of some of the vectors, in batches: if many are equal, these can be all of them."""
        parts = [
            cosines(self._vectors[positions[start : start + COMPARED_AT_ONCE]], self._query)
            for start in range(0, len(positions), COMPARED_AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def _removed(self, rows: Rows) -> Rows:
        return self._view.removed(rows[self._inside(rows)])


class SignatureComparison(Comparison):
    """Compares the passages that are likeliest to have the highest sums of cosine and bonus."""

    def __init__(
        self, view: View, members: Bools, query: Vectors, words: WordScores | None, weight: float, scope: Scope
    ) -> None:
        super().__init__(view, members, query, words, weight)
        self._scope = scope
        self._inside = view.units.entries_in(members)
        is_rare = np.count_nonzero(self._inside) * FEW < len(self._inside)
        self._among = self._rows_inside() if is_rare else view.count
        self._known: dict[int, tuple[Nearby, Rows]] = {}

    def _find(self, goal: Goal) -> tuple[Nearby, Rows]:
        number = self._among if isinstance(self._among, int) else len(self._among)
        likely = max(MIN_COMPARED, number // COMPARED_SHARE) // (1 if self._words is None else 2)
        limit = min(MAX_COMPARED, max(likely, 2 * PASSAGES_PER_UNIT * (goal.number + goal.nearest)))
        while True:
            if limit not in self._known:
                self._known[limit] = self._compared(self._rows_inside() if number <= limit else self._likeliest(limit))
            near, removed = self._known[limit]
            if len(removed):
                self._known.clear()
            is_enough = len(np.unique(self._groups(near.entries, goal))) >= goal.number or number <= limit
            if is_enough or len(removed) or limit >= MAX_COMPARED:
                return self._best(near._replace(partial=not is_enough), goal), removed
            limit = min(MAX_COMPARED, limit * GROWTH)

    def _compared(self, rows: Rows) -> tuple[Nearby, Rows]:
        """Return the units of these passages, and the rows of those that were removed."""
        ids, vectors = self._view.feed.scattered_vectors(self._scope, self._view.passages.ids[rows].tolist())
        present = self._view.passages.rows_of(ids)
        return nearby(self._entries[present], cosines(vectors, self._query)), np.setdiff1d(rows, present)

    def _likeliest(self, limit: int) -> Rows:
        bonus = np.where(self._inside, np.float32(0), np.float32(-np.inf))
        if self._words is not None:
            bonus[self._words.entries] = self._bonus(self._words.entries)
        differences = self._view.passages.differences(self._query, self._among)
        return self._view.passages.likeliest(self._query, bonus, self._among, differences, limit)

    def _rows_inside(self) -> Rows:
        return np.flatnonzero(self._inside.take(self._entries[: self._view.count]))


def nearby(entries: NDArray[np.int32], similarities: NDArray[np.float64]) -> Nearby:
    """Group passages, given as the entries of their units and their cosines, by unit."""
    units, positions = np.unique(entries, return_inverse=True)
    highest = np.full(len(units), -np.inf)
    np.maximum.at(highest, positions, similarities)
    return Nearby(units.astype(np.int64), highest)


def candidates(sums: NDArray[np.floating], groups: NDArray[np.integer], count: int) -> Rows:
    """Return the positions of the highest sum in each of the `count` groups with the highest sums.

    Sums are not exact, so sums that differ by less than ROUNDING count as equal, and all of them are included.
    """
    if not len(groups):
        return np.empty(0, np.int64)
    if np.any(groups[1:] < groups[:-1]):
        order = np.argsort(groups, kind="stable")
        return np.sort(order[candidates(sums[order], groups[order], count)])
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    highest = np.maximum.reduceat(sums, starts)
    enough = np.partition(highest, -count)[-count] if len(highest) > count else -np.inf
    positions = np.flatnonzero((sums > -np.inf) & (sums >= enough - ROUNDING))
    own = highest[np.searchsorted(starts, positions, side="right") - 1]
    chosen: Rows = positions[sums[positions] >= own - ROUNDING]
    return chosen


def of_best_memories(scores: NDArray[np.float64], owners: NDArray[np.int64], count: int) -> Rows:
    """Return the positions of the units that belong to the `count` memories with the best units."""
    memories, positions = np.unique(owners, return_inverse=True)
    highest = np.full(len(memories), -np.inf)
    np.maximum.at(highest, positions, scores)
    is_best = np.zeros(len(memories), np.bool_)
    is_best[best(highest, memories, count)] = True
    return np.flatnonzero(is_best[positions])
