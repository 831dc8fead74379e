"""BM25 over units in memory: the scores of `CandidateSource.rank_words`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.search.index.lists import NO_POSTINGS, PostingList
from vector_memory.search.index.units import ABSENT, Bools, Rows, Units
from vector_memory.storage.postings import key_of, occurrences, postings_in
from vector_memory.storage.queries.feed import IndexFeed, Occurring
from vector_memory.storage.scoring import (
    NOTHING_TYPED,
    PLACES_PER_BLOCK,
    Wording,
    divisor_of,
    highest_score,
    scores_for,
)
from vector_memory.storage.spelling import MOST_BLOCKS, Spelling, spellings
from vector_memory.storage.word_ranking import covered_by_best

WIDE_SCOPE = 8
"""If a scope has units in more than one in this many blocks, the postings of the whole file are read and cached."""

Scores = NDArray[np.float64]


class Occurrences(NamedTuple):
    """The entries of the units that contain a term, ascending, and its count in each."""

    entries: NDArray[np.int32]
    counts: NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class WordScores:
    """The shares of a query's words that the units of a scope have (see `divisor_of`).

    `window`: the shares of entries `first` and up, a range that includes all entries of the scope. `entries`: the
    entries of the scope that contain one of the terms, ascending.
    """

    first: int
    window: Scores
    entries: Rows
    wording: Wording

    def of(self, entries: NDArray[np.integer]) -> Scores:
        """Return the shares of entries of the scope. For other entries the result is undefined."""
        return self.window.take(entries - self.first, mode="clip")


def word_scores(
    feed: IndexFeed, units: Units, members: Bools, terms: Sequence[str], plain: Mapping[str, str] = NOTHING_TYPED
) -> WordScores:
    """Score the units of a scope with its own statistics. `members`: for each memory row, whether it is in the scope.

    The feed must have the revision of these units.
    """
    rows = np.flatnonzero(members)
    if not len(rows):
        return WordScores(0, np.zeros(1), rows, Wording(0.0))
    first, end = int(units.firsts[rows].min()), int((units.firsts[rows] + units.sizes[rows]).max())
    count, total = int(units.sizes[rows].sum()), int(units.totals[rows].sum())
    mean_length = total / count if total else 1.0
    wide = is_wide(units, rows)
    found = occurrences_in_file(feed, units, terms) if wide else occurrences_in_rows(feed, units, rows, terms)
    inside, missing = [], dict[str, str]()
    for term, each in zip(terms, found, strict=True):
        is_inside = members.take(units.owners.take(each.entries))
        inside.append(Occurrences(each.entries[is_inside], each.counts[is_inside]))
        if term in plain and not is_inside.any():
            missing[term] = plain[term]
    asked, respelt = terms, dict[str, Spelling]()
    if missing and len(blocks := blocks_of(units, rows)) <= MOST_BLOCKS:
        respelt, there = respell(feed, units, rows, blocks, missing, terms)
        asked = [respelt[term].term if term in respelt else term for term in terms]
        inside = [there.get(term, own) for term, own in zip(terms, inside, strict=True)]
    window, words = np.zeros(end - first), []
    for entries, counts in inside:
        most = highest_score(count, len(entries))
        words.append((most, entries - first))
        window[entries - first] += scores_for(most, counts, units.lengths[entries] / mean_length)
    wording = Wording(covered_by_best(window, asked, words), respelt)
    window /= divisor_of(window, sum(most for most, _ in words))
    return WordScores(first, window, first + np.flatnonzero(window > 0), wording)


def respell(
    feed: IndexFeed, units: Units, rows: Rows, blocks: Rows, missing: Mapping[str, str], terms: Sequence[str]
) -> tuple[dict[str, Spelling], dict[str, Occurrences]]:
    """Return what words without occurrences in the memories of the rows were read as, and where that is, by terms."""
    _, keys, places, counts = postings_in(blocks, feed.read_postings)
    entries, inside = entries_at(units, rows[np.argsort(units.places[rows], kind="stable")], places)
    keys, entries, counts = keys[inside], entries[inside], counts[inside]
    respelt, there = spellings(missing, terms, keys, key_of), {}
    for term, spelling in respelt.items():
        same = keys == key_of(spelling.term)
        there[term] = Occurrences(entries[same], counts[same])
    return respelt, there


def wanted_of(units: Units, members: Bools, terms: Sequence[str]) -> Occurring:
    """Return what `word_scores` asks the feed for."""
    rows, starts = np.flatnonzero(members), [0] * len(terms)
    if not len(rows):
        return [], []
    if is_wide(units, rows):
        terms, starts = behind_of(units, known_lists(units, terms))
        rows = np.flatnonzero(units.kinds[: units.memory_count] != ABSENT)
    return terms, blocks_with(units, rows, terms, starts)


def behind_of(units: Units, known: Mapping[str, PostingList]) -> tuple[list[str], list[int]]:
    """Return the terms whose lists do not cover all memories, and the first memory that each lacks."""
    behind = [term for term, own in known.items() if own.memory_count < units.memory_count]
    return behind, [known[term].memory_count for term in behind]


def is_wide(units: Units, rows: Rows) -> bool:
    """Return whether the postings of the whole file are read for a scope of these memories."""
    last = units.places[: units.memory_count].max() // PLACES_PER_BLOCK
    return bool(len(blocks_of(units, rows)) * WIDE_SCOPE > last)


def occurrences_in_file(feed: IndexFeed, units: Units, terms: Sequence[str]) -> list[Occurrences]:
    """Return the occurrences of each term in the whole file. Cached postings are not read again."""
    known = known_lists(units, terms)
    behind, starts = behind_of(units, known)
    rows = np.flatnonzero(units.kinds[: units.memory_count] != ABSENT)
    for term, new in zip(behind, occurrences_in_rows(feed, units, rows, behind, starts), strict=True):
        known[term] = known[term].extended(new.entries, new.counts, units.memory_count)
        units.postings.keep(key_of(term), known[term])
    return [within(own, units.count) for own in known.values()]


def known_lists(units: Units, terms: Sequence[str]) -> dict[str, PostingList]:
    """Return the lists of terms in the whole file, as far as they are cached."""
    return {term: units.postings.get(key_of(term)) or NO_POSTINGS for term in terms}


def within(postings: PostingList, count: int) -> Occurrences:
    """Return the occurrences in the first `count` entries."""
    entries = postings.entries()
    end = int(entries.searchsorted(count))
    return Occurrences(entries[:end], postings.counts.values()[:end].astype(np.uint16))


def occurrences_in_rows(
    feed: IndexFeed, units: Units, rows: Rows, terms: Sequence[str], starts: Sequence[int] | None = None
) -> list[Occurrences]:
    """Return the occurrences of each term in the memories of the rows. One sweep reads the postings of all terms.

    `starts`: for each term the first row to return.
    """
    if not terms:
        return []
    starts = starts or [0] * len(terms)
    blocks = blocks_with(units, rows, terms, starts)
    order = np.argsort(units.places[rows], kind="stable")
    rows = rows[order]
    return [
        in_memories(units, rows, places, counts, start)
        for (places, counts), start in zip(occurrences(terms, blocks, feed.read_postings), starts, strict=True)
    ]


def blocks_with(units: Units, rows: Rows, terms: Sequence[str], starts: Sequence[int]) -> list[Rows]:
    """Return for each term the blocks that may contain it, of the memories of the rows from its start on."""
    wanted = {start: blocks_of(units, rows[rows.searchsorted(start) :]) for start in set(starts)}
    return [with_term(units, wanted[start], term) for term, start in zip(terms, starts, strict=True)]


def in_memories(
    units: Units, rows: Rows, places: NDArray[np.int64], counts: NDArray[np.uint16], start: int
) -> Occurrences:
    """Return as entries those of the places that are in the memories of the rows, sorted by place, from `start` on."""
    entries, inside = entries_at(units, rows, places)
    inside &= units.owners[entries] >= start
    entries = entries[inside]
    ascending = np.argsort(entries, kind="stable")
    return Occurrences(entries[ascending], counts[inside][ascending])


def entries_at(units: Units, rows: Rows, places: NDArray[np.int64]) -> tuple[NDArray[np.int32], Bools]:
    """Return the entries of places, and whether each is in one of the memories of the rows, sorted by place.

    The entry of a place in none of them is 0.
    """
    starts = units.places[rows]
    before = np.searchsorted(starts, places, side="right") - 1
    owners, numbers = rows[before], places - starts[before]
    inside = (before >= 0) & (numbers < units.sizes[owners])
    return np.where(inside, units.firsts[owners] + numbers, 0).astype(np.int32), inside


def with_term(units: Units, blocks: Rows, term: str) -> Rows:
    """Return those of the blocks that may contain a term."""
    if not len(blocks):
        return blocks
    sketch = units.sketch
    end = int(blocks[-1]) + 1
    possible = sketch.blocks_with(key_of(term), end)
    later = units.places[sketch.memory_count : units.memory_count] // PLACES_PER_BLOCK
    possible[later[later < end]] = True
    return blocks[possible[blocks]]


def blocks_of(units: Units, rows: Rows) -> Rows:
    """Return the blocks that contain the memories of the rows, ascending."""
    return np.flatnonzero(np.bincount(units.places[rows] // PLACES_PER_BLOCK))
