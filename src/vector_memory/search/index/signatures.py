"""All passages of a memory file, in memory: their units, signatures of their vectors, and some vectors.

A signature has one bit for each number of a vector: whether it is above 0. The more bits two signatures share, the
nearer their vectors usually are (Charikar 2002). The signatures of a million vectors need 48 MB; the vectors need 1.5
GB.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.errors import DatabaseError
from vector_memory.search.index.units import Bools, Rows, Units, joined
from vector_memory.storage.queries.feed import IndexFeed, PlacedPassage
from vector_memory.storage.scoring import Signatures, Vectors, signatures_of

WORD_BITS = 64
BLOCK = 32_768
"""Signatures compared at a time, so that intermediate results stay in the processor's cache."""

OVERSAMPLING = 4
"""For each passage to compare, this many are chosen by the first estimate and ranked by the second."""

SAMPLE_STRIDE = 64

FEW = 16
"""Reading one in this many signatures takes half as long as reading all of them."""

MAX_TIES = 4
"""Limit of ties with the last of the highest values, as a multiple of `limit`."""

NOT_EMBEDDED = np.iinfo(np.int32).max

NEAREST_SHARE = 4
"""One in this many of the passages to compare is chosen by its estimated cosine alone."""


Differences = NDArray[np.uint16]
"""In how many bits signatures differ from that of a query."""


@dataclass(frozen=True, slots=True)
class Passages:
    """Passages by row, sorted by id. A value that is never changed, except that passages are marked as removed.

    Arrays have free capacity beyond `count`, which the next value fills, so values share arrays. `last_id`: all
    passages with ids up to this one are included.

    `ids`: the passages' ids. `entries`: the entries of their units, 0 if the passage was removed. `signatures`: one
    array for each 64 bits. `first_passages`: for each entry the row of its first passage, or NOT_EMBEDDED.
    """

    units: Units
    dimensions: int
    last_id: int
    count: int
    ids: NDArray[np.int64]
    entries: NDArray[np.int32]
    signatures: tuple[NDArray[np.uint64], ...]
    first_passages: NDArray[np.int32]

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
            signatures=tuple(np.empty(0, np.uint64) for _ in range(-(-dimensions // WORD_BITS))),
            first_passages=np.full(units.count, NOT_EMBEDDED, np.int32),
        )

    def with_units(self, units: Units) -> "Passages":
        """Return a copy with further units, or without units that were removed."""
        new = np.full(units.count - self.units.count, NOT_EMBEDDED, np.int32)
        return replace(self, units=units, first_passages=joined(self.first_passages, self.units.count, new))

    def extended(self, passages: Sequence[PlacedPassage], signatures: Signatures, last_id: int) -> "Passages":
        """Return a copy with further passages, sorted by id, with ids above all others.

        Raises DatabaseError if the unit of a passage is unknown.
        """
        known = self.units.entries_of([passage.memory_id for passage in passages])
        try:
            own = [known[memory_id, unit_id] for _, memory_id, unit_id in passages]
        except KeyError:
            raise DatabaseError(
                "A passage belongs to a unit without keywords: run `vector-memory doctor --fix`."
            ) from None
        entries = np.array(own, np.int32)
        rows = np.arange(self.count, self.count + len(passages), dtype=np.int32)
        np.minimum.at(self.first_passages, entries, rows)
        return replace(
            self,
            last_id=last_id,
            count=self.count + len(passages),
            ids=joined(self.ids, self.count, np.array([passage.id for passage in passages], np.int64)),
            entries=joined(self.entries, self.count, entries),
            signatures=tuple(joined(word, self.count, signatures[:, i]) for i, word in enumerate(self.signatures)),
        )

    def up_to(self, passage_id: int) -> int:
        """Return the number of passages with ids up to this one."""
        return int(np.searchsorted(self.ids[: self.count], passage_id, side="right"))

    def rows_in(self, session_id: str | None, first: int = 0) -> Rows:
        """Return the rows, from `first` on, of the passages of a session; None: of all sessions."""
        if session_id is None:
            return np.arange(first, self.count)
        inside = self.units.entries_in(self.units.members(Scope(session_id=session_id)))
        return first + np.flatnonzero(inside.take(self.entries[first : self.count]))

    def rows_of(self, passage_ids: NDArray[np.int64]) -> Rows:
        """Return the rows of passages, which must be included; this is not checked."""
        return np.searchsorted(self.ids[: self.count], passage_ids)

    def mark_removed(self, rows: Rows) -> None:
        """Mark passages as removed."""
        self.first_passages[self.entries[rows]] = NOT_EMBEDDED
        self.entries[rows] = 0

    def differences(self, query: Vectors, among: Rows | int) -> Differences:
        """Return in how many bits the signatures of passages differ from the query's.

        `among`: their rows, or their number if they are the first ones.
        """
        signature = signatures_of(query.reshape(1, -1))[0]
        count = among if isinstance(among, int) else len(among)
        differences = np.empty(count, np.uint16)
        for start in range(0, count, BLOCK):
            block = slice(start, min(start + BLOCK, count))
            rows = block if isinstance(among, int) else among[block]
            differences[block] = unequal_bits([word[rows] for word in self.signatures], signature)
        return differences

    def likeliest(
        self, query: Vectors, bonus: Vectors, among: Rows | int, differences: Differences, limit: int
    ) -> Rows:
        """Return the rows, ascending, of about `limit` passages likeliest to have the highest sums of cosine and bonus.

        `among`: the rows to choose from, or their number if they are the first ones; `differences`: of these. `bonus`:
        for each entry, -inf to exclude it. One in NEAREST_SHARE is chosen by its cosine alone. Signatures are compared
        twice. The first estimate is the number of bits that are equal to the query's. The second, for the best of
        these, sums the numbers of the query itself, each added or subtracted as the signature's bit says. For normally
        distributed numbers both are unbiased estimates of the cosine.
        """
        cosines, sums = self._estimates(bonus, among, differences)
        best = best_by_either(cosines, sums, OVERSAMPLING * limit)
        rows = best if isinstance(among, int) else among[best]
        packed = np.stack([word[rows] for word in self.signatures], axis=1)
        signs = np.unpackbits(packed.view(np.uint8), axis=1, count=self.dimensions)
        agreement = 2 * np.vecdot(signs.astype(np.float32), query) - query.sum()
        closer = agreement / np.sqrt(np.float32(2 * self.dimensions / np.pi))
        likeliest: Rows = rows[best_by_either(closer, closer + bonus[self.entries[rows]], limit)]
        return likeliest

    def _estimates(self, bonus: Vectors, among: Rows | int, differences: Differences) -> tuple[Vectors, Vectors]:
        """Return the cosines estimated from the number of equal bits, and their sums with the bonus."""
        by_bits = np.cos(np.linspace(0, np.pi, self.dimensions + 1, dtype=np.float32))
        cosines, sums = np.empty(len(differences), np.float32), np.empty(len(differences), np.float32)
        for start in range(0, len(differences), BLOCK):
            block = slice(start, min(start + BLOCK, len(differences)))
            own = bonus.take(self.entries[block if isinstance(among, int) else among[block]])
            estimates = by_bits.take(differences[block])
            np.add(estimates, np.minimum(own, 0), out=cosines[block])
            np.add(estimates, own, out=sums[block])
        return cosines, sums


@dataclass(frozen=True, slots=True)
class CachedVectors:
    """The vectors of the passages of a session, or of the whole file, sorted by row.

    `until`: all passages in rows below this one are included; later ones may be missing.
    """

    rows: Rows
    vectors: Vectors
    count: int
    until: int

    @classmethod
    def with_capacity(cls, count: int, dimensions: int) -> "CachedVectors":
        """Return an empty value with capacity for `count` vectors."""
        return cls(np.empty(count, np.int64), np.empty((count, dimensions), np.float32), 0, 0)

    def extended(self, rows: Rows, vectors: Vectors, until: int) -> "CachedVectors":
        """Return a copy with further vectors, whose rows are above all others, complete up to row `until`."""
        return CachedVectors(
            joined(self.rows, self.count, rows),
            joined(self.vectors, self.count, vectors),
            self.count + len(rows),
            until,
        )


class VectorCache(Protocol):
    """Caches the vectors of scopes."""

    def cached(self, view: "View", scope: Scope) -> CachedVectors | None:
        """Return vectors that include those of a scope, reading them if necessary; None: there are too many."""


class View:
    """The index as one snapshot sees it. `feed`: the feed of the snapshot. `units`: the units in its revision."""

    def __init__(self, cache: VectorCache, feed: IndexFeed, passages: Passages, units: Units, last_id: int) -> None:
        self._cache = cache
        self.feed = feed
        self.passages = passages
        self.units = units
        self.count = passages.up_to(last_id)
        """How many of the passages may be seen."""

    def members(self, scope: Scope, known: Sequence[int] | None = None) -> Bools:
        """Return for each memory row whether it is in the scope. `known`: the memories of the scope."""
        members = self.units.members(scope)
        if not self.units.knows(scope):
            inside = self.feed.memories_in(scope) if known is None else known
            members &= np.isin(self.units.memory_ids[: self.units.memory_count], inside)
        return members

    def cached(self, scope: Scope) -> CachedVectors | None:
        """Return vectors that include those of a scope; None: there are too many."""
        return self._cache.cached(self, scope)

    def visible(self, rows: Rows) -> Rows:
        """Return those of the rows, which are ascending, that the snapshot can see."""
        return rows[: np.searchsorted(rows, self.count)]

    def without_vectors(self, entries: Rows) -> Rows:
        """Return the entries of units that have no passage yet."""
        return entries[self.passages.first_passages[entries] >= self.count]

    def removed(self, rows: Rows) -> Rows:
        """Return the rows of those passages that have been deleted."""
        ids = self.passages.ids[rows]
        return rows[np.isin(ids, self.feed.existing_passages(ids.tolist()), invert=True)]


def best_by_either(cosines: Vectors, sums: Vectors, limit: int) -> Rows:
    """Return the positions of about `limit` values, ascending: the highest sums, and some of the highest cosines."""
    nearest = highest(cosines, limit // NEAREST_SHARE)
    return np.union1d(highest(sums, limit - limit // NEAREST_SHARE), nearest)


def highest(values: NDArray[np.floating], limit: int) -> Rows:
    """Return the positions of the `limit` highest values and of ties with the last one, ascending; none of -inf.

    Different vectors can have equal signatures, so ties are kept, up to MAX_TIES times `limit`. Values below the
    highest ones of a sample are excluded first, because partitioning a million values takes 5 ms and this takes 1 ms.
    """
    sample = values[::SAMPLE_STRIDE]
    rank = 2 * limit // SAMPLE_STRIDE + SAMPLE_STRIDE
    positions = np.flatnonzero(values > (np.partition(sample, -rank)[-rank] if len(sample) > rank else -np.inf))
    if len(positions) < min(limit, len(values)):
        positions = np.flatnonzero(values > -np.inf)
    if len(positions) <= limit:
        return positions
    enough = np.partition(values[positions], -limit)[-limit]
    above, equal = positions[values[positions] > enough], positions[values[positions] == enough]
    return np.union1d(above, equal[: MAX_TIES * limit])


def unequal_bits(words: Sequence[NDArray[np.uint64]], signature: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the number of bits in which each signature, given word by word, differs from `signature`."""
    differences = np.zeros(len(words[0]), np.uint16)
    for word, wanted in zip(words, signature, strict=True):
        differences += np.bitwise_count(word ^ wanted)
    return differences
