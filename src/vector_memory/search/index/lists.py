"""Lists of postings in memory: which units contain a term, and how often. A posting takes two bytes, or a few more."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_POSTINGS_BYTES = 20_000_000
"""Size of the cache of postings: about 9 million."""

OVERHEAD = 1_000
"""Bytes that a list occupies besides its postings."""

LARGE = 255


class Packed(NamedTuple):
    """Integers of which most are small. `small`: each as a byte; LARGE stands for the next one of `large`."""

    small: NDArray[np.uint8]
    large: NDArray[np.int32]

    @classmethod
    def of(cls, values: NDArray[np.integer]) -> "Packed":
        """Pack integers of 32 bits."""
        is_large = (values < 0) | (values >= LARGE)
        return cls(np.where(is_large, LARGE, values).astype(np.uint8), values[is_large].astype(np.int32))

    def followed_by(self, other: "Packed") -> "Packed":
        """Return these integers and then the others."""
        return Packed(np.concatenate([self.small, other.small]), np.concatenate([self.large, other.large]))

    def values(self) -> NDArray[np.int32]:
        """Return the integers."""
        values = self.small.astype(np.int32)
        values[self.small == LARGE] = self.large
        return values


@dataclass(frozen=True, slots=True)
class PostingList:
    """The entries of the units that contain a term, as `gaps` between them, and its count in each.

    It covers the memories in rows below `memory_count`. `last`: the last entry.
    """

    gaps: Packed
    counts: Packed
    last: int
    memory_count: int

    def entries(self) -> NDArray[np.int32]:
        """Return the entries."""
        return np.cumsum(self.gaps.values(), dtype=np.int32)

    def extended(self, entries: NDArray[np.integer], counts: NDArray[np.integer], memory_count: int) -> "PostingList":
        """Return a copy with the postings of further memories."""
        if not len(entries):
            return PostingList(self.gaps, self.counts, self.last, memory_count)
        before = np.concatenate([[self.last], entries[:-1]])
        gaps = Packed.of(entries - before)
        return PostingList(
            self.gaps.followed_by(gaps), self.counts.followed_by(Packed.of(counts)), int(entries[-1]), memory_count
        )

    def size(self) -> int:
        """Return the bytes that it occupies in the cache."""
        return OVERHEAD + sum(array.nbytes for packed in (self.gaps, self.counts) for array in packed)


NOTHING = Packed.of(np.empty(0, np.int32))
NO_POSTINGS = PostingList(NOTHING, NOTHING, 0, 1)


class PostingLists:
    """A cache of the most recently used posting lists, by the key of the term. Safe to use from several threads."""

    def __init__(self, known: Mapping[int, PostingList] | None = None) -> None:
        self._lock = threading.Lock()
        self._lists: OrderedDict[int, PostingList] = OrderedDict()
        self._size = 0
        for key, postings in (known or {}).items():
            self.keep(key, postings)

    def get(self, key: int) -> PostingList | None:
        """Return the list of a term, or None if it is not cached."""
        with self._lock:
            if key in self._lists:
                self._lists.move_to_end(key)
            return self._lists.get(key)

    def keep(self, key: int, postings: PostingList) -> None:
        """Cache the list of a term, replacing an earlier one, and evict the least recently used lists."""
        with self._lock:
            known = self._lists.pop(key, None)
            self._size += postings.size() - (known.size() if known else 0)
            self._lists[key] = postings
            while self._size > MAX_POSTINGS_BYTES:
                self._size -= self._lists.popitem(last=False)[1].size()

    def most_recent(self) -> dict[int, PostingList]:
        """Return the lists by key, the most recently used last."""
        with self._lock:
            return dict(self._lists)
