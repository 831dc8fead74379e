"""Tells whether a newer text speaks of the subject of an older one, so that it may say what is true now.

The evidence is the cosine of two passages, with a share of the words that they have in common, and with more if the
newer text has words of change. The model says from which evidence on the subject is the same (`Calibration`). Many
texts on one subject are a series, such as the reports on the progress of a task: the next one corrects none of them,
unless it is much nearer to it than to the others.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.embedding.description import Calibration
from vector_memory.storage.records import NO_LINKS, Links
from vector_memory.storage.scoring import SCALE, Vectors
from vector_memory.storage.terms import query_terms

CHANGE = re.compile(
    r"\b(?:now|since|no longer|no more|any ?more|instead|after all|moved?|renamed?|replaced?|dropped|switched|changed?"
    r"|raised?|removed|left)\b",
    re.IGNORECASE,
)
"""What a text often has that says what is different now."""

BEHIND = 0.1
"""A link with so much less evidence than the best one of the same memory does not count."""

SERIES = 8
"""So many others on a subject, or nearly on it, make a series."""
NEARLY = 0.08
"""By so much less evidence another text is nearly on the subject."""

STANDS_OUT = 0.25
"""By so much more evidence than for the text at place SERIES another one is not only a part of the series."""

PASSAGES_KNOWN = 1_024
"""The terms of so many passages are kept: memories stored one after the other are compared with the same ones."""


class Subject(NamedTuple):
    """A text as it is compared. `vectors`: unit vectors, shape (passages, dimensions); `words`: terms of each passage.

    `tells_change`: whether it has words of change.
    """

    vectors: Vectors
    words: Sequence[frozenset[str]]
    tells_change: bool


def subject_of(passages: Sequence[str], vectors: Vectors) -> Subject:
    """Return a text as it is compared. `vectors`: of its passages."""
    return Subject(vectors, list(map(passage_terms, passages)), any(map(CHANGE.search, passages)))


@lru_cache(maxsize=PASSAGES_KNOWN)
def passage_terms(passage: str) -> frozenset[str]:
    """Return the terms of a passage."""
    return frozenset(query_terms(passage))


def evidence(rule: Calibration, older: Subject, newer: Subject) -> float:
    """Return how much says that two texts have the same subject.

    Of the text with fewer passages each counts, with the nearest one of the other text.
    """
    nearness = older.vectors @ newer.vectors.T + rule.shared_words * shares(older.words, newer.words)
    by_older, by_newer = nearness.max(axis=1).mean(), nearness.max(axis=0).mean()
    count = len(older.words) - len(newer.words)
    near = max(by_older, by_newer) if not count else by_older if count < 0 else by_newer
    return round(float(near) + rule.change * newer.tells_change, int(np.log10(SCALE)))


def shares(one: Sequence[frozenset[str]], other: Sequence[frozenset[str]]) -> Vectors:
    """Return the share of common terms of each pair of passages: of those of the passage that has fewer."""
    columns = {word: column for column, word in enumerate(frozenset[str]().union(*other))}

    def table(words: Sequence[frozenset[str]]) -> NDArray[np.float64]:
        filled = np.zeros((len(words), len(columns)))
        for row, each in enumerate(words):
            filled[row, [columns[word] for word in each if word in columns]] = 1
        return filled

    least = np.minimum.outer([len(each) for each in one], [len(each) for each in other])
    return np.asarray(table(one) @ table(other).T / np.maximum(1, least), np.float32)


def links(rule: Calibration, found: Mapping[int, float], distinct: Collection[int]) -> Links:
    """Return which memories a new one is linked to, given the evidence of those that are nearest to it, by id.

    `distinct`: one memory of each text: a text that was stored several times is no series.
    """
    if rule.same_subject is None or not found:
        return NO_LINKS
    ordered = sorted((found[number] for number in distinct), reverse=True)
    least, nearly = max(rule.same_subject, ordered[0] - BEHIND), rule.same_subject - NEARLY
    if len(ordered) < SERIES or ordered[SERIES - 1] < nearly:
        return Links({number: value for number, value in found.items() if value >= least})
    typical = ordered[SERIES - 1]
    return Links(
        {number: value for number, value in found.items() if value >= max(least, typical + STANDS_OUT)},
        [number for number, value in found.items() if value >= max(nearly, typical - BEHIND)],
        typical + STANDS_OUT,
    )
