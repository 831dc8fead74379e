"""Joins what two lists say of chunks into one order, as a pure function."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from vector_memory.domain import SearchMode


class Weights(NamedTuple):
    """How much a cosine counts in a score, and how much a share of the best possible BM25."""

    meaning: float
    words: float


WEIGHTS = {
    SearchMode.HYBRID: Weights(0.7, 0.3),
    SearchMode.VECTOR: Weights(1.0, 0.0),
    SearchMode.KEYWORD: Weights(0.0, 1.0),
}
"""Seed 002's weights, and those of a search by one measure only."""

DECIMALS = 6
"""Of a score: what is nearer only by an error of float32 arithmetic is as good."""


class Ranked(NamedTuple):
    """A chunk and its score, 0 to 1."""

    chunk_id: int
    score: float


def rank(
    near: Sequence[tuple[int, float]],
    words: Mapping[int, float],
    weights: Weights,
    limit: int,
    cosines: Callable[[Sequence[int]], Mapping[int, float]],
) -> list[Ranked]:
    """Return the `limit` best chunks; those that a scan of all chunks would give, however short the list `near` is.

    `near`: the nearest passages as chunks and cosines, nearest first. `words`: the BM25 share of every chunk that has
    one. `cosines`: gives the cosines of other chunks. A chunk in neither list cannot come before those of `near`; one
    that has words but is not near is looked up if it could be among the best.
    """
    similarities: dict[int, float] = {}
    for chunk, cosine in near:
        similarities.setdefault(chunk, cosine)
    known = best(similarities, words, weights, limit)
    least = known[-1].score if len(known) == limit else 0.0
    furthest = near[-1][1] if near else 0.0
    doubtful = [
        chunk
        for chunk, share in words.items()
        if chunk not in similarities and round(score(furthest, share, weights), DECIMALS) >= least
    ]
    return best({**similarities, **cosines(doubtful)}, words, weights, limit) if doubtful and near else known


def best(similarities: Mapping[int, float], words: Mapping[int, float], weights: Weights, limit: int) -> list[Ranked]:
    """Return the best of the chunks that have a score, then the older first; a chunk without vectors has cosine 0."""
    found = [
        Ranked(chunk, round(exact, DECIMALS))
        for chunk in similarities.keys() | words.keys()
        if (exact := score(similarities.get(chunk, 0.0), words.get(chunk, 0.0), weights)) > 0
    ]
    return sorted(found, key=lambda hit: (-hit.score, hit.chunk_id))[:limit]


def score(cosine: float, share: float, weights: Weights) -> float:
    """Return the weighted mean of both measures, 0 to 1; a better match in either never lowers it."""
    return weights.meaning * min(1.0, max(0.0, cosine)) + weights.words * share
