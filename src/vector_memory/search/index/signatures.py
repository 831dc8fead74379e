"""All passages of a memory file, in memory: the unit that each belongs to, a signature of its vector, some vectors.

A signature has one bit for each number of a vector: whether it is above 0. The more bits of two signatures are equal,
the nearer their vectors are, as a rule (Charikar 2002), so that a million vectors need 48 MB in place of 1.5 GB.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.errors import DatabaseError
from vector_memory.search.index.units import Bools, Rows, Units, joined
from vector_memory.storage.ranking import IndexFeed, PlacedPassage, Vectors

WORD = 64
BLOCK = 32_768
"""Signatures compared at a time: what is between the steps stays in the processor's cache."""

SIFTED = 4
"""So many times as many signatures are compared a second time as are wanted in the end."""

SAMPLED = 64

TIES = 4
"""So many times as many as are wanted may be as high as the last of them; of more, the first are taken."""

NEVER = np.iinfo(np.int32).max

NEAREST_SHARE = 4
"""Of what is compared, one of so many is chosen by its meaning alone."""


@dataclass(frozen=True, slots=True)
class Passages:
    """Passages by their row, which is their place in the order of their ids; a value that only grows into others.

    Arrays have room behind `count`, which the next value fills: what is before is never moved nor changed, but for
    passages that are gone. `last_id`: passages up to this id are here.

    `ids` are the passages' ids; `entries` those of their units, 0 if they are gone; `signatures` one array for each 64
    bits. Of each entry `embedded` is the row of its first passage, or NEVER.
    """

    units: Units
    dimensions: int
    last_id: int
    count: int
    ids: NDArray[np.int64]
    entries: NDArray[np.int32]
    signatures: tuple[NDArray[np.uint64], ...]
    embedded: NDArray[np.int32]

    @classmethod
    def empty(cls, units: Units, dimensions: int) -> Self:
        """Return no passages."""
        return cls(
            units=units,
            dimensions=dimensions,
            last_id=0,
            count=0,
            ids=np.empty(0, np.int64),
            entries=np.empty(0, np.int32),
            signatures=tuple(np.empty(0, np.uint64) for _ in range(-(-dimensions // WORD))),
            embedded=np.full(units.count, NEVER, np.int32),
        )

    def with_units(self, units: Units) -> "Passages":
        """Return these with further units, or without some that are gone."""
        new = np.full(units.count - self.units.count, NEVER, np.int32)
        return replace(self, units=units, embedded=joined(self.embedded, self.units.count, new))

    def extended(self, passages: Sequence[PlacedPassage], vectors: Vectors, last_id: int) -> "Passages":
        """Return these with further passages, in the order of their ids, which are above those of all others.

        Raises DatabaseError if a passage is of no unit.
        """
        bits = signatures_of(vectors)
        known = self.units.entries_of([passage.memory_id for passage in passages])
        try:
            own = [known[memory_id, unit_id] for _, memory_id, unit_id in passages]
        except KeyError:
            raise DatabaseError(
                "A passage belongs to a unit without keywords: run `vector-memory doctor --fix`."
            ) from None
        entries = np.array(own, np.int32)
        rows = np.arange(self.count, self.count + len(passages), dtype=np.int32)
        np.minimum.at(self.embedded, entries, rows)
        return replace(
            self,
            last_id=last_id,
            count=self.count + len(passages),
            ids=joined(self.ids, self.count, np.array([passage.id for passage in passages], np.int64)),
            entries=joined(self.entries, self.count, entries),
            signatures=tuple(joined(word, self.count, bits[:, i]) for i, word in enumerate(self.signatures)),
        )

    def up_to(self, passage_id: int) -> int:
        """Return the number of passages up to this id."""
        return int(np.searchsorted(self.ids[: self.count], passage_id, side="right"))

    def rows_in(self, session_id: str | None, first: int = 0) -> Rows:
        """Return the rows, from `first` on, of the passages of a session, or with None of all."""
        if session_id is None:
            return np.arange(first, self.count)
        inside = self.units.entries_in(self.units.members(Scope(session_id=session_id)))
        return first + np.flatnonzero(inside.take(self.entries[first : self.count]))

    def rows_of(self, passage_ids: NDArray[np.int64]) -> Rows:
        """Return the rows of passages that are here, which is not checked."""
        return np.searchsorted(self.ids[: self.count], passage_ids)

    def forget(self, rows: Rows) -> None:
        """Note that passages are gone."""
        self.embedded[self.entries[rows]] = NEVER
        self.entries[rows] = 0

    def likeliest(self, query: Vectors, bonus: Vectors, among: Rows | int, limit: int) -> Rows:
        """Return the rows of about `limit` passages that are likeliest to have the highest sums of cosine and bonus.

        `among` these rows, or the first so many. `bonus` is given for each entry, -inf for what is not wanted. One of
        NEAREST_SHARE is chosen whatever its bonus. Signatures are compared twice: those with the most bits of the
        query's signature once more with the numbers of the query itself, each added or subtracted as the signature's
        bit says. For normally distributed numbers both are unbiased estimates of the cosine.
        """
        cosines, sums = self._estimates(query, bonus, among)
        best = best_by_either(cosines, sums, SIFTED * limit)
        rows = best if isinstance(among, int) else among[best]
        packed = np.stack([word[rows] for word in self.signatures], axis=1)
        signs = np.unpackbits(packed.view(np.uint8), axis=1, count=self.dimensions)
        agreement = 2 * np.vecdot(signs.astype(np.float32), query) - query.sum()
        closer = agreement / np.sqrt(np.float32(2 * self.dimensions / np.pi))
        return rows[best_by_either(closer, closer + bonus[self.entries[rows]], limit)]

    def _estimates(self, query: Vectors, bonus: Vectors, among: Rows | int) -> tuple[Vectors, Vectors]:
        """Return estimates of the cosines by the number of equal bits, and the sums of them and the bonus."""
        count = among if isinstance(among, int) else len(among)
        signature = signatures_of(query.reshape(1, -1))[0]
        by_bits = np.cos(np.linspace(0, np.pi, self.dimensions + 1, dtype=np.float32))
        cosines, sums = np.empty(count, np.float32), np.empty(count, np.float32)
        for start in range(0, count, BLOCK):
            block = slice(start, min(start + BLOCK, count))
            rows = block if isinstance(among, int) else among[block]
            own = bonus.take(self.entries[rows])
            estimates = by_bits.take(unequal_bits([word[rows] for word in self.signatures], signature))
            np.add(estimates, np.minimum(own, 0), out=cosines[block])
            np.add(estimates, own, out=sums[block])
        return cosines, sums


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

    def held(self, view: "View", scope: Scope) -> Held | None:
        """Return the vectors among which those of a scope are, read now if need be; None: they are too many."""


class View:
    """What one snapshot sees of the index. `feed`: that of the snapshot. `units`: as they are in it."""

    def __init__(self, holder: Holder, feed: IndexFeed, passages: Passages, units: Units, last_id: int) -> None:
        self._holder = holder
        self.feed = feed
        self.passages = passages
        self.units = units
        self.count = passages.up_to(last_id)
        """How many of the passages may be seen."""

    def members(self, scope: Scope) -> Bools:
        """Tell of each memory's row whether it is in the scope."""
        members = self.units.members(scope)
        if not self.units.knows(scope):
            members &= np.isin(self.units.memory_ids[: self.units.memory_count], self.feed.memories_in(scope))
        return members

    def held(self, scope: Scope) -> Held | None:
        """Return the vectors among which those of a scope are; None: they are too many."""
        return self._holder.held(self, scope)

    def visible(self, rows: Rows) -> Rows:
        """Return those of the rows, which ascend, that the snapshot may see."""
        return rows[: np.searchsorted(rows, self.count)]

    def without_passages(self, entries: Rows) -> Rows:
        """Return those of the entries whose units have no passage yet."""
        return entries[self.passages.embedded[entries] >= self.count]

    def gone(self, rows: Rows) -> Rows:
        """Return those of the passages in the rows that have been deleted."""
        ids = self.passages.ids[rows]
        return rows[np.isin(ids, self.feed.existing_passages(ids.tolist()), invert=True)]


def best_by_either(cosines: Vectors, sums: Vectors, limit: int) -> Rows:
    """Return the places of about `limit` highest sums, a part of them the highest cosines; ascending."""
    nearest = highest(cosines, limit // NEAREST_SHARE)
    return np.union1d(highest(sums, limit - limit // NEAREST_SHARE), nearest)


def highest(values: NDArray[np.floating], limit: int) -> Rows:
    """Return the places of the `limit` highest values and of those equal to the last, ascending; none of -inf.

    Signatures of unlike vectors can be equal, so ties are not broken as long as they are few.
    What is below the highest of a sample is left aside first: a partition of a million takes 5 ms, and this one.
    """
    sample = values[::SAMPLED]
    rank = 2 * limit // SAMPLED + SAMPLED
    places = np.flatnonzero(values > (np.partition(sample, -rank)[-rank] if len(sample) > rank else -np.inf))
    if len(places) < min(limit, len(values)):
        places = np.flatnonzero(values > -np.inf)
    if len(places) <= limit:
        return places
    enough = np.partition(values[places], -limit)[-limit]
    above, equal = places[values[places] > enough], places[values[places] == enough]
    return np.union1d(above, equal[: TIES * limit])


def signatures_of(vectors: Vectors) -> NDArray[np.uint64]:
    """Return the signatures of vectors, shape (vectors, 64-bit words)."""
    packed = np.packbits(vectors > 0, axis=1)
    padding = -packed.shape[1] % (WORD // 8)
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, padding)))).view(np.uint64)


def unequal_bits(words: Sequence[NDArray[np.uint64]], signature: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return in how many bits each signature, of which the words are given one after another, is not the given one."""
    differences = np.zeros(len(words[0]), np.uint16)
    for word, wanted in zip(words, signature, strict=True):
        differences += np.bitwise_count(word ^ wanted)
    return differences
