"""BM25 over the units of a scope, from the tables of the keyword index (`postings`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.damaged import DAMAGED_KEYWORDS, DamagedError
from vector_memory.storage.postings import LENGTH, key_of, occurrences, postings_in
from vector_memory.storage.queries.words import MemoryInBlock, ScopeWords
from vector_memory.storage.scoring import (
    NOTHING_TYPED,
    PLACES_PER_BLOCK,
    Match,
    Numbers,
    Ranked,
    Wording,
    best,
    divisor_of,
    highest_score,
    rounded,
    scores_for,
)
from vector_memory.storage.spelling import MOST_BLOCKS, Spelling, spellings
from vector_memory.storage.terms import named_by

MAX_ENTRIES = 1 << 26
"""More units than a memory can have; a higher number counts as damage."""

OUTSIDE = -1
"""The length of a unit that is not in the scope."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The units of a scope as array entries, block by block, with units outside the scope between them.

    `memories`: the ids of the memories, sorted by the entries of their first units, which are `starts`. `firsts`: the
    ids of those first units. `lengths`: of each entry, in terms, or OUTSIDE. `bases`: the number of entries before each
    block of `block_ids`, which ascend.
    """

    memories: Numbers
    firsts: Numbers
    starts: Numbers
    lengths: Numbers
    block_ids: Numbers
    bases: Numbers
    units: int
    mean_length: float


class ScopeRanking:
    """The WordRanking of a scope of memories.

    `shares`: of each entry of the layout.
    """

    def __init__(self, table: ScopeWords, layout: Layout, shares: NDArray[np.float64], wording: Wording) -> None:
        self.wording = wording
        self._table = table
        self._layout = layout
        self._shares = shares

    def best(self, count: int) -> Ranked:
        """Return the `count` best units that contain one of the words."""
        layout, entries = self._layout, np.flatnonzero(self._shares)
        owners = np.searchsorted(layout.starts, entries, side="right") - 1
        # The ids of a document's chunks are consecutive, because they are assigned in one transaction.
        ids = layout.firsts[owners] + entries - layout.starts[owners]
        order = best(rounded(self._shares[entries]), ids, count)
        places = np.stack([layout.memories[owners], entries - layout.starts[owners]], axis=1)[order].tolist()
        rows = zip(self._table.units_at(places), places, self._shares[entries[order]].tolist(), strict=True)
        return Ranked([Match(unit, place[0], score) for unit, place, score in rows], len(entries) <= count)

    def shares(self, matches: Sequence[Match]) -> dict[int, float]:
        """Return the scores, if above 0, of units found elsewhere, by id."""
        starts = dict(zip(self._layout.memories.tolist(), self._layout.starts.tolist(), strict=True))
        numbers = self._table.numbers_of(matches)
        return {
            match.id: score
            for match, number in zip(matches, numbers, strict=True)
            if match.memory_id in starts and (score := float(self._shares[starts[match.memory_id] + number]))
        }


def rank_units(table: ScopeWords, wanted: Sequence[str], plain: Mapping[str, str] = NOTHING_TYPED) -> ScopeRanking:
    """Score the units of a scope that contain any of the terms by BM25, with the statistics of the scope."""
    layout = layout_of(table.memories())
    scores = np.zeros(len(layout.lengths))
    read = occurrences(wanted, [layout.block_ids] * len(wanted), table.read_postings)
    found = {term: inside(layout, *postings) for term, postings in zip(wanted, read, strict=True)}
    missing = {term: plain[term] for term in wanted if term in plain and not len(found[term][0])}
    respelt: dict[str, Spelling] = {}
    if missing and 0 < len(layout.block_ids) <= MOST_BLOCKS:
        _, keys, places, counts = postings_in(layout.block_ids, table.read_postings)
        there = layout.lengths[entries_at(layout, places)] != OUTSIDE
        respelt = spellings(missing, wanted, keys[there], key_of)
        for term, spelling in respelt.items():
            same = keys == key_of(spelling.term)
            found[term] = inside(layout, places[same], counts[same])
    words: list[tuple[float, Numbers]] = []
    for entries, counts in found.values():
        most = highest_score(layout.units, len(entries))
        words.append((most, entries))
        scores[entries] += scores_for(most, counts, layout.lengths[entries] / layout.mean_length)
    asked = [respelt[term].term if term in respelt else term for term in wanted]
    wording = Wording(covered_by_best(scores, asked, words), respelt)
    scores /= divisor_of(scores, sum(most for most, _ in words))
    return ScopeRanking(table, layout, scores, wording)


def inside(layout: Layout, places: Numbers, counts: NDArray[np.uint16]) -> tuple[Numbers, NDArray[np.uint16]]:
    """Return the entries of those of the places that are in the scope, and their counts."""
    entries = entries_at(layout, places)
    there = layout.lengths[entries] != OUTSIDE
    return entries[there], counts[there]


def layout_of(rows: Sequence[MemoryInBlock]) -> Layout:
    """Return the units of a scope as entries. Raises DamagedError."""
    memories, blocks, numbers, blobs, firsts, sizes = zip(*rows, strict=True) if rows else ((), (), (), (), (), ())
    block_ids, block_of = np.unique(np.array(blocks, np.int64), return_inverse=True)
    block_sizes = np.zeros(len(block_ids), np.int64)
    block_sizes[block_of] = sizes
    units = np.array([len(blob) // LENGTH.itemsize for blob in blobs], np.int64)
    require_valid_layout(block_sizes, block_of, np.array(numbers, np.int64), units)
    bases = np.concatenate([[0], np.cumsum(block_sizes)])
    starts = bases[block_of] + np.array(numbers, np.int64)
    known = np.frombuffer(b"".join(blobs), LENGTH)
    lengths = np.full(bases[-1], OUTSIDE)
    lengths[np.repeat(starts - np.cumsum(units) + units, units) + np.arange(len(known))] = known
    return Layout(
        memories=np.array(memories, np.int64),
        firsts=np.array(firsts, np.int64),
        starts=starts,
        lengths=lengths,
        block_ids=block_ids,
        bases=bases,
        units=len(known),
        mean_length=float(known.mean()) if known.any() else 1.0,
    )


def require_valid_layout(sizes: Numbers, block_of: Numbers, firsts: Numbers, units: Numbers) -> None:
    """Raise DamagedError unless the units of all memories are inside their blocks."""
    if (
        not (sizes >= 0).all()
        or sizes.sum() > MAX_ENTRIES
        or not ((firsts >= 0) & (firsts + units <= sizes[block_of])).all()
    ):
        raise DamagedError(DAMAGED_KEYWORDS)


def entries_at(layout: Layout, places: Numbers) -> Numbers:
    """Return the entries of units at these places. Raises DamagedError if one is outside its block."""
    blocks, numbers = np.divmod(places, PLACES_PER_BLOCK)
    positions = np.searchsorted(layout.block_ids, blocks)
    entries = layout.bases[positions] + numbers
    if (entries >= layout.bases[positions + 1]).any():
        raise DamagedError(DAMAGED_KEYWORDS)
    return entries


def covered_by_best(
    scores: NDArray[np.float64], terms: Sequence[str], words: Sequence[tuple[float, NDArray[np.integer]]]
) -> float:
    """Return the share of a query's words that the unit with the highest score has.

    `words`: of each term, what no unit can score for it, and the places in `scores` of the units that have it. Terms
    that name the same count once, as the most frequent of them.
    """
    if not scores.any():
        return 0.0
    place = int(scores.argmax())
    weights: dict[str, float] = {}
    covered: set[str] = set()
    for term, (highest, places) in zip(terms, words, strict=True):
        name = named_by(term)
        weights[name] = min(highest, weights.get(name, highest))
        if (places == place).any():
            covered.add(name)
    return sum(weights[name] for name in covered) / (sum(weights.values()) or 1.0)
