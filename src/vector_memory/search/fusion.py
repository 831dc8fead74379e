"""Scores of units, by their meaning and their words, and the order of hits."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import MatchLevel, best_of
from vector_memory.embedding.token_states import Compared
from vector_memory.results.sessions import Source
from vector_memory.storage.records import Link
from vector_memory.storage.scoring import LATE_WEIGHT, VECTOR_WEIGHT, rounded

FUSED_DECIMALS = 9
"""The fused score of two six-decimal scores has eight decimals; the rest is arithmetic error."""

FIRST_BY_WORDS = 20
"""How many of the best units by words show how far the vectors of a scope have come (see `pending_weight`)."""


class Hit(NamedTuple):
    """A unit in the final order. `similarity`: its best passage's cosine, clipped to 0-1; None: not compared.

    `words`: its share of the words (see `divisor_of`); None: not compared. `late`: its late score (see `late_hits`), if
    that is a part of the score. `match`: how well it matches; None: not judged. `covered`: the share of the question's
    words that it has, weighted by their rarity, if it was found among several scopes; what a share of the words says
    differs between them. `under`: hits of other memories that it repeats.
    """

    id: int
    memory_id: int
    score: float
    similarity: float | None
    sources: tuple[Source, ...]
    words: float | None = None
    late: float | None = None
    match: MatchLevel | None = None
    covered: float = 0.0
    under: tuple["Hit", ...] = ()

    @property
    def copies(self) -> list[int]:
        """The memories that it repeats."""
        return sorted({hit.memory_id for hit in self.under})

    def over(self, copies: Iterable["Hit"]) -> "Hit":
        """Return the hit in place of hits that it repeats, as good as the best of them."""
        every = [self, *copies]
        score, match = max(hit.score for hit in every), best_of([hit.match for hit in every])
        return self._replace(score=score, match=match, under=tuple(every[1:]))

    def leading(self) -> "Hit":
        """Return the hit as it stands before an older one on its subject: it is not weak."""
        return self._replace(match="related") if self.match == "weak" else self

    def cosine(self, weight: float) -> float | None:
        """Return the cosine that is part of the fused score with this weight, from -1 to 1; None: not compared."""
        fused = self.score if self.late is None else (self.score - LATE_WEIGHT * self.late) / (1 - LATE_WEIGHT)
        if self.similarity is None or self.words is None:
            return None if self.similarity is None else fused
        return (fused - (1 - weight) * self.words) / weight


class SearchHits(NamedTuple):
    """The results of a search, best first. `nearest`: the cosine of the scope's best passage; None: not compared.

    `partial`: not every unit could be compared, so other units may be as good. `covered`: as in `WordScores`; None: no
    words compared. `weight`: of the cosines in the fused scores. `compared`: the hits that were compared token by
    token, by id. `links`: of their memories, with each other.
    """

    hits: list[Hit]
    nearest: float | None
    partial: bool = False
    covered: float | None = None
    weight: float = VECTOR_WEIGHT
    compared: Mapping[int, Compared] = MappingProxyType({})
    links: Sequence[Link] = ()

    @property
    def coverage(self) -> float:
        """How much of the question's words, weighted by their rarity, a hit has for each share of the words."""
        most = max((hit.words or 0.0 for hit in self.hits), default=0.0)
        return self.covered / most if self.covered and most else 0.0


def late_hits(hits: Iterable[Hit], late: Mapping[int, float], lowest: float) -> list[Hit]:
    """Return hits with late scores as a part of theirs, best first.

    `late`: by unit. A unit that is not in it counts as having the `lowest` of them: if the units in it were the best,
    it still comes after them, and the scores of both can be compared.
    """
    scores = ((hit, late.get(hit.id, lowest)) for hit in hits)
    return sort_hits(
        hit._replace(late=score, score=round((1 - LATE_WEIGHT) * hit.score + LATE_WEIGHT * score, FUSED_DECIMALS))
        for hit, score in scores
    )


def clipped(score: float | None) -> float | None:
    """Return a cosine clipped to 0-1, as results show it."""
    return None if score is None else min(1.0, max(0.0, score))


def pending_weight(weight: float, embedded: int, count: int) -> float:
    """Return the weight of cosines if only `embedded` of the `count` best units by words have vectors.

    Between units with and without vectors only words compare fairly: the fewer have vectors, the less cosines count. So
    a search ranks no worse than by words alone. docs/lab/retrieval.md has the measurements.
    """
    return weight * ((embedded + 1) / (count + 1)) ** 2


def fused_scores(
    similarities: NDArray[np.float64], words: NDArray[np.float64], weight: float = VECTOR_WEIGHT
) -> NDArray[np.float64]:
    """Return the convex combinations of cosines and shares of the words (see `divisor_of`); shape as given.

    `weight`: of the cosines. A better match in either never lowers the score of a unit. A unit without a vector, whose
    similarity is NaN, has its share of the words as its score.
    """
    shares = rounded(words)
    scores = weight * np.where(np.isnan(similarities), shares, rounded(similarities)) + (1 - weight) * shares
    return np.round(scores, FUSED_DECIMALS)


def sources_of(unit: int, near: Collection[int], keyword: Collection[int]) -> tuple[Source, ...]:
    """Return the lists that contain a unit."""
    found: list[Source] = []
    if unit in near:
        found.append("vector")
    if unit in keyword:
        found.append("keyword")
    return tuple(found)


def sort_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits in the order of every search: by score, highest first, then by id."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def merged_hits(found: Sequence[SearchHits]) -> SearchHits:
    """Return the hits of several searches whose scores can be compared, and of which no two found the same."""
    return SearchHits(
        sort_hits(hit._replace(covered=part.coverage * (hit.words or 0.0)) for part in found for hit in part.hits),
        max((part.nearest for part in found if part.nearest is not None), default=None),
        any(part.partial for part in found),
        compared={unit: one for part in found for unit, one in part.compared.items()},
        links=[link for part in found for link in part.links],
    )


def best_of_each_memory(hits: Iterable[Hit]) -> list[Hit]:
    """Return one hit for each memory, with the score of its best unit and its best similarity; `id` is the memory's."""
    best: dict[int, Hit] = {}
    for hit in hits:
        known = best.setdefault(hit.memory_id, hit._replace(id=hit.memory_id))
        similarity = max((value for value in (known.similarity, hit.similarity) if value is not None), default=None)
        best[hit.memory_id] = known._replace(similarity=similarity)
    return sort_hits(best.values())
