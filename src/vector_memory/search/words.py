"""BM25 over the units of a scope, with the statistics of the scope."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.postings import Occurrences, PostingRows, all_occurrences, key_of, occurrences
from vector_memory.storage.scoring import NOTHING_TYPED, Numbers, Wording, divisor_of, highest_score, scores_for
from vector_memory.storage.spelling import MOST_BLOCKS, Spelling, spellings
from vector_memory.storage.terms import named_by
from vector_memory.storage.units import Units


@dataclass(frozen=True, slots=True)
class WordScores:
    """The shares of a query's words that units have (see `divisor_of`).

    `shares`: of each entry, 0 outside the scope. `entries`: those that contain one of the terms, ascending.
    """

    shares: NDArray[np.float64]
    entries: Numbers
    wording: Wording


def word_scores(
    units: Units,
    rows: PostingRows,
    terms: Sequence[str],
    plain: Mapping[str, str] = NOTHING_TYPED,
    read_all: Callable[[], PostingRows] | None = None,
) -> WordScores:
    """Score the units of a scope. `rows`: the postings of the terms. Raises DamagedError.

    `plain`: words by their terms, misspelt perhaps if the scope has none of them; `read_all` then reads all postings.
    """
    each_of = occurrences(terms, rows, len(units.block_ids))
    found = {term: inside(units, each) for term, each in zip(terms, each_of, strict=True)}
    missing = {term: plain[term] for term in terms if term in plain and not len(found[term][0])}
    respelt: dict[str, Spelling] = {}
    if missing and read_all is not None and 0 < len(units.block_ids) <= MOST_BLOCKS:
        respelt = respell(units, read_all(), missing, found)
    count = units.count
    mean_length = int((units.lengths * units.inside).sum()) / (count or 1)
    scores, words = np.zeros(len(units.ids)), list[tuple[float, Numbers]]()
    for entries, counts in found.values():
        most = highest_score(count, len(entries))
        words.append((most, entries))
        scores[entries] += scores_for(most, counts, units.lengths[entries] / (mean_length or 1.0))
    asked = [respelt[term].term if term in respelt else term for term in found]
    wording = Wording(covered_by_best(scores, asked, words), respelt)
    scored = np.flatnonzero(scores != 0)
    scores[scored] /= divisor_of(scores[scored], sum(most for most, _ in words))
    return WordScores(scores, scored, wording)


def inside(units: Units, found: Occurrences) -> tuple[Numbers, NDArray[np.uint16]]:
    """Return the entries in the scope where a term is, ascending, and its counts there."""
    entries = units.entries_at(found)
    there = units.inside[entries]
    return entries[there], found.counts[there]


def respell(
    units: Units,
    rows: PostingRows,
    missing: Mapping[str, str],
    found: dict[str, tuple[Numbers, NDArray[np.uint16]]],
) -> dict[str, Spelling]:
    """Return what words that the scope does not have were read as, by their terms, and put in `found` where that is."""
    keys, everywhere = all_occurrences(rows, len(units.block_ids))
    there = units.inside[units.entries_at(everywhere)]
    respelt = spellings(missing, list(found), keys[there], key_of)
    for term, spelling in respelt.items():
        same = keys == key_of(spelling.term)
        found[term] = inside(units, Occurrences(*(column[same] for column in everywhere)))
    return respelt


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
    return sum(weights[name] for name in covered) / (sum(weights.values()) or 1.0)
