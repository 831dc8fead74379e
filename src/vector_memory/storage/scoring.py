"""The interface between searches and storage engines, and the measures that both use.

A unit is what a search compares: a chunk, or a whole memory of a kind that is not chunked.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]

SCALE = 1e6
"""Cosines and words' shares are rounded to six decimals before comparison; float32 cosines are not more precise."""

LARGEST = 1.02
"""Above any product of two unit vectors, whose lengths differ from 1 by less than a hundredth."""

K1 = 0.75
"""BM25: the weight of further occurrences of a term in a unit."""
B = 0.75
"""BM25: the weight of a unit's length, which is its number of terms."""
VECTOR_WEIGHT = 0.68
"""Weight of the cosine in a fused score; keywords have the rest. docs/lab/retrieval.md explains all four."""
VECTOR_WEIGHT_OF_NAMES = 0.45
"""The same if the query is only the name of a function, a class or a file, of which the model knows little."""


LATE_WEIGHT = 0.3
"""Weight of the late score (`embedding.token_states`) in the score of a unit; the fused score has the rest."""
LATE_UNITS = 20
"""How many of the best units of a scope are compared token by token."""


NOTHING_TYPED: Mapping[str, str] = MappingProxyType({})


def numbers_in(text: str | None) -> Numbers:
    """Return the numbers of a text that lists them, as JSON or between commas. Raises ValueError."""
    return np.fromstring((text or "").strip("[]"), np.int64, sep=",")  # parsing JSON would take four times as long


def are_in(ascending: Numbers, numbers: Numbers) -> NDArray[np.bool_]:
    """Return for each number whether it is among the ascending ones, which may be many more."""
    if not len(ascending):
        return np.zeros(len(numbers), np.bool_)
    found: NDArray[np.bool_] = ascending.take(ascending.searchsorted(numbers), mode="clip") == numbers
    return found


def rounded(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the values with six decimals."""
    result: NDArray[np.float64] = np.rint(np.asarray(values, np.float64) * SCALE) / SCALE
    return result


def best(scores: NDArray[np.floating], ids: Numbers, count: int) -> Numbers:
    """Return the positions of the `count` highest scores, highest first; ties are sorted by id.

    At most `count` scores are sorted, however many are equal.
    """
    places = np.arange(len(scores))
    if len(places) > count:
        enough = np.partition(scores, -count)[-count]
        above, equal = np.flatnonzero(scores > enough), np.flatnonzero(scores == enough)
        room = count - len(above)
        places = np.concatenate([above, equal[np.argpartition(ids[equal], room - 1)[:room]]])
    order: Numbers = places[np.lexsort((ids[places], -scores[places]))]
    return order


def cosines(vectors: Vectors, query: Vectors) -> NDArray[np.float64]:
    """Return the rounded cosines of unit vectors, shape (vectors, dimensions), with the query's unit vector.

    One product for each vector, so that it has the same cosine whatever it is compared together with. Not `@`: OpenBLAS
    splits it among threads, which wait for each other when the cores are busy. A damaged vector, too long or not
    finite, gets -1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.vecdot(vectors, query) if len(vectors) else np.empty(0)
    return rounded(np.where(np.abs(near) < LARGEST, near, -1.0))


def highest_score(units: int, having: int) -> float:
    """Return an upper bound, never reached, of a unit's score for a term that `having` of the units contain.

    Robertson and Zaragoza 2009, with an idf that is never negative, as in Lucene: `log(1 + (N - n + 0.5) / (n + 0.5))`.
    """
    return math.log1p((units - having + 0.5) / (having + 0.5)) * (K1 + 1)


def scores_for(highest: float, counts: NDArray[np.integer], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores of units for a term, from its counts in them and their lengths relative to the mean length."""
    scores: NDArray[np.float64] = highest * counts / (counts + K1 * (1 - B + B * lengths))
    return scores


def divisor_of(scores: NDArray[np.float64], possible: float) -> float:
    """Return the geometric mean of the highest `possible` BM25 score and the highest of all units of a scope.

    Scores divided by it are shares of the words, 0 to 1; if all scores are 0, it is 1.
    """
    return math.sqrt(possible * scores.max(initial=0.0)) or 1.0
