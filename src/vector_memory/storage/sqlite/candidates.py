"""The units of a scope that are nearest to a vector, with the ids and order of a scan of all of them."""

from collections.abc import Sequence
from typing import Protocol

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import TRAITS, Scope
from vector_memory.storage.ranking import ROUNDING, Match, Method, Numbers, Ranked, Vectors, WordRanking, best, cosines
from vector_memory.storage.sqlite import vectors as vector_rows
from vector_memory.storage.sqlite.vec0 import MAX_K
from vector_memory.storage.sqlite.vectors import Candidates, table_for
from vector_memory.storage.sqlite.word_ranking import rank

GROWTH = 4
"""Each batch is so many times the one before. All vectors are compared anew for each, so few large steps are cheaper
than many small ones."""

PASSAGES_PER_UNIT = 4

MAX_SCANNED = 50_000
"""Passages that are read one after another where the index cannot say which are nearest, before a search gives up."""

SCANNED_AT_ONCE = 4_096


class VectorTable(Protocol):
    """The passages of one scope that have vectors."""

    def nearest(self, query: Vectors, k: int) -> Candidates:
        """Return the `k` (at most MAX_K) passages nearest to the query, nearest first."""

    def in_order(self, limit: int) -> Numbers:
        """Return the first passages by their units' ids, -1: all; shape (passages, 3): passage, unit and memory."""

    def vectors_of(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of those passages that have vectors, ascending, and the vectors."""

    def vectors_of_units(self, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the vectors of all passages of units, and which unit each is of."""


class Matches:
    """Units and the cosines of their nearest passages, as far as passages have been compared."""

    def __init__(self) -> None:
        self._units = self._memories = np.empty(0, np.int64)
        self._cosines = np.empty(0)

    def add(self, units: Numbers, memories: Numbers, similarities: NDArray[np.float64]) -> None:
        """Add passages, by their units, the memories of these, and their cosines."""
        all_units = np.concatenate([self._units, units])
        owners = np.concatenate([self._memories, memories])
        self._units, firsts, places = np.unique(all_units, return_index=True, return_inverse=True)
        self._memories = owners[firsts]
        highest = np.full(len(self._units), -np.inf)
        np.maximum.at(highest, places, np.concatenate([self._cosines, similarities]))
        self._cosines = highest

    def best(self, count: int) -> list[Match]:
        """Return the `count` nearest, the one with the lower id first of those that are equally near."""
        order = best(self._cosines, self._units, count)
        columns = (self._units[order].tolist(), self._memories[order].tolist(), self._cosines[order].tolist())
        return [Match(*row) for row in zip(*columns, strict=True)]

    def settled(self, horizon: float, seen: int = 0) -> int:
        """Return how many no other unit comes before, if none is nearer than the horizon.

        `seen`: all units with lower ids have been compared.
        """
        equal = (self._cosines == horizon) & (self._units < seen)
        return int(np.count_nonzero((self._cosines > horizon) | equal))

    def __len__(self) -> int:
        return len(self._units)


class NearestUnits:
    """Answers "what is closest to this vector?" exactly, from a table that answers for passages.

    Passages are fetched in growing batches until enough units are nearer than what has not been fetched: then nothing
    that is still unseen can rank among them. Where more are equally near than the table gives, the scope is read in the
    order of the ids until enough of them are known.
    """

    def __init__(self, table: VectorTable, method: Method) -> None:
        self._table = table
        self._method = method

    def nearest(self, query: Vectors, count: int) -> Ranked:
        """Return the `count` nearest units of the scope."""
        found, horizon = Matches(), 1.0
        k = max(self._method.batch, count * PASSAGES_PER_UNIT)
        while k <= MAX_K and self._method.iterative:
            candidates = self._table.nearest(query, k)
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
        """Read the scope in the order of the ids of its units, of which none that is not found is nearer than this."""
        limit = MAX_SCANNED if self._method.iterative else -1
        passages = self._table.in_order(limit)
        for start in range(0, len(passages), SCANNED_AT_ONCE):
            rows = passages[start : start + SCANNED_AT_ONCE]
            rows = rows[np.argsort(rows[:, 0])]
            ids, vectors = self._table.vectors_of(rows[:, 0].tolist())
            rows = rows[np.isin(rows[:, 0], ids)]
            found.add(rows[:, 1], rows[:, 2], cosines(vectors, query))
            if len(rows) and found.settled(horizon, seen=int(rows[:, 1].max())) >= count:
                return Ranked(found.best(count), complete=False)
        partial = len(passages) == limit
        return Ranked(found.best(count), complete=len(found) <= count and not partial, partial=partial)

    def similarities(self, query: Vectors, matches: Sequence[Match]) -> dict[int, float]:
        """Return the cosines of units that something else has found, by id; those without vectors have none."""
        units, vectors = self._table.vectors_of_units([match.id for match in matches])
        highest: dict[int, float] = {}
        for unit, similarity in zip(units.tolist(), cosines(vectors, query).tolist(), strict=True):
            highest[unit] = max(highest.get(unit, -1.0), similarity)
        return highest


class MemoryVectors:
    """The VectorTable of a scope of memories, which is of one kind."""

    def __init__(self, connection: apsw.Connection, scope: Scope) -> None:
        self._connection = connection
        self._scope = scope
        self._table = table_of(scope)

    def nearest(self, query: Vectors, k: int) -> Candidates:
        """Return the `k` passages nearest to the query, nearest first."""
        return vector_rows.nearest(self._connection, self._table, self._scope, query, k)

    def in_order(self, limit: int) -> Numbers:
        """Return the first passages by their units' ids."""
        return vector_rows.passages_in(self._connection, self._scope, limit)

    def vectors_of(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of those passages that have vectors, ascending, and the vectors."""
        return vector_rows.vectors_of(self._connection, self._table, passage_ids)

    def vectors_of_units(self, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the vectors of all passages of units, and which unit each is of."""
        return vector_rows.vectors_of_units(self._connection, self._table, unit_ids)


class MemoryCandidates(NearestUnits):
    """The CandidateSource of a scope of memories, as the connection's transaction sees it."""

    def __init__(self, connection: apsw.Connection, scope: Scope, method: Method) -> None:
        super().__init__(MemoryVectors(connection, scope), method)
        self._connection = connection
        self._scope = scope

    def rank_words(self, terms: Sequence[str]) -> WordRanking:
        """Rank the scope's units for any of the terms."""
        return rank(self._connection, self._scope, terms)


def table_of(scope: Scope) -> str:
    """Return the vec0 table of a scope of one kind."""
    return table_for(chunked=scope.kind is not None and TRAITS[scope.kind].chunked)
