"""Fusion as pure functions: from two lists of units to one."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.results.sessions import Source
from vector_memory.storage.ranking import Ranked, Wording, rounded

FUSED_DECIMALS = 9
"""A fused score of two measures of six decimals has eight: what is behind them is an error of the arithmetic."""

VECTOR_WEIGHT = 0.65
"""Share of the cosine in a fused score; the rest is the words'. docs/retrieval.md says how it was chosen."""


class Horizon(NamedTuple):
    """Where an order has been looked through to: all that has not been seen comes after this score and id."""

    score: float
    id: int

    def is_behind(self, score: float, id_: int) -> bool:
        """Tell whether something that was seen comes before all that was not."""
        return (-score, id_) <= (-self.score, self.id)


class Hit(NamedTuple):
    """A unit in the final order. `similarity`: its best passage's cosine, cut to 0-1; None if it was not compared."""

    id: int
    memory_id: int
    score: float
    similarity: float | None
    sources: tuple[Source, ...]


class Found(NamedTuple):
    """What a question finds, best first. `nearest`: the cosine of the scope's best passage; None: not compared.

    `partial`: not everything that could be as good was looked at. `wording`: None if nothing was compared by words.
    """

    hits: list[Hit]
    nearest: float | None
    partial: bool = False
    wording: Wording | None = None


def shown(score: float | None) -> float | None:
    """Return a cosine as answers show it, cut to 0-1."""
    return None if score is None else min(1.0, max(0.0, score))


def fused_score(similarity: float, words: float) -> float:
    """Return the convex combination of a cosine and a BM25 score, which is given as a share of the best possible.

    Neither depends on what else is found. A better match in either never lowers the score.
    """
    return float(fused_scores(np.array(similarity), np.array(words)))


def fused_scores(similarities: NDArray[np.float64], words: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the fused score of each pair."""
    scores = VECTOR_WEIGHT * rounded(similarities) + (1 - VECTOR_WEIGHT) * rounded(words)
    return np.round(scores, FUSED_DECIMALS)


def fuse(near: Ranked, worded: Ranked) -> tuple[list[Hit], Horizon | None]:
    """Return the units of both lists, best first, and what no unit of neither list comes before.

    That is None when there are no others. A result before it keeps its place however much longer the lists become:
    the threshold algorithm (Fagin, Lotem, Naor 2003).
    """
    similarities, words = near.scores(), worded.scores()
    in_near, in_worded = ({match.id for match in ranked.matches} for ranked in (near, worded))
    owners = {match.id: match.memory_id for match in (*near.matches, *worded.matches)}
    scores = fused_scores(
        np.array([similarities.get(unit, 0.0) for unit in owners]),
        np.array([words.get(unit, 0.0) for unit in owners]),
    )
    hits = [
        Hit(unit, owners[unit], score, shown(similarities.get(unit)), sources_of(unit, in_near, in_worded))
        for unit, score in zip(owners, scores.tolist(), strict=True)
    ]
    return in_order(hits), fused_horizon(last_of(near), last_of(worded))


def last_of(ranked: Ranked) -> Horizon | None:
    """Return what no unit outside the list comes before; None if there are no others."""
    if ranked.complete:
        return None
    return Horizon(ranked.matches[-1].score, ranked.matches[-1].id) if ranked.matches else Horizon(1.0, 0)


def fused_horizon(near: Horizon | None, worded: Horizon | None) -> Horizon | None:
    """Return what no unit comes before that both lists leave out.

    One with the same score has both scores of the horizons, so in each list its id is behind the last one. Without a
    horizon there is a score of 0, which any id can have; a unit that has no vector yet counts as one with cosine 0.
    """
    if near is None and worded is None:
        return None
    similarity = max(near.score, 0.0) if near else 0.0
    passed = [near.id] if near and near.score > 0 else []
    passed += [worded.id] if worded and worded.score > 0 else []
    return Horizon(fused_score(similarity, worded.score if worded else 0.0), max(passed, default=0))


def from_one(ranked: Ranked, source: Source) -> tuple[list[Hit], Horizon | None]:
    """Return the units of the only list, as `fuse` does for two."""
    hits = [
        Hit(match.id, match.memory_id, match.score, shown(match.score) if source == "vector" else None, (source,))
        for match in ranked.matches
    ]
    return hits, last_of(ranked)


def sources_of(unit: int, near: Collection[int], worded: Collection[int]) -> tuple[Source, ...]:
    """Say which lists hold a unit."""
    found: list[Source] = []
    if unit in near:
        found.append("vector")
    if unit in worded:
        found.append("keyword")
    return tuple(found)


def in_order(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits in the one order every search uses: by score, then by id."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def best_of_each_memory(hits: Iterable[Hit]) -> list[Hit]:
    """Return whole memories, each at its best unit: hits whose `id` is the memory's, with its best similarity."""
    best: dict[int, Hit] = {}
    for hit in hits:
        known = best.setdefault(hit.memory_id, hit._replace(id=hit.memory_id))
        similarity = max((value for value in (known.similarity, hit.similarity) if value is not None), default=None)
        best[hit.memory_id] = known._replace(similarity=similarity)
    return in_order(best.values())
