"""The units of a scope as arrays, from the blocks of the keyword index (`postings`) that have any of them.

The units of these blocks are entries, numbered block after block: a posting says with its block and its number which
entry it is of. Entries outside the scope lie between those inside.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.damaged import DAMAGED_KEYWORDS, DamagedError
from vector_memory.storage.postings import ID, LENGTH, Occurrences
from vector_memory.storage.scoring import Numbers, are_in, numbers_in

Bools = NDArray[np.bool_]

T = TypeVar("T", bound=np.generic)

OUTSIDE = -1
"""The entry of a unit that is in none of the blocks."""

MAX_GAPS = 8
"""Ids that leave out more than so many times as many as there are, as after a failover, are looked up by bisection."""

MAX_IDS = 4_000_000
"""To look up many, a table of so many ids is filled, whatever they leave out: that takes a few milliseconds."""


@dataclass(frozen=True)
class Units:
    """The units of a scope as entries.

    `block_ids`: ascending; `bases`: the number of entries before each block, and of all. Of memories, `memory_ids` (0:
    removed), and their `sizes` in units. Of entries, `ids`, `lengths` in terms, and whether it is `inside` the scope.
    """

    block_ids: Numbers
    bases: Numbers
    memory_ids: Numbers
    sizes: NDArray[np.uint32]
    ids: Numbers
    lengths: NDArray[np.uint32]
    inside: Bools

    @property
    def count(self) -> int:
        """The number of units in the scope."""
        return int(np.count_nonzero(self.inside))

    def entries_at(self, found: Occurrences) -> Numbers:
        """Return the entries of units with occurrences. Raises DamagedError."""
        entries: Numbers = self.bases[found.blocks] + found.numbers
        if (entries >= self.bases[found.blocks + 1]).any():
            raise DamagedError(DAMAGED_KEYWORDS)
        return entries

    def entries_of(self, unit_ids: Numbers) -> Numbers:
        """Return the entries of units, OUTSIDE for those in none of the blocks."""
        if not len(self.ids):
            return np.full(len(unit_ids), OUTSIDE)
        if self._by_id is None:
            found = self._order.take(self.ids[self._order].searchsorted(unit_ids), mode="clip")
            return np.where((self.ids[found] == unit_ids) & (unit_ids != 0), found, OUTSIDE)
        first, entries = self._by_id
        return entries.take(unit_ids - first, mode="clip")

    def by_id(self, values: NDArray[T]) -> Callable[[Numbers], NDArray[T]]:
        """Return what returns the values of many units, given their ids. `values`: of all entries, and of OUTSIDE."""
        used, first, count = self._range
        if count > MAX_IDS:
            return lambda unit_ids: values[self.entries_of(unit_ids)]
        own = np.full(count, values[OUTSIDE])
        own[self.ids[used] - first] = values[used]
        return lambda unit_ids: own.take(unit_ids - first, mode="clip")

    @cached_property
    def _by_id(self) -> tuple[int, Numbers] | None:
        """The entries of all ids from the first, with OUTSIDE at both ends; None: that would be too many."""
        used, first, count = self._range
        if count > MAX_GAPS * len(self.ids):
            return None
        entries = np.full(count, OUTSIDE, np.int64)
        entries[self.ids[used] - first] = used
        return first, entries

    @cached_property
    def _range(self) -> tuple[Numbers, int, int]:
        """The entries that have an id, the id before the lowest, and the number of ids from there to past the last."""
        used = np.flatnonzero(self.ids)
        there = self.ids[used]
        last = int(there.max(initial=0))
        first = int(there.min(initial=last))
        return used, first - 1, last - first + 3

    @cached_property
    def _order(self) -> Numbers:
        """The entries by ascending id."""
        return np.argsort(self.ids, kind="stable")

    def owners_of(self, entries: Numbers) -> Numbers:
        """Return the ids of the memories of units."""
        found: Numbers = self.memory_ids[np.cumsum(self.sizes, dtype=np.int64).searchsorted(entries, "right")]
        return found

    def of_memories(self, memory_ids: Sequence[int]) -> "Units":
        """Return the same for a scope of these memories."""
        return replace(self, inside=self.belongs_to(memory_ids))

    def without(self, memory_ids: Sequence[int]) -> "Units":
        """Return the same for a scope without these memories."""
        return replace(self, inside=self.inside & ~self.belongs_to(memory_ids))

    def belongs_to(self, memory_ids: Sequence[int]) -> Bools:
        """Return of each entry whether it is of these memories."""
        return np.repeat(are_in(np.sort(np.array(memory_ids, np.int64)), self.memory_ids), self.sizes)


def units_in(
    ids: str | None, units: str | None, memory_ids: bytes, sizes: bytes, unit_ids: bytes, lengths: bytes
) -> Units:
    """Return all units of some blocks, in the order of their ids: `ids` and numbers of `units` as JSON, and the rest.

    The rest is what `postings.Contents` has, of all blocks. Raises DamagedError.
    """
    try:
        block_ids, bases = numbers_in(ids), np.concatenate([[0], np.cumsum(numbers_in(units))])
        memories, own = np.frombuffer(memory_ids, ID), np.frombuffer(sizes, LENGTH)
        numbers, terms = np.frombuffer(unit_ids, ID), np.frombuffer(lengths, LENGTH)
    except ValueError:
        raise DamagedError(DAMAGED_KEYWORDS) from None
    # Before anything is made of the sizes: damaged ones would fill the memory.
    if not int(bases[-1]) == own.sum(dtype=np.int64) == len(numbers) == len(terms) or len(own) != len(memories):
        raise DamagedError(DAMAGED_KEYWORDS)
    return Units(block_ids, bases, memories, own, numbers, terms, np.repeat(memories != 0, own))
