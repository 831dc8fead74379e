"""BM25 over the units of a scope, with the statistics of the scope."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.postings import Occurrences, PostingRows, all_occurrences, key_of, occurrences
from vector_memory.storage.scoring import Numbers, divisor_of, highest_score, scores_for
from vector_memory.storage.spelling import Occurring, Spelling, spellings
from vector_memory.storage.terms import named_by
from vector_memory.storage.units import Units


@dataclass(frozen=True, slots=True)
class WordScores:
    """The shares of a query's words that units have (see `divisor_of`).

    `shares`: of each entry, 0 outside the scope. `entries`: those that contain one of the terms, ascending. `covered`:
    the share of the words, weighed by their rarity, in the unit that matches them best. `missing`: the terms that no
    unit has.
    """

    shares: NDArray[np.float64]
    entries: Numbers
    covered: float
    missing: Sequence[str]


def word_scores(units: Units, rows: PostingRows, terms: Sequence[str]) -> WordScores:
    """Score the units of a scope. `rows`: the postings of the terms. Raises DamagedError."""
    each_of = occurrences(terms, rows, len(units.block_ids))
    found = {term: inside(units, each) for term, each in zip(terms, each_of, strict=True)}
    count = units.count
    mean_length = int((units.lengths * units.inside).sum()) / (count or 1)
    scores, words = np.zeros(len(units.ids)), list[tuple[float, Numbers]]()
    for entries, counts in found.values():
        most = highest_score(count, len(entries))
        words.append((most, entries))
        scores[entries] += scores_for(most, counts, units.lengths[entries] / (mean_length or 1.0))
    covered = covered_by_best(scores, list(found), words)
    scored = np.flatnonzero(scores != 0)
    scores[scored] /= divisor_of(scores[scored], sum(most for most, _ in words))
    return WordScores(scores, scored, covered, [term for term, (entries, _) in found.items() if not len(entries)])


def inside(units: Units, found: Occurrences) -> tuple[Numbers, NDArray[np.uint16]]:
    """Return the entries in the scope where a term is, ascending, and its counts there."""
    entries = units.entries_at(found)
    there = units.inside[entries]
    return entries[there], found.counts[there]


def respell(
    units: Units,
    rows: PostingRows,
    missing: Mapping[str, str],
    others: Sequence[str],
    texts_of: Callable[[list[int]], Iterable[str]],
) -> dict[str, Spelling]:
    """Return what words that a scope does not have may be read as (see `spellings`). `rows`: all its postings."""
    keys, everywhere = all_occurrences(rows, len(units.block_ids))
    entries = units.entries_at(everywhere)
    there = units.inside[entries]
    return spellings(missing, others, Occurring(keys[there], units.ids[entries[there]]), key_of, texts_of)


def covered_by_best(
    scores: NDArray[np.float64], terms: Sequence[str], words: Sequence[tuple[float, NDArray[np.integer]]]
) -> float:
    """Return the share of a query's words that the unit with the highest score has.

    `words`: of each term, what no unit can score for it, and the places in `scores` of the units that have it. Terms
    that name the same count once, as the most frequent of them.
    """
    place = int(scores.argmax()) if len(scores) else 0
    if not len(scores) or not scores[place]:
        return 0.0
    weights: dict[str, float] = {}
    covered: set[str] = set()
    for term, (highest, places) in zip(terms, words, strict=True):
        name = named_by(term)
        weights[name] = min(highest, weights.get(name, highest))
        if (places == place).any():
            covered.add(name)
    # Exactly rounded, because a set has another order in each process, and levels depend on the last digit.
    return fsum(weights[name] for name in covered) / (fsum(weights.values()) or 1.0)
