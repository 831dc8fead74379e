"""Pure functions that fuse two lists of units into one."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import MatchLevel
from vector_memory.embedding.token_states import Compared
from vector_memory.results.sessions import Source
from vector_memory.storage.records import Origin
from vector_memory.storage.scoring import LATE_WEIGHT, VECTOR_WEIGHT, Ranked, Wording, rounded

FUSED_DECIMALS = 9
"""The fused score of two six-decimal scores has eight decimals; the rest is arithmetic error."""

FIRST_BY_WORDS = 20
"""How many of the best units by words show how far the vectors of a scope have come (see `pending_weight`)."""


class Horizon(NamedTuple):
    """How far a ranking is known: every unseen unit comes after this score and id."""

    score: float
    id: int

    def is_behind(self, score: float, id_: int) -> bool:
        """Return whether a unit that was seen comes before all unseen units."""
        return (-score, id_) <= (-self.score, self.id)


class Hit(NamedTuple):
    """A unit in the final order. `similarity`: its best passage's cosine, clipped to 0-1; None: not compared.

    `words`: its share of the words (see `divisor_of`); None: not compared. `late`: its late score (see `late_hits`), if
    that is a part of the score. `match`: how well it matches; None: not judged. `later`: the memories that it may
    correct. `covered`: the share of the question's words that it has, weighted by their rarity, if it was found among
    several scopes; what a share of the words says differs between them.
    """

    id: int
    memory_id: int
    score: float
    similarity: float | None
    sources: tuple[Source, ...]
    words: float | None = None
    late: float | None = None
    match: MatchLevel | None = None
    later: tuple[int, ...] = ()
    covered: float = 0.0

    def cosine(self, weight: float) -> float | None:
        """Return the cosine that is part of the fused score with this weight, from -1 to 1; None: not compared."""
        fused = self.score if self.late is None else (self.score - LATE_WEIGHT * self.late) / (1 - LATE_WEIGHT)
        if self.similarity is None or self.words is None:
            return None if self.similarity is None else fused
        return (fused - (1 - weight) * self.words) / weight


class SearchHits(NamedTuple):
    """The results of a search, best first. `nearest`: the cosine of the scope's best passage; None: not compared.

    `partial`: not every unit could be compared, so other units may be as good. `wording`: None: no keywords compared.
    `weight`: of the cosines in the fused scores. `compared`: the hits that were compared token by token, by id.
    `origins`: of their memories.
    """

    hits: list[Hit]
    nearest: float | None
    partial: bool = False
    wording: Wording | None = None
    weight: float = VECTOR_WEIGHT
    compared: Mapping[int, Compared] = MappingProxyType({})
    origins: Mapping[int, Origin] = MappingProxyType({})

    @property
    def coverage(self) -> float:
        """How much of the question's words, weighted by their rarity, a hit has for each share of the words."""
        most = max((hit.words or 0.0 for hit in self.hits), default=0.0)
        return self.wording.covered / most if self.wording and most else 0.0


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


def fused_score(similarity: float, words: float, weight: float = VECTOR_WEIGHT) -> float:
    """Return the convex combination of a cosine and a share of the words (see `divisor_of`).

    `weight`: of the cosine. A better match in either never lowers the score of a unit. A unit without a vector, whose
    similarity is NaN, has its share of the words as its score.
    """
    return float(fused_scores(np.array(similarity), np.array(words), weight))


def fused_scores(
    similarities: NDArray[np.float64], words: NDArray[np.float64], weight: float = VECTOR_WEIGHT
) -> NDArray[np.float64]:
    """Return the fused score of each pair; shape as given."""
    shares = rounded(words)
    scores = weight * np.where(np.isnan(similarities), shares, rounded(similarities)) + (1 - weight) * shares
    return np.round(scores, FUSED_DECIMALS)


def fuse(
    near: Ranked, keyword: Ranked, weight: float = VECTOR_WEIGHT, *, all_embedded: bool = True
) -> tuple[list[Hit], Horizon | None]:
    """Return the units of both lists, best first, and their horizon: no unit outside both lists comes before it.

    `weight`: of the cosines. `all_embedded`: every unit of the scope has a vector. The horizon is None if there are no
    other units. Longer lists would not change the results before it: this is the threshold algorithm (Fagin, Lotem,
    Naor 2003).
    """
    similarities, words = near.scores(), keyword.scores()
    in_near, in_keyword = ({match.id for match in ranked.matches} for ranked in (near, keyword))
    owners = {match.id: match.memory_id for match in (*near.matches, *keyword.matches)}
    shares = rounded(np.array([words.get(unit, 0.0) for unit in owners]))
    scores = fused_scores(np.array([similarities.get(unit, np.nan) for unit in owners]), shares, weight)
    hits = [
        Hit(unit, owners[unit], score, clipped(similarities.get(unit)), sources_of(unit, in_near, in_keyword), share)
        for unit, score, share in zip(owners, scores.tolist(), shares.tolist(), strict=True)
    ]
    horizon = fused_horizon(horizon_of(near), horizon_of(keyword), weight, all_embedded=all_embedded)
    return sort_hits(hits), horizon


def horizon_of(ranked: Ranked) -> Horizon | None:
    """Return the horizon of a list: no unit outside it comes before. None if there are no other units."""
    if ranked.complete:
        return None
    return Horizon(ranked.matches[-1].score, ranked.matches[-1].id) if ranked.matches else Horizon(1.0, 0)


def fused_horizon(
    near: Horizon | None, keyword: Horizon | None, weight: float, *, all_embedded: bool = True
) -> Horizon | None:
    """Return the horizon of fused lists: no unit that is outside both lists comes before it.

    A unit whose fused score equals that of the horizon has the scores of both horizons, so its id is above the last id
    of each list. A list without a horizon contributes a score of 0, which any unit can have. A unit without a vector
    can have the score of the horizon of the words.
    """
    if near is None and keyword is None:
        return None
    similarity = max(near.score, 0.0) if near else 0.0
    last_ids = [near.id] if near and near.score > 0 else []
    last_ids += [keyword.id] if keyword and keyword.score > 0 else []
    fused = Horizon(fused_score(similarity, keyword.score if keyword else 0.0, weight), max(last_ids, default=0))
    return fused if all_embedded or keyword is None else max(fused, keyword, key=lambda each: (each.score, -each.id))


def from_single(ranked: Ranked, source: Source) -> tuple[list[Hit], Horizon | None]:
    """Return the units of a single list and its horizon, as `fuse` does for two."""
    scores = rounded(np.array([match.score for match in ranked.matches])).tolist()
    matches = [match._replace(score=score) for match, score in zip(ranked.matches, scores, strict=True)]
    ranked = replace(ranked, matches=matches)
    hits = [
        Hit(match.id, match.memory_id, match.score, clipped(match.score), (source,))
        if source == "vector"
        else Hit(match.id, match.memory_id, match.score, None, (source,), match.score)
        for match in ranked.matches
    ]
    return hits, horizon_of(ranked)


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
        origins={number: origin for part in found for number, origin in part.origins.items()},
    )


def best_of_each_memory(hits: Iterable[Hit]) -> list[Hit]:
    """Return one hit for each memory, with the score of its best unit and its best similarity; `id` is the memory's."""
    best: dict[int, Hit] = {}
    for hit in hits:
        known = best.setdefault(hit.memory_id, hit._replace(id=hit.memory_id))
        similarity = max((value for value in (known.similarity, hit.similarity) if value is not None), default=None)
        best[hit.memory_id] = known._replace(similarity=similarity)
    return sort_hits(best.values())
