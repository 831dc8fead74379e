"""How good rankings are, and how sure a difference between two is."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

DEPTH = 10
RECALL_DEPTH = 5
RESAMPLES = 10_000

Scores = NDArray[np.float64]
"""One value for each question."""


def score(ranking: Sequence[str], grades: Mapping[str, float]) -> tuple[float, float, float]:
    """Return nDCG@10 (gain: the grade, discount: log2 of the rank + 1), recall@5 and MRR@10 of one ranking."""
    found = [grades.get(document, 0.0) for document in ranking[:DEPTH]]
    best = sorted(grades.values(), reverse=True)[:DEPTH]
    recalled = sum(grade > 0 for grade in found[:RECALL_DEPTH]) / len(grades)
    first = next((1 / rank for rank, grade in enumerate(found, 1) if grade > 0), 0.0)
    return _gain(found) / _gain(best), recalled, first


def _gain(grades: Sequence[float]) -> float:
    return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def interval(differences: Sequence[Scores], seed: int) -> tuple[float, float, float]:
    """Return the mean over sets of paired differences, and its 95 % interval.

    Percentile bootstrap: the questions of each set are resampled with replacement, 10,000 times (Efron 1979).
    """
    random = np.random.default_rng(seed)
    means = np.zeros(RESAMPLES)
    for values in differences:
        drawn = random.integers(len(values), size=(RESAMPLES, len(values)))
        means += values[drawn].mean(axis=1) / len(differences)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(np.mean([values.mean() for values in differences])), float(low), float(high)
