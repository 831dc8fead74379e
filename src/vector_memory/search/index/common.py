"""The words of many units: their lists of postings are made while the sketch is, so that no search has to read them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vector_memory.search.index.bm25 import entries_at
from vector_memory.search.index.lists import MAX_POSTINGS_BYTES, NO_POSTINGS, OVERHEAD, PostingList
from vector_memory.search.index.units import ABSENT, Rows, Units
from vector_memory.storage.postings import key_of, postings_in
from vector_memory.storage.queries.feed import IndexFeed
from vector_memory.storage.terms import STOP_WORDS, terms

ROOM = MAX_POSTINGS_BYTES * 2 // 3
"""Bytes that the lists may take of the cache. Searches for other words need the rest."""

MOST_WORDS = 256

SAMPLE = 32
"""Blocks, from the whole file, that show which words are common."""

BYTES_PER_POSTING = 2.2
"""A little more than a gap and a count."""


class CommonWords:
    """Gathers the postings of the most common words from all blocks of a file, in any order."""

    def __init__(self, feed: IndexFeed, units: Units, blocks: Rows) -> None:
        there = np.flatnonzero(units.kinds[: units.memory_count] != ABSENT)
        self._units = units
        self._rows = there[np.argsort(units.places[there], kind="stable")]
        sample = blocks[:: -(-len(blocks) // SAMPLE)] if len(blocks) else blocks
        self._keys = most_common(feed, sample, len(blocks)) if len(sample) else np.empty(0, np.int64)
        self._lists: dict[int, PostingList] = dict.fromkeys(range(len(self._keys)), NO_POSTINGS)

    def add(self, keys: NDArray[np.int64], places: NDArray[np.int64], counts: NDArray[np.uint16]) -> None:
        """Add postings of some blocks."""
        if not len(self._keys):
            return
        words = self._keys.searchsorted(keys)
        chosen = np.flatnonzero(self._keys.take(words, mode="clip") == keys)
        entries, inside = entries_at(self._units, self._rows, places[chosen])
        words, entries, counts = words[chosen][inside], entries[inside], counts[chosen][inside]
        order = np.lexsort((entries, words))
        words, entries, counts = words[order], entries[order], counts[order]
        ends = words.searchsorted(np.arange(len(self._keys)), side="right").tolist()
        for word, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            self._lists[word] = self._lists[word].extended(entries[begin:end], counts[begin:end], 1)

    def lists(self) -> Mapping[int, PostingList]:
        """Return the list of each word by the key of its term, rarer words first, after all blocks were added."""
        sizes = np.array([len(own.gaps.small) for own in self._lists.values()])
        return {int(self._keys[word]): self._sorted(self._lists.pop(word)) for word in np.argsort(sizes).tolist()}

    def _sorted(self, postings: PostingList) -> PostingList:
        entries, counts = postings.entries(), postings.counts.values()
        order = np.argsort(entries, kind="stable")
        return NO_POSTINGS.extended(entries[order], counts[order], self._units.memory_count)


def most_common(feed: IndexFeed, sample: Rows, blocks: int) -> NDArray[np.int64]:
    """Return the keys of the words, ascending, that most units of a sample of all blocks contain, and that fit."""
    _, keys, _, _ = postings_in(sample, feed.read_postings)
    stop = [key_of(term) for term in terms(" ".join(STOP_WORDS))]  # nobody asks for them
    found, counts = np.unique(keys[~np.isin(keys, stop)], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MOST_WORDS]
    sizes = OVERHEAD + counts[order] * (BYTES_PER_POSTING * blocks / len(sample))
    return np.sort(found[order[np.cumsum(sizes) <= ROOM]])
