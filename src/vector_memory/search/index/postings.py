"""Which pieces have a term: lists of postings that were read before, kept in memory as long as there is room."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KEPT_BYTES = 16_000_000
"""Of postings: 2.6 millions."""


@dataclass(frozen=True, slots=True)
class PostingList:
    """The entries of the pieces that have a term, ascending, and how often each has it.

    Of the memories whose rows are below `memory_count`.
    """

    entries: NDArray[np.int32]
    counts: NDArray[np.uint16]
    memory_count: int

    def size(self) -> int:
        """Return how many bytes it takes, and what keeping it takes."""
        return self.entries.nbytes + self.counts.nbytes + 500


class PostingLists:
    """The lists that were used last, by bucket and hash of the term. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lists: OrderedDict[tuple[int, int], PostingList] = OrderedDict()
        self._size = 0

    def get(self, term: tuple[int, int]) -> PostingList | None:
        """Return the list of a term, if it is kept."""
        with self._lock:
            if term in self._lists:
                self._lists.move_to_end(term)
            return self._lists.get(term)

    def keep(self, term: tuple[int, int], postings: PostingList) -> None:
        """Keep a list in place of what was known of the term; those that were not used for longest make room."""
        with self._lock:
            known = self._lists.pop(term, None)
            self._size += postings.size() - (known.size() if known else 0)
            self._lists[term] = postings
            while self._size > KEPT_BYTES:
                self._size -= self._lists.popitem(last=False)[1].size()
