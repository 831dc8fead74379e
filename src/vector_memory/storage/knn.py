"""Finds the units of a scope that are nearest to a vector, with the same results as a scan of the scope."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.queries.words import ScopeWords
from vector_memory.storage.scoring import (
    NOTHING_TYPED,
    ROUNDING,
    Match,
    Method,
    Numbers,
    Ranked,
    Vectors,
    best,
    cosines,
)
from vector_memory.storage.word_ranking import ScopeRanking, rank_units

MAX_K = 4_096
"""Maximum number of passages to ask for at once, which is the limit of sqlite-vec.
If more are equally near, the scope is scanned."""

GROWTH = 4
"""Factor between the sizes of batches. Each query compares all vectors again, so few large steps are cheaper."""

PASSAGES_PER_UNIT = 4

MAX_PASSAGES_SCANNED = 50_000
"""Maximum number of passages to scan if the index cannot tell which are nearest."""

PASSAGES_PER_SCAN = 4_096


class Candidates(NamedTuple):
    """Passages near a query, nearest first: their units, the memories of these, and their vectors.

    `vectors`: shape (passages, dimensions). `wanted`: whether a passage passes the filters that the table does not
    apply itself.
    """

    units: Numbers
    memories: Numbers
    vectors: Vectors
    wanted: NDArray[np.bool_]


class Matches:
    """Units and the cosines of their nearest passages, among the passages compared so far."""

    def __init__(self) -> None:
        self._units = self._memories = np.empty(0, np.int64)
        self._cosines = np.empty(0)

    def add(self, units: Numbers, memories: Numbers, similarities: NDArray[np.float64]) -> None:
        """Add passages, given their units, the memories of these, and their cosines."""
        all_units = np.concatenate([self._units, units])
        owners = np.concatenate([self._memories, memories])
        self._units, firsts, places = np.unique(all_units, return_index=True, return_inverse=True)
        self._memories = owners[firsts]
        highest = np.full(len(self._units), -np.inf)
        np.maximum.at(highest, places, np.concatenate([self._cosines, similarities]))
        self._cosines = highest

    def best(self, count: int) -> list[Match]:
        """Return the `count` nearest units; ties: lower ids first."""
        order = best(self._cosines, self._units, count)
        columns = (self._units[order].tolist(), self._memories[order].tolist(), self._cosines[order].tolist())
        return [Match(*row) for row in zip(*columns, strict=True)]

    def settled(self, horizon: float, seen: int = 0) -> int:
        """Return how many units no other unit can precede, if no other unit is nearer than the horizon.

        `seen`: all units with lower ids have been compared.
        """
        equal = (self._cosines == horizon) & (self._units < seen)
        return int(np.count_nonzero((self._cosines > horizon) | equal))

    def __len__(self) -> int:
        return len(self._units)


class ScopeCandidates(ABC):
    """The CandidateSource of a scope: it finds the units nearest to a vector exactly, from the nearest passages.

    Passages are fetched in growing batches until enough units are nearer than the last passage fetched: no unseen unit
    can then rank among them. If more passages are equally near than the engine can return, the scope is scanned in the
    order of unit ids until enough units are known.
    """

    def __init__(self, method: Method, words: ScopeWords) -> None:
        self._method = method
        self._words = words

    def rank_words(self, terms: Sequence[str], plain: Mapping[str, str] = NOTHING_TYPED) -> ScopeRanking:
        """Rank the units of the scope that contain any of the terms."""
        return rank_units(self._words, terms, plain)

    def nearest(self, query: Vectors, count: int) -> Ranked:
        """Return the `count` nearest units of the scope."""
        found, horizon = Matches(), 1.0
        k = max(self._method.batch, count * PASSAGES_PER_UNIT)
        while k <= MAX_K and self._method.iterative:
            candidates = self._nearest_passages(query, k)
            similarities = cosines(candidates.vectors, query)
            wanted = candidates.wanted
            found.add(candidates.units[wanted], candidates.memories[wanted], similarities[wanted])
            if len(similarities) < k:
                return Ranked(found.best(count), complete=len(found) <= count)
            horizon = float(similarities[-1])
            if found.settled(horizon + ROUNDING) >= count:
                return Ranked(found.best(count), complete=False)
            k = MAX_K if k < MAX_K < k * GROWTH else k * GROWTH
        return self._scanned(query, count, found, horizon)

    def _scanned(self, query: Vectors, count: int, found: Matches, horizon: float) -> Ranked:
        """Scan the scope in the order of unit ids. No unit that is not in `found` is nearer than the horizon."""
        limit = MAX_PASSAGES_SCANNED if self._method.iterative else -1
        passages = self._passages(limit)
        for start in range(0, len(passages), PASSAGES_PER_SCAN):
            rows = passages[start : start + PASSAGES_PER_SCAN]
            rows = rows[np.argsort(rows[:, 0])]
            ids, vectors = self._vectors_of(rows[:, 0].tolist())
            rows = rows[np.isin(rows[:, 0], ids)]
            found.add(rows[:, 1], rows[:, 2], cosines(vectors, query))
            if len(rows) and found.settled(horizon, seen=int(rows[:, 1].max())) >= count:
                return Ranked(found.best(count), complete=False)
        partial = len(passages) == limit
        return Ranked(found.best(count), complete=len(found) <= count and not partial, partial=partial)

    def similarities(self, query: Vectors, matches: Sequence[Match]) -> dict[int, float]:
        """Return the cosines of units found elsewhere, by id. Units without vectors are left out."""
        units, vectors = self._vectors_of_units([match.id for match in matches])
        highest: dict[int, float] = {}
        for unit, similarity in zip(units.tolist(), cosines(vectors, query).tolist(), strict=True):
            highest[unit] = max(highest.get(unit, -1.0), similarity)
        return highest

    @abstractmethod
    def _nearest_passages(self, query: Vectors, k: int) -> Candidates:
        """Return the `k` (at most MAX_K) passages nearest to the query, nearest first."""

    @abstractmethod
    def _passages(self, limit: int) -> Numbers:
        """Return the first `limit` passages sorted by unit id; -1: all.

        Shape (passages, 3): the ids of the passage, of its unit and of its memory.
        """

    @abstractmethod
    def _vectors_of(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of those passages that have vectors, ascending, and the vectors."""

    @abstractmethod
    def _vectors_of_units(self, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the unit of each passage of these units, and the vectors of the passages."""
