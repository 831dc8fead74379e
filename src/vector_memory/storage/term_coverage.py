"""How much of a query's wording a unit has."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.terms import named_by


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
