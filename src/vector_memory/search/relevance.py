"""Where relevance ends: how well each hit matches, and which are too far behind the best to be shown.

docs/lab/retrieval.md has the measurements behind the figures.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from vector_memory.domain import LINES, MatchLevel, Page
from vector_memory.domain.validation import MAX_LIMIT
from vector_memory.embedding.calibration import UNKNOWN
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
    """A hit, or a result that has hits."""

    @property
    def memory_id(self) -> int:
        """Where it is."""

    @property
    def match(self) -> MatchLevel | None:
        """How well it matches; None: not judged."""

    @property
    def later(self) -> Sequence[int]:
        """The memories that it may correct."""


J = TypeVar("J", bound=Judged)


class Shown(NamedTuple, Generic[J]):
    """What a page shows of results. `left_out`: how many it would show if they were not weak; `more` follow."""

    results: Sequence[J]
    left_out: int
    more: bool


def on_page(found: Sequence[J], kept: int, page: Page) -> Shown[J]:
    """Return what a page shows: the first `kept` results are not weak, and a page that begins among them ends there.

    It ends behind what may correct a result on it, whatever its limit. Weak ones follow on the next pages. If all are
    weak, the first page is empty, and they follow from offset 1 on.
    """
    if page.is_part:
        return Shown(found[: min(page.end + 1, MAX_LIMIT)], 0, more=False)
    if page.offset < max(1, kept):
        end = min(page.end, kept)
        if end < kept and found[end].later:
            end = behind_corrections(found[:kept], page.offset, end)
        results = found[page.offset : end]
        return Shown(results, max(0, min(page.end, len(found)) - kept), page.offset + len(results) < len(found))
    start = page.offset - (not kept)
    return Shown(found[start : start + page.limit], 0, start + page.limit < len(found))


def with_corrections_behind(found: Sequence[J]) -> list[J]:
    """Return results in their order, but each that may correct an earlier one directly behind that."""
    left, ordered = list(found), list[J]()
    while left:
        group = [left.pop(0)]
        for one in group:  # which grows: what corrects a correction follows, too
            group += [each for each in left if one.memory_id in each.later]
            left = [each for each in left if one.memory_id not in each.later]
        ordered += group
    return ordered


def behind_corrections(found: Sequence[J], start: int, end: int) -> int:
    """Return the end of a page that shows `found` from `start` to `end`, behind what may correct a result on it."""
    shown = {one.memory_id for one in found[start:end]}
    while end < len(found) and not shown.isdisjoint(found[end].later):
        shown.add(found[end].memory_id)
        end += 1
    return end


def without_long_tail(shown: Shown[J], page: Page, questions: int = 1) -> Shown[J]:
    """Return what a lean answer shows of a page: not all of many results at its end that only are related.

    They are the first of the next page. A caller who says how much there is room for, or who pages on, gets all.
    """
    if not IS_LEAN.get() or page.is_part or page.offset or page.max_tokens is not None or page.detail == LINES:
        return shown
    strong = {one.memory_id for one in shown.results if one.match == "strong"}
    related = [
        place
        for place, one in enumerate(shown.results)
        if one.match == "related" and not strong.intersection(one.later)
    ]
    others = set(range(len(shown.results))).difference(related)
    end = max([*related[: MOST_RELATED * questions], *others], default=-1) + 1
    return shown if end == len(shown.results) else Shown(shown.results[:end], 0, more=True)


def weighed(found: SearchHits, question: Question) -> list[Hit]:
    """Return the hits with how well each matches, the weak ones last.

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
    judged = [
        hit._replace(match="weak" if place not in kept else "strong" if level == "strong" else "related")
        for place, (hit, level) in enumerate(zip(found.hits, levels, strict=True))
    ]
    return sorted(judged, key=lambda hit: hit.match == "weak")


def count_kept(levels: Iterable[MatchLevel | None]) -> int:
    """Count the levels that are not weak."""
    return sum(level != "weak" for level in levels)


def best_of(levels: Sequence[MatchLevel | None]) -> MatchLevel | None:
    """Return the best of several levels; None if there is none."""
    return next((level for level in ("strong", "related", "weak") if level in levels), None)


def level_of_each(found: SearchHits, question: Question) -> list[MatchLevel]:
    """Return how well each hit matches, regardless of the others."""
    most = max((hit.words or 0.0 for hit in found.hits), default=0.0)
    covered = found.wording.covered / most if found.wording and most else 0.0
    # Without a vector, a unit is not known to be far from the question.
    without = question.calibration if question.vector is None else UNKNOWN
    return [
        without.level(0.0, covered * (hit.words or 0.0))
        if hit.similarity is None
        else question.calibration.level(hit.similarity, covered * (hit.words or 0.0), hit.late)
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
            if np.maximum(0, own - nearest).mean() >= LEAST_NEW:
                parts.add(place)
                nearest = np.maximum(nearest, own)
    return parts
