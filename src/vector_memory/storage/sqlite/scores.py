"""How scores are compared everywhere: rounded, so that what is as good as equal is equal, and then by id."""

import numpy as np
from numpy.typing import NDArray

SCALE = 1e6
"""Cosines and shares of BM25 are compared with six decimals; float32 arithmetic says no more about a cosine."""


def rounded(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the values with six decimals."""
    result: NDArray[np.float64] = np.rint(np.asarray(values, np.float64) * SCALE) / SCALE
    return result


def best(scores: NDArray[np.floating], ids: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the places of the `count` highest scores in order: the highest first, of equal ones the lowest id.

    However many are equal, no more than `count` are sorted.
    """
    places = np.arange(len(scores))
    if len(places) > count:
        enough = np.partition(scores, -count)[-count]
        above, equal = np.flatnonzero(scores > enough), np.flatnonzero(scores == enough)
        room = count - len(above)
        places = np.concatenate([above, equal[np.argpartition(ids[equal], room - 1)[:room]]])
    order: NDArray[np.int64] = places[np.lexsort((ids[places], -scores[places]))]
    return order
