"""BM25 over pieces in memory: the scores that `storage.keywords.rank` takes from the tables alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.search.index.postings import PostingList
from vector_memory.search.index.units import NOWHERE, Bools, Pieces, Rows
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.keywords import hash_of, highest_score, scores_for
from vector_memory.storage.sqlite.units import NUMBERS_IN_BLOCK, occurrences

WIDE = 8
"""For a scope that has a part in one of so many blocks, the postings of the whole file are read, which are kept."""

Scores = NDArray[np.float64]


class Occurrences(NamedTuple):
    """The entries of the pieces that have a term, and how often each has it."""

    entries: NDArray[np.int32]
    counts: NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class WordScores:
    """The BM25 scores of pieces, as shares of the best that any text could have.

    `window` has the scores of the entries from `first` on, among which those of the scope are; `entries` are those of
    the scope that have one of the terms, ascending.
    """

    first: int
    window: Scores
    entries: Rows

    def of(self, entries: NDArray[np.integer]) -> Scores:
        """Return the scores of entries of the scope; for others something that means nothing."""
        return self.window.take(entries - self.first, mode="clip")


def word_scores(connection: Connection, pieces: Pieces, members: Bools, terms: Sequence[str]) -> WordScores:
    """Score the pieces of the scope of which `members` tells each memory's row, with the statistics of the scope.

    The connection has to see the state of the file in which these are its pieces.
    """
    rows = np.flatnonzero(members)
    if not len(rows):
        return WordScores(0, np.zeros(1), rows)
    first, end = int(pieces.firsts[rows].min()), int((pieces.firsts[rows] + pieces.sizes[rows]).max())
    count, total = int(pieces.sizes[rows].sum()), int(pieces.totals[rows].sum())
    mean_length = total / count if total else 1.0
    is_wide = len(blocks_of(pieces, rows)) * WIDE > pieces.places[: pieces.memory_count].max() // NUMBERS_IN_BLOCK
    window, possible = np.zeros(end - first), 0.0
    for term in terms:
        found = in_all(connection, pieces, term) if is_wide else in_rows(connection, pieces, rows, term)
        inside = members.take(pieces.owners.take(found.entries))
        entries, counts = found.entries[inside], found.counts[inside]
        most = highest_score(count, len(entries))
        possible += most
        window[entries - first] += scores_for(most, counts, pieces.lengths[entries] / mean_length)
    if possible:
        window /= possible
    return WordScores(first, window, first + np.flatnonzero(window))


def in_all(connection: Connection, pieces: Pieces, term: str) -> Occurrences:
    """Return the occurrences of a term in the whole file; what was read for a search before is not read again."""
    known = pieces.postings.get(hash_of(term))
    if known is None or known.memory_count < pieces.memory_count:
        first = 1 if known is None else known.memory_count
        rows = first + np.flatnonzero(pieces.kinds[first : pieces.memory_count] != NOWHERE)
        entries, counts = in_rows(connection, pieces, rows, term, are_all=known is None)
        if known is not None:
            entries, counts = np.concatenate([known.entries, entries]), np.concatenate([known.counts, counts])
        known = PostingList(entries, counts, pieces.memory_count)
        pieces.postings.keep(hash_of(term), known)
    end = len(known.entries) if known.memory_count == pieces.memory_count else known.entries.searchsorted(pieces.count)
    return Occurrences(known.entries[:end], known.counts[:end])


def in_rows(connection: Connection, pieces: Pieces, rows: Rows, term: str, *, are_all: bool = False) -> Occurrences:
    """Return the occurrences of a term in the memories of the rows, the entries ascending."""
    order = np.argsort(pieces.places[rows], kind="stable")
    starts = pieces.places[rows][order]
    blocks = None if are_all else blocks_of(pieces, rows).tolist()
    places, counts = occurrences(connection, *hash_of(term), blocks)
    before = np.searchsorted(starts, places, side="right") - 1
    owners, numbers = rows[order[before]], places - starts[before]
    inside = (before >= 0) & (numbers < pieces.sizes[owners])
    entries = (pieces.firsts[owners] + numbers)[inside].astype(np.int32)
    ascending = np.argsort(entries, kind="stable")
    return Occurrences(entries[ascending], counts[inside][ascending])


def blocks_of(pieces: Pieces, rows: Rows) -> Rows:
    """Return the blocks of the keyword index in which the memories of the rows are, ascending."""
    return np.flatnonzero(np.bincount(pieces.places[rows] // NUMBERS_IN_BLOCK))
