"""Compares a query with the passages of a scope: with all of them, or with the likeliest ones."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.errors import DatabaseError
from vector_memory.search.fusion import fused_scores
from vector_memory.search.words import WordScores
from vector_memory.storage.queries.candidates import Candidates, ComparedPassages
from vector_memory.storage.scoring import ROUNDING, Numbers, Vectors, best, cosines, rounded
from vector_memory.storage.units import OUTSIDE, Units

MAX_EXACT_UNITS = 1_000
MAX_EXACT_UNITS_OF_SESSION = 5_000
"""In a scope of up to so many units, all passages are compared. Those of a session are neighbours in a file."""

MIN_COMPARED = 1_000
"""In a larger scope, signatures (`storage.sqlite.vec0`) or pgvector choose so many passages to compare, half as many in
a hybrid search. docs/lab/performance.md says how often this misses one of the best."""

MAX_COMPARED = 32_768
"""Maximum number of passages compared. A few units can have so many of the likeliest passages that others are not
found; the search then stops here, and its result is partial."""

GROWTH = 4
PASSAGES_PER_UNIT = 4


class Nearby(NamedTuple):
    """Units near a query: their entries, ascending, and the rounded cosines of their nearest passages.

    `partial`: the search stopped at MAX_COMPARED before it had found as many units as requested.
    """

    entries: Numbers
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


class ScopeQuery(NamedTuple):
    """A query of a scope: the units of the scope, the words of the query if they are compared, and its unit vector."""

    source: Candidates
    scope: Scope
    units: Units
    words: WordScores | None
    query: Vectors


class Comparison(ABC):
    """Finds the units of a scope with the highest scores: cosines or, with words, fused scores."""

    def __init__(self, asked: ScopeQuery) -> None:
        self._source, self._scope, self._units, self._words, self._query = asked

    @abstractmethod
    def find(self, goal: Goal, weight: float) -> Nearby:
        """Return the units of the goal. `weight`: of the cosines. Ties: the lowest ids."""

    @abstractmethod
    def without_vectors(self, entries: Numbers) -> Numbers:
        """Return those of the units that have no vector yet."""

    def _bonus(self, entries: Numbers, weight: float) -> NDArray[np.float64]:
        """Return what keywords add to the cosines of passages, given the entries of their units."""
        if self._words is None:
            return np.zeros(len(entries))
        return self._words.shares[entries] * ((1 - weight) / weight)

    def _groups(self, entries: Numbers, goal: Goal) -> NDArray[np.integer]:
        """Return what each entry counts as: itself, or its memory."""
        return self._units.owners_of(entries) if goal.memories else entries

    def _best(self, nearby: Nearby, goal: Goal, weight: float) -> Nearby:
        """Return those of the units that are within the goal."""
        entries, similarities = nearby.entries, nearby.cosines
        ids, owners = self._units.ids[entries], self._units.owners_of(entries)
        scores = similarities
        if self._words is not None:
            scores = fused_scores(similarities, self._words.shares[entries], weight)
        kept = of_best_memories(scores, owners, goal.number) if goal.memories else best(scores, ids, goal.number)
        if goal.nearest:
            kept = np.union1d(kept, best(similarities, ids, goal.nearest))
        kept.sort()
        return Nearby(entries[kept], similarities[kept], nearby.partial)


class ExactComparison(Comparison):
    """Compares all passages of the scope. `ahead`: what comparing them has found already."""

    def __init__(self, asked: ScopeQuery, ahead: ComparedPassages | None = None) -> None:
        super().__init__(asked)
        found = ahead or self._source.compared(self._scope, self._query)
        entries = self._units.entries_of(found.unit_ids)
        if (entries == OUTSIDE).any():
            raise DatabaseError("A passage belongs to a unit without keywords: run `vector-memory doctor --fix`.")
        positions = np.flatnonzero(self._units.inside[entries])
        self._positions = positions[np.argsort(entries[positions], kind="stable")]
        entries, cosines = entries[self._positions], found.cosines[self._positions]
        starts, self._places, self._highest = grouped(entries, cosines)
        self._are_nearest = cosines >= self._highest[self._places] - ROUNDING
        self._entries, self._exact = entries[starts], found.exact

    def find(self, goal: Goal, weight: float) -> Nearby:
        """Return the units of the goal. Cosines that were computed together are not exact: those that matter are."""
        sums = self._highest + self._bonus(self._entries, weight)
        chosen = are_candidates(sums, self._groups(self._entries, goal), goal.number)
        if goal.nearest:
            chosen |= are_candidates(self._highest, self._entries, goal.nearest)
        passages = np.flatnonzero(chosen[self._places] & self._are_nearest)
        exact = self._exact(self._positions[passages])
        return self._best(nearby(self._entries[self._places[passages]], exact), goal, weight)

    def without_vectors(self, entries: Numbers) -> Numbers:
        """Return those of the units that have no vector yet."""
        lacks = np.ones(len(self._units.ids), np.bool_)
        lacks[self._entries] = False
        return entries[lacks[entries]]


class LikelyComparison(Comparison):
    """Compares the passages that are likeliest to have the highest sums of cosine and bonus, more and more of them.

    `first`: at least so many. `newest`: the scope has only about so many of the newest passages.
    """

    def __init__(self, asked: ScopeQuery, first: int, newest: int | None = None) -> None:
        super().__init__(asked)
        self._newest = newest
        self._first = max(first, MIN_COMPARED // (1 if self._words is None else 2))
        self._known: dict[tuple[int, float], tuple[Nearby, bool]] = {}
        lacking = self._source.without_vectors(self._scope)
        units = self._units
        entries = np.flatnonzero(units.belongs_to(lacking)) if lacking else NOTHING.entries
        having = self._source.units_with_vectors(lacking) if lacking else []
        self._lacking = entries[~np.isin(units.ids[entries], having)]

    def find(self, goal: Goal, weight: float) -> Nearby:
        """Return the units of the goal."""
        limit = min(MAX_COMPARED, max(self._first, 2 * PASSAGES_PER_UNIT * (goal.number + goal.nearest)))
        while True:
            if (limit, weight) not in self._known:
                self._known[limit, weight] = self._compared(limit, weight)
            near, complete = self._known[limit, weight]
            is_enough = complete or len(np.unique(self._groups(near.entries, goal))) >= goal.number
            if is_enough or limit >= MAX_COMPARED:
                return self._best(near._replace(partial=not is_enough), goal, weight)
            limit = min(MAX_COMPARED, limit * GROWTH)

    def without_vectors(self, entries: Numbers) -> Numbers:
        """Return those of the units that have no vector yet."""
        return entries[np.isin(entries, self._lacking)] if len(self._lacking) else self._lacking

    def _compared(self, limit: int, weight: float) -> tuple[Nearby, bool]:
        """Return the units of the likeliest passages, and whether these are all."""
        worth = WordsWorth(self._units, self._words, weight)
        found = self._source.likeliest(self._scope, self._query, worth, limit, self._newest)
        entries = self._units.entries_of(found.unit_ids)
        there = (entries != OUTSIDE) & self._units.inside[entries]  # pgvector also finds memories that are left out
        return nearby(entries[there], cosines(found.vectors[there], self._query)), found.complete


class WordsWorth:
    """What passages gain by their words, in terms of cosines: `storage.queries.candidates.Worth`."""

    def __init__(self, units: Units, words: WordScores | None, weight: float, left_out: Sequence[int] = ()) -> None:
        self.left_out = left_out
        self._units, self._words = units, words
        gains = np.where(np.append(units.inside, False), np.float32(0), np.float32(-np.inf))
        if words is not None:
            gains[words.entries] = words.shares[words.entries] * ((1 - weight) / weight)
        self._gains = units.by_id(gains)

    def of(self, unit_ids: Numbers) -> Vectors:
        """Return it for passages, given the ids of their units."""
        return self._gains(unit_ids)

    def best(self, count: int) -> Numbers:
        """Return the ids of the units that gain most."""
        if self._words is None:
            return np.empty(0, np.int64)
        entries = self._words.entries
        ids: Numbers = self._units.ids[entries]
        return ids[best(rounded(self._words.shares[entries]), ids, count)]


def nearby(entries: Numbers, similarities: NDArray[np.float64]) -> Nearby:
    """Group passages, given as the entries of their units and their cosines, by unit."""
    order = np.argsort(entries)
    ascending = entries[order]
    starts, _, highest = grouped(ascending, similarities[order])
    return Nearby(ascending[starts], highest)


def grouped(groups: NDArray[np.integer], values: NDArray[np.float64]) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Return where each group begins, the number of the group of each value, and the highest value of each group.

    `groups`: ascending.
    """
    is_first = np.ones(len(groups), np.bool_)
    is_first[1:] = groups[1:] != groups[:-1]  # np.diff takes ten times as long for a few
    starts = np.flatnonzero(is_first)
    return starts, np.cumsum(is_first) - 1, np.maximum.reduceat(values, starts)


def are_candidates(sums: NDArray[np.float64], groups: NDArray[np.integer], count: int) -> NDArray[np.bool_]:
    """Return whether each sum is the highest of its group, and its group one of the `count` with the highest.

    `groups`: ascending. Sums are not exact, so sums that differ by less than ROUNDING count as equal.
    """
    _, places, highest = grouped(groups, sums)
    enough = np.partition(highest, -count)[-count] if len(highest) > count else -np.inf
    found: NDArray[np.bool_] = sums >= np.maximum(highest, enough)[places] - ROUNDING
    return found


def of_best_memories(scores: NDArray[np.float64], owners: NDArray[np.int64], count: int) -> Numbers:
    """Return the positions of the units that belong to the `count` memories with the best units."""
    memories, positions = np.unique(owners, return_inverse=True)
    highest = np.full(len(memories), -np.inf)
    np.maximum.at(highest, positions, scores)
    is_best = np.zeros(len(memories), np.bool_)
    is_best[best(highest, memories, count)] = True
    return np.flatnonzero(is_best[positions])
