"""What a process keeps in memory, as one transaction sees it: the nearest passages of a scope, and the best pieces."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vector_memory.search.catalogue import Catalogue, Vectors
from vector_memory.search.pieces import Bools, Pieces, Rows, joined
from vector_memory.search.ranking import VECTOR_WEIGHT
from vector_memory.search.word_scores import WordScores
from vector_memory.storage.database import Connection
from vector_memory.storage.filters import is_indexed
from vector_memory.storage.passages import distances_of, memories_in, passages_there
from vector_memory.values import Scope

LEAST_COMPARED = 1_000
COMPARED_SHARE = 1_000
"""Of a larger scope the likeliest by their signatures are compared: so many, or one of COMPARED_SHARE if that is more;
half as many where words help to choose them. How often one of the best is missed is in docs/performance.md."""

WORDS_FOR_COSINE = (1 - VECTOR_WEIGHT) / VECTOR_WEIGHT
"""So much of a cosine a score by words outweighs in a hybrid search."""

ROUNDING = 1e-5
"""More than what the same cosine can differ by when it is computed in another way."""


@dataclass(frozen=True, slots=True)
class Held:
    """The vectors of the passages of a session, or of the whole file, in the order of their rows; it only grows."""

    rows: Rows
    vectors: Vectors
    count: int

    @classmethod
    def with_room(cls, count: int, dimensions: int) -> "Held":
        """Return no vectors yet, with room for so many."""
        return cls(np.empty(count, np.int64), np.empty((count, dimensions), np.float32), 0)

    def extended(self, rows: Rows, vectors: Vectors) -> "Held":
        """Return these with further ones, whose rows are above those of all others."""
        return Held(
            joined(self.rows, self.count, rows), joined(self.vectors, self.count, vectors), self.count + len(rows)
        )


class Holder(Protocol):
    """Has the vectors of scopes in memory."""

    def held(self, connection: Connection, view: "View", scope: Scope) -> Held | None:
        """Return the vectors among which those of a scope are, read now if need be; None: they are too many."""


class Nearby(NamedTuple):
    """Pieces near a query: their entries, ascending, and the cosines of their nearest passages.

    All other passages have a lower sum of cosine and bonus than `horizon`; None: there are no others. Where not
    everything was compared, the others are taken to be as far as their signatures say.
    """

    entries: Rows
    cosines: NDArray[np.float64]
    horizon: float | None


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
    """Finds the pieces of a scope for which the sum of their cosine and a bonus for the words is highest.

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

    def find(self, count: int, nearest: int = 0) -> Nearby:
        """Return the pieces of about `count` passages with the highest sums, and of the `nearest` without a bonus."""
        while True:
            found, gone = self._find(count, nearest)
            if not len(gone):
                return found
            self._view.catalogue.forget(gone)

    def _find(self, count: int, nearest: int) -> tuple[Nearby, Rows]:
        """Also return the rows of passages that are gone."""
        raise NotImplementedError

    def _bonus(self, entries: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return what is added to the cosines of passages by their words."""
        if self._words is None:
            return np.zeros(len(entries))
        return self._words.of(entries) * WORDS_FOR_COSINE


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

    def _find(self, count: int, nearest: int) -> tuple[Nearby, Rows]:
        cosines = np.where(self._inside(self._rows), self._cosines, -np.inf)
        entries = self._entries.take(self._rows)
        chosen, horizon = above(cosines + self._bonus(entries), count)
        if nearest:
            chosen = np.union1d(chosen, above(cosines, nearest)[0])
        ids = self._view.catalogue.ids[self._rows[chosen]]
        there = np.isin(ids, passages_there(self._connection, ids.tolist()))
        far = distances(self._vectors[self._places[chosen]], self._query)
        return nearby(entries[chosen[there]], far[there], horizon), self._rows[chosen[~there]]


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

    def _find(self, count: int, nearest: int) -> tuple[Nearby, Rows]:
        catalogue = self._view.catalogue
        number = self._among if isinstance(self._among, int) else len(self._among)
        likely = max(LEAST_COMPARED, number // COMPARED_SHARE) // (1 if self._words is None else 2)
        limit = max(likely, 2 * (count + nearest))
        is_complete = number <= limit
        rows = self._rows_inside() if is_complete else self._likeliest(limit)
        ids, far = distances_of(self._connection, self._table, catalogue.ids[rows].tolist(), self._query)
        found = catalogue.rows_of(ids)
        entries = self._entries[found]
        sums = np.sort(1 - np.square(far) / 2 + self._bonus(entries))[::-1]
        horizon = None if is_complete or not len(sums) else float(sums[:count][-1])
        return nearby(entries, far, horizon), np.setdiff1d(rows, found)

    def _likeliest(self, limit: int) -> Rows:
        bonus = np.where(self._inside, np.float32(0), np.float32(-np.inf))
        if self._words is not None:
            bonus[self._words.entries] = self._bonus(self._words.entries)
        return self._view.catalogue.likeliest(self._query, bonus, self._among, limit)

    def _rows_inside(self) -> Rows:
        return np.flatnonzero(self._inside.take(self._entries[: self._view.count]))


def nearby(entries: NDArray[np.int32], far: NDArray[np.floating], horizon: float | None) -> Nearby:
    """Return the pieces of passages, given by the entries of their pieces and their distances."""
    pieces, places = np.unique(entries, return_inverse=True)
    cosines = np.full(len(pieces), -np.inf)
    np.maximum.at(cosines, places, 1 - np.square(far.astype(np.float64)) / 2)
    return Nearby(pieces.astype(np.int64), cosines, horizon)


def above(sums: NDArray[np.floating], count: int) -> tuple[Rows, float | None]:
    """Return the places of the `count` highest sums, and of those that may be as high, and what all others are below.

    That is None if there are no others.
    """
    if np.count_nonzero(sums > -np.inf) <= count:
        return np.flatnonzero(sums > -np.inf), None
    enough = np.partition(sums, -count)[-count]
    return np.flatnonzero(sums >= enough - ROUNDING), float(enough) - ROUNDING / 2


def distances(vectors: Vectors, query: Vectors) -> Vectors:
    """Return how far each vector is from the query: equal ones equally far, as no matrix product warrants."""
    lengths: Vectors = np.sqrt(np.square(vectors - query).sum(axis=1))
    return lengths
