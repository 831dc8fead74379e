"""BM25 over units in memory: the scores of `CandidateSource.rank_words`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.search.index.units import ABSENT, Bools, PostingList, Rows, Units
from vector_memory.storage.ranking import (
    PLACES_PER_BLOCK,
    IndexFeed,
    Wording,
    covered_by_best,
    highest_score,
    scores_for,
)

WIDE_SCOPE = 8
"""If a scope has units in more than one in this many blocks, the postings of the whole file are read and cached."""

Scores = NDArray[np.float64]


class Occurrences(NamedTuple):
    """The entries of the units that contain a term, and its count in each."""

    entries: NDArray[np.int32]
    counts: NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class WordScores:
    """The BM25 scores of units, as shares of the highest possible score.

    `window`: the scores of entries `first` and up, a range that includes all entries of the scope. `entries`: the
    entries of the scope that contain one of the terms, ascending.
    """

    first: int
    window: Scores
    entries: Rows
    wording: Wording

    def of(self, entries: NDArray[np.integer]) -> Scores:
        """Return the scores of entries of the scope. For other entries the result is undefined."""
        return self.window.take(entries - self.first, mode="clip")


def word_scores(feed: IndexFeed, units: Units, members: Bools, terms: Sequence[str]) -> WordScores:
    """Score the units of a scope with its own statistics. `members`: for each memory row, whether it is in the scope.

    The feed must have the revision of these units.
    """
    rows = np.flatnonzero(members)
    if not len(rows):
        return WordScores(0, np.zeros(1), rows, Wording(0.0, 0))
    first, end = int(units.firsts[rows].min()), int((units.firsts[rows] + units.sizes[rows]).max())
    count, total = int(units.sizes[rows].sum()), int(units.totals[rows].sum())
    mean_length = total / count if total else 1.0
    is_wide = len(blocks_of(units, rows)) * WIDE_SCOPE > units.places[: units.memory_count].max() // PLACES_PER_BLOCK
    window, words = np.zeros(end - first), []
    for term in terms:
        found = occurrences_in_file(feed, units, term) if is_wide else occurrences_in_rows(feed, units, rows, term)
        inside = members.take(units.owners.take(found.entries))
        entries, counts = found.entries[inside], found.counts[inside]
        most = highest_score(count, len(entries))
        words.append((most, entries - first))
        window[entries - first] += scores_for(most, counts, units.lengths[entries] / mean_length)
    window /= sum(most for most, _ in words) or 1.0
    return WordScores(first, window, first + np.flatnonzero(window), Wording(covered_by_best(window, words), count))


def occurrences_in_file(feed: IndexFeed, units: Units, term: str) -> Occurrences:
    """Return the occurrences of a term in the whole file. Cached postings are not read again."""
    known = units.postings.get(term)
    if known is None or known.memory_count < units.memory_count:
        first = 1 if known is None else known.memory_count
        rows = first + np.flatnonzero(units.kinds[first : units.memory_count] != ABSENT)
        entries, counts = occurrences_in_rows(feed, units, rows, term, all_blocks=known is None)
        if known is not None:
            entries, counts = np.concatenate([known.entries, entries]), np.concatenate([known.counts, counts])
        known = PostingList(entries, counts, units.memory_count)
        units.postings.keep(term, known)
    end = len(known.entries) if known.memory_count == units.memory_count else known.entries.searchsorted(units.count)
    return Occurrences(known.entries[:end], known.counts[:end])


def occurrences_in_rows(
    feed: IndexFeed, units: Units, rows: Rows, term: str, *, all_blocks: bool = False
) -> Occurrences:
    """Return the occurrences of a term in the memories of the rows, sorted by entry."""
    order = np.argsort(units.places[rows], kind="stable")
    starts = units.places[rows][order]
    blocks = None if all_blocks else blocks_of(units, rows).tolist()
    places, counts = feed.occurrences(term, blocks)
    before = np.searchsorted(starts, places, side="right") - 1
    owners, numbers = rows[order[before]], places - starts[before]
    inside = (before >= 0) & (numbers < units.sizes[owners])
    entries = (units.firsts[owners] + numbers)[inside].astype(np.int32)
    ascending = np.argsort(entries, kind="stable")
    return Occurrences(entries[ascending], counts[inside][ascending])


def blocks_of(units: Units, rows: Rows) -> Rows:
    """Return the blocks that contain the memories of the rows, ascending."""
    return np.flatnonzero(np.bincount(units.places[rows] // PLACES_PER_BLOCK))
