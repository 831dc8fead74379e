"""What a process keeps in memory, as one transaction sees it: the nearest passages of a scope, and the best pieces."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.search.fusion import COMPARED, ROUNDING, VECTOR_WEIGHT, cosines, fused_scores
from vector_memory.search.index.bm25 import WordScores
from vector_memory.search.index.signatures import Catalogue, Vectors
from vector_memory.search.index.units import Bools, Pieces, Rows, joined
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.filters import is_indexed
from vector_memory.storage.sqlite.passages import memories_in, passages_there, some_vectors_of
from vector_memory.storage.sqlite.scores import best

LEAST_COMPARED = 1_000
COMPARED_SHARE = 1_000
"""Of a larger scope the likeliest by their signatures are compared: so many, or one of COMPARED_SHARE if that is more;
half as many where words help to choose them. How often one of the best is missed is in docs/performance.md."""

WORDS_FOR_COSINE = (1 - VECTOR_WEIGHT) / VECTOR_WEIGHT
"""So much of a cosine a score by words outweighs in a hybrid search."""

MOST_COMPARED = 32_768
"""Where a few pieces have so many of the likeliest passages that others are not seen, a search gives up after these."""

GROWTH = 4
PASSAGES_PER_PIECE = 4


@dataclass(frozen=True, slots=True)
class Held:
    """The vectors of the passages of a session, or of the whole file, in the order of their rows; it only grows.

    `until`: passages in rows below this one are here; those of later rows may have to be read.
    """

    rows: Rows
    vectors: Vectors
    count: int
    until: int

    @classmethod
    def with_room(cls, count: int, dimensions: int) -> "Held":
        """Return no vectors yet, with room for so many."""
        return cls(np.empty(count, np.int64), np.empty((count, dimensions), np.float32), 0, 0)

    def extended(self, rows: Rows, vectors: Vectors, until: int) -> "Held":
        """Return these with further ones, whose rows are above those of all others; then nothing lacks until there."""
        return Held(
            joined(self.rows, self.count, rows),
            joined(self.vectors, self.count, vectors),
            self.count + len(rows),
            until,
        )


class Holder(Protocol):
    """Has the vectors of scopes in memory."""

    def held(self, connection: Connection, view: "View", scope: Scope) -> Held | None:
        """Return the vectors among which those of a scope are, read now if need be; None: they are too many."""


class Nearby(NamedTuple):
    """Pieces near a query: their entries, ascending, and the cosines of their nearest passages, rounded.

    `partial`: so much was compared without finding as many as were wanted that the search gave up.
    """

    entries: Rows
    cosines: NDArray[np.float64]
    partial: bool = False


class Wanted(NamedTuple):
    """What is looked for: the best pieces, so many, or with `memories` the memories that have the best pieces.

    `nearest`: besides, so many of the nearest pieces.
    """

    number: int
    nearest: int = 0
    memories: bool = False


class View:
    """Answers for the state of the file that one transaction sees."""

    def __init__(self, holder: Holder, catalogue: Catalogue, pieces: Pieces, last_id: int) -> None:
        self._holder = holder
        self.catalogue = catalogue
        self.pieces = pieces
        self.count = catalogue.up_to(last_id)
        """So many of the passages may be seen."""

    def members(self, connection: Connection, scope: Scope) -> Bools:
        """Tell of each memory's row whether it is in the scope."""
        members = self.pieces.members(scope)
        if not is_indexed(scope):
            members &= np.isin(self.pieces.memory_ids[: self.pieces.memory_count], memories_in(connection, scope))
        return members

    def visible(self, rows: Rows) -> Rows:
        """Return those of the rows, which ascend, that the transaction may see."""
        return rows[: np.searchsorted(rows, self.count)]

    def without_passages(self, entries: Rows) -> Rows:
        """Return those of the entries whose pieces have no passage yet."""
        return entries[self.catalogue.embedded[entries] >= self.count]

    def comparison(
        self,
        connection: Connection,
        table: str,
        scope: Scope,
        members: Bools,
        query: Vectors,
        words: WordScores | None = None,
    ) -> "Comparison":
        """Return what compares the query with the passages of a scope, of which `members` are; they are in this table.

        Their pieces' scores by words, if there are such, are added as a hybrid search weighs them.
        """
        nothing = Held.with_room(0, self.catalogue.dimensions)
        held = self._holder.held(connection, self, scope) if members.any() else nothing
        if held is None:
            return ComparisonBySignature(connection, self, members, query, words, table)
        return ComparisonOfAll(connection, self, members, query, words, held)


class Comparison:
    """Finds the pieces of a scope with the highest scores: by their cosines or, with words, by both measures.

    `members` tells of each memory's row whether it is in the scope.
    """

    def __init__(
        self, connection: Connection, view: View, members: Bools, query: Vectors, words: WordScores | None
    ) -> None:
        self._connection = connection
        self._view = view
        self._members = members
        self._query = query
        self._words = words
        self._entries = view.catalogue.entries

    def find(self, wanted: Wanted) -> Nearby:
        """Return what is wanted; of equal ones those with the lowest ids."""
        while True:
            found, gone = self._find(wanted)
            if not len(gone):
                return found
            self._view.catalogue.forget(gone)

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
        return self._view.pieces.owners.take(entries) if wanted.memories else entries

    def _best(self, nearby: Nearby, wanted: Wanted) -> Nearby:
        """Return those of the pieces that are wanted."""
        entries, similarities = nearby.entries, nearby.cosines
        ids, owners = self._view.pieces.named(entries)
        scores = similarities if self._words is None else fused_scores(similarities, self._words.of(entries))
        kept = of_best_memories(scores, owners, wanted.number) if wanted.memories else best(scores, ids, wanted.number)
        if wanted.nearest:
            kept = np.union1d(kept, best(similarities, ids, wanted.nearest))
        kept.sort()
        return Nearby(entries[kept], similarities[kept], nearby.partial)


class ComparisonOfAll(Comparison):
    """Compares all vectors, which are held in memory."""

    def __init__(
        self, connection: Connection, view: View, members: Bools, query: Vectors, words: WordScores | None, held: Held
    ) -> None:
        super().__init__(connection, view, members, query, words)
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
        owners = self._view.pieces.owners.take(self._entries.take(rows))
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
            cosines(self._vectors[places[start : start + COMPARED]], self._query)
            for start in range(0, len(places), COMPARED)
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def _gone(self, rows: Rows) -> Rows:
        rows = rows[self._inside(rows)]
        ids = self._view.catalogue.ids[rows]
        return rows[np.isin(ids, passages_there(self._connection, ids.tolist()), invert=True)]


class ComparisonBySignature(Comparison):
    """Compares those passages that are likeliest to have the highest sums."""

    def __init__(
        self, connection: Connection, view: View, members: Bools, query: Vectors, words: WordScores | None, table: str
    ) -> None:
        super().__init__(connection, view, members, query, words)
        self._table = table
        self._inside = view.pieces.entries_in(members)
        is_rare = np.count_nonzero(self._inside) * 4 < len(self._inside)
        self._among = self._rows_inside() if is_rare else view.count

    def _find(self, wanted: Wanted) -> tuple[Nearby, Rows]:
        number = self._among if isinstance(self._among, int) else len(self._among)
        likely = max(LEAST_COMPARED, number // COMPARED_SHARE) // (1 if self._words is None else 2)
        limit = min(MOST_COMPARED, max(likely, 2 * PASSAGES_PER_PIECE * (wanted.number + wanted.nearest)))
        while True:
            rows = self._rows_inside() if number <= limit else self._likeliest(limit)
            ids, vectors = some_vectors_of(self._connection, self._table, self._view.catalogue.ids[rows].tolist())
            near = nearby(self._entries[self._view.catalogue.rows_of(ids)], cosines(vectors, self._query))
            gone = np.setdiff1d(rows, self._view.catalogue.rows_of(ids))
            is_enough = len(np.unique(self._groups(near.entries, wanted))) >= wanted.number or number <= limit
            if is_enough or len(gone) or limit >= MOST_COMPARED:
                return self._best(near._replace(partial=not is_enough), wanted), gone
            limit = min(MOST_COMPARED, limit * GROWTH)

    def _likeliest(self, limit: int) -> Rows:
        bonus = np.where(self._inside, np.float32(0), np.float32(-np.inf))
        if self._words is not None:
            bonus[self._words.entries] = self._bonus(self._words.entries)
        return self._view.catalogue.likeliest(self._query, bonus, self._among, limit)

    def _rows_inside(self) -> Rows:
        return np.flatnonzero(self._inside.take(self._entries[: self._view.count]))


def nearby(entries: NDArray[np.int32], similarities: NDArray[np.float64]) -> Nearby:
    """Return the pieces of passages, given by the entries of their pieces and their cosines."""
    pieces, places = np.unique(entries, return_inverse=True)
    highest = np.full(len(pieces), -np.inf)
    np.maximum.at(highest, places, similarities)
    return Nearby(pieces.astype(np.int64), highest)


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
    """Return the places of the pieces of the `count` memories that have the best ones."""
    memories, places = np.unique(owners, return_inverse=True)
    highest = np.full(len(memories), -np.inf)
    np.maximum.at(highest, places, scores)
    is_best = np.zeros(len(memories), np.bool_)
    is_best[best(highest, memories, count)] = True
    return np.flatnonzero(is_best[places])
