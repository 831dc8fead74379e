"""Where relevance ends: how well each hit matches, and which are too far behind the best to be shown.

docs/lab/retrieval.md has the measurements behind the figures.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from vector_memory.domain import LINES, MatchLevel, Page, best_of
from vector_memory.embedding.description import UNKNOWN
from vector_memory.embedding.token_states import Compared
from vector_memory.results.lean import IS_LEAN
from vector_memory.search.fusion import Hit, SearchHits
from vector_memory.search.question import Question
from vector_memory.storage.scoring import LATE_UNITS

CANDIDATES = LATE_UNITS
"""How many of the best are looked at: those behind the first eight are taken for the background. Without any, nothing
tells how near unrelated texts are, and nothing is weak."""
FOREGROUND = 8

STANDING_OUT, ALIKE = 0.4, 0.52
"""The background's share of the best score: up to the first, the best stand out; from the second on, all are alike."""
SHORT, LONG = 35, 70
"""Tokens with meaning. A short text says one thing, a long one several."""
HIGHEST_SHARE, LOWEST_SHARE = 0.95, 0.5
"""The share of the best score below which a hit is weak: where a short text stands out; where it is long, or alike."""

LEAST_NEW = 0.04
"""How much nearer to the question's words, in the mean, a hit must be than all better ones to answer a further part."""
LEAST_SHARE = 0.55
"""The share of the best score that it must have."""

MOST_RELATED = 3
"""How many results that only are related a lean answer shows in a row at its end."""


class Judged(Protocol):
    """A hit, a section that has hits, or a result made of them."""

    @property
    def memory_id(self) -> int:
        """Where it is."""

    @property
    def match(self) -> MatchLevel | None:
        """How well it matches; None: not judged."""

    def over(self, copies: Any) -> Self:
        """Return it in place of results that it repeats, as good as the best of them."""

    def leading(self) -> Self:
        """Return it as it stands before an older one on its subject: it is not weak."""


J = TypeVar("J", bound=Judged)


class Shown(NamedTuple, Generic[J]):
    """What a page shows of results. `left_out`: how many weak ones it leaves out; `more` follow."""

    results: Sequence[J]
    left_out: int
    more: bool


def on_page(found: Sequence[J], page: Page, related: int = MOST_RELATED) -> Shown[J]:
    """Return what a page shows. `related`: see `arranged`."""
    if page.is_part:
        return Shown(found[: page.end], 0, more=False)
    places, kept = arranged(found, page, related)
    results, more = found[places.start : places.stop], places.stop < len(found)
    if page.offset >= max(1, kept):
        return Shown(results, 0, more)
    left_out = max(0, min(page.end, len(found)) - kept) if places.stop in (page.end, kept) else 0
    return Shown(results, left_out, more)


def arranged(found: Sequence[J], page: Page, related: int = MOST_RELATED) -> tuple[range, int]:
    """Return the places of the results on a page, and how many are not weak.

    A page that begins with a result that is not weak ends before those that are, which follow on the next pages. If all
    are weak, the first page is empty, and they follow from offset 1 on.

    A lean answer does not show more than `related` at its end that only are related: they are the first of the next
    page. A caller who says how much there is room for gets all.
    """
    kept = sum(one.match != "weak" for one in found)
    first = min(page.limit, kept)
    if IS_LEAN.get() and page.max_tokens is None and page.detail != LINES:
        only = [place for place in range(first) if found[place].match == "related"]
        first = max([*only[:related], *set(range(first)).difference(only)], default=-1) + 1
    if page.offset >= max(1, kept):
        start = page.offset - (not kept)
        return range(start, start + page.limit), kept
    return range(page.offset, min(page.end, kept) if page.offset else first), kept


def latest_first(found: Sequence[J], newer: Mapping[int, Sequence[int]]) -> list[J]:
    """Return results with the latest on a subject just before the first earlier one; the others keep their order.

    `newer`: the memories that are newer than a memory and on its subject, the newest first, by its id. Of the first
    results, which are the same for all pages. Nothing is put before what is weak.
    """
    ordered = list(found[:CANDIDATES])
    for number in dict.fromkeys(one.memory_id for one in ordered):
        places = {one.memory_id: place for place, one in reversed(list(enumerate(ordered)))}
        place = places[number]
        latest = next((places[each] for each in newer.get(number, ()) if each in places), place)
        if latest > place and ordered[place].match != "weak":
            ordered.insert(place, ordered.pop(latest).leading())
    return [*ordered, *found[CANDIDATES:]]


def weighed(found: SearchHits, question: Question) -> list[Hit]:
    """Return the hits with how well each matches.

    Nothing is said of a search by words, unless the query has no meaning.
    """
    if not question.tells_matches:
        return found.hits
    levels = level_of_each(found, question)
    if best_of(levels[:CANDIDATES]) != "strong":  # how many more were found does not change the best match
        levels = ["related" if level == "strong" else level for level in levels]
    kept = set(range(len(levels)))
    if question.calibration.tells_weak and len(levels) > FOREGROUND:
        kept = standing_out(found.hits, found.compared)
        if "strong" not in {levels[place] for place in kept}:
            kept |= {place for place, level in enumerate(levels) if level == "strong"}
        kept = kept if best_of([levels[place] for place in kept if place < CANDIDATES]) != "weak" else set()
        kept |= further_parts(found, kept)
    return [
        hit._replace(match="weak" if place not in kept else "strong" if level == "strong" else "related")
        for place, (hit, level) in enumerate(zip(found.hits, levels, strict=True))
    ]


def level_of_each(found: SearchHits, question: Question) -> list[MatchLevel]:
    """Return how well each hit matches, regardless of the others."""
    # Without a vector, a unit is not known to be far from the question.
    without = question.calibration if question.vector is None else UNKNOWN
    coverage = found.coverage
    return [
        without.level(0.0, hit.covered or coverage * (hit.words or 0.0))
        if hit.similarity is None
        else question.calibration.level(hit.similarity, hit.covered or coverage * (hit.words or 0.0), hit.late)
        for hit in found.hits
    ]


def standing_out(hits: Sequence[Hit], compared: Mapping[int, Compared]) -> set[int]:
    """Return the positions of the hits that are close enough to the best one."""
    if not hits or hits[0].score <= 0:
        return set(range(len(hits)))
    best, scores = hits[0].score, [hit.score for hit in hits]
    background = np.mean(scores[FOREGROUND:CANDIDATES]) / best
    length = compared[hits[0].id].length if hits[0].id in compared else LONG
    strictness = np.interp(background, (STANDING_OUT, ALIKE), (1, 0)) * np.interp(length, (SHORT, LONG), (1, 0))
    needed = (LOWEST_SHARE + strictness * (HIGHEST_SHARE - LOWEST_SHARE)) * best
    return {place for place, score in enumerate(scores) if score >= needed}


def further_parts(found: SearchHits, kept: Iterable[int]) -> set[int]:
    """Return the places of hits that answer a part of the question which none of those `kept` answers, nor each other.

    They are nearer to some of its words, as the second subject of a question that has two.
    """
    hits, compared, parts = found.hits, found.compared, set()
    known = [compared[hits[place].id].nearest for place in kept if hits[place].id in compared]
    if not known:
        return set()
    nearest = np.max(known, axis=0)
    for place, hit in enumerate(hits[:CANDIDATES]):
        if hit.id in compared and hit.score >= LEAST_SHARE * hits[0].score:
            own = compared[hit.id].nearest
            if np.maximum(0, own - nearest).sum() / own.size >= LEAST_NEW:
                parts.add(place)
                nearest = np.maximum(nearest, own)
    return parts
