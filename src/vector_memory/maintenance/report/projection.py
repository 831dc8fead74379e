"""Projects memories onto a plane by meaning, and finds nearest neighbours. Pure functions over arrays."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROWS_AT_ONCE = 1_000
"""Number of rows compared with all others at a time."""

SAMPLE = 10_000
"""Number of rows that decide on the plane, spread over all: more of them hardly turn it."""

SAME = 1e-6
"""Smaller differences between directions, per row, are rounding errors."""


class Projection(NamedTuple):
    """Points on a plane, shape (rows, 2), from -1 to 1. `share`: the share of the variance on the plane, 0 to 1."""

    points: NDArray[np.float64]
    share: float


class NearRow(NamedTuple):
    """A neighbouring row and its cosine."""

    row: int
    cosine: float


def project(vectors: NDArray[np.float32]) -> Projection:
    """Project the directions of vectors, shape (rows, dimensions >= 2), onto the plane where they differ most.

    The axes are the first two principal components (Hotelling 1933), on the same scale. The sign of an axis is
    arbitrary; it is chosen so that the largest entry is positive, so equal vectors always give equal points.
    """
    centred = directions(vectors)
    centred -= centred.sum(axis=0) / max(1, len(centred))
    sample = centred[:: -(-len(centred) // SAMPLE) or 1]
    variances, axes = np.linalg.eigh(sample.T @ sample)  # ascending
    if variances.sum() <= SAME**2 * len(vectors):
        return Projection(np.zeros((len(vectors), 2)), 1.0)
    points = centred @ upright(axes.T[:-3:-1]).T
    return Projection(points / np.abs(points).max(), float(variances[-2:].sum() / variances.sum()))


def upright(axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Flip axes, the rows, so that the entry with the largest absolute value is positive."""
    largest = axes[range(len(axes)), np.abs(axes).argmax(axis=1)]
    return axes * np.where(largest < 0, -1.0, 1.0)[:, np.newaxis]


def nearest_neighbours(vectors: NDArray[np.float32], count: int) -> list[list[NearRow]]:
    """Return the `count` nearest other rows for each row, nearest first; ties go to the first row."""
    units = directions(vectors)
    found: list[list[NearRow]] = [[] for _ in units]
    for start in range(0, len(units), ROWS_AT_ONCE):
        cosines = units[start : start + ROWS_AT_ONCE] @ units.T
        here = range(len(cosines))
        cosines[here, range(start, start + len(cosines))] = -np.inf
        for _ in range(min(count, len(units) - 1)):
            best = cosines.argmax(axis=1)
            for row, other in enumerate(best.tolist()):
                found[start + row].append(NearRow(other, float(cosines[row, other])))
            cosines[here, best] = -np.inf
    return found


def directions(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return vectors of length 1 with the same directions. The mean of several unit vectors is shorter than 1."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    exact /= np.where(lengths > 0, lengths, 1)
    return exact
