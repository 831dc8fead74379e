"""Judges how well results match a question, which results a page shows, and where else there are matches.

docs/lab/retrieval.md has the measurements behind the constants.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from vector_memory.answers.forms import FORM
from vector_memory.answers.mapping import no_such_session
from vector_memory.domain import MatchLevel, MemoryKind, Page, Scope, State, best_of
from vector_memory.embedding.description import UNKNOWN
from vector_memory.embedding.token_states import Compared
from vector_memory.search import gate, messages
from vector_memory.search.question import Question, tasks_in
from vector_memory.search.rank import Hit, SearchHits
from vector_memory.search.retrieval import EVERYTHING, Awaited, Expected, Retrieval, Retriever, comes_soon
from vector_memory.storage.base import Reader
from vector_memory.storage.records import Link, Memory, Origin
from vector_memory.storage.scoring import LATE_UNITS
from vector_memory.texts.terms import searchable_text

CANDIDATES = LATE_UNITS
"""Number of best hits considered. Those after the first eight are the background, which shows how near unrelated texts
are. Without a background, nothing is weak."""
FOREGROUND = 8

STANDING_OUT, ALIKE = 0.4, 0.52
"""The background's share of the best score: below the first, the best stand out; above the second, all are alike."""
SHORT, LONG = 35, 70
"""Content tokens. A short text has one subject, a long one several."""
HIGHEST_SHARE, LOWEST_SHARE = 0.95, 0.5
"""The share of the best score below which a hit is weak: if a short text stands out; otherwise."""

SURELY = 0.23
"""With this much more evidence than a link needs, a newer text comes before the older one without `prefer`."""

READ_AT_MOST = 8_000
"""Characters. Longer texts are not read for this."""

LEAST_NEW = 0.04
"""How much nearer to the question's words, on average, a hit must be than all better ones to answer another part."""
LEAST_SHARE = 0.55
"""The share of the best score that such a hit needs."""


class Judged(Protocol):
    """A hit, a section with hits, or a result made of them."""

    @property
    def memory_id(self) -> int:
        """The id of its memory."""

    @property
    def match(self) -> MatchLevel | None:
        """How well it matches; None: not judged."""

    def over(self, copies: Any) -> Self:
        """Merge copies into this result; keep the best score."""

    def leading(self) -> Self:
        """Return the result for its place before an older one on its subject: not weak."""


J = TypeVar("J", bound=Judged)


class PageResults(NamedTuple, Generic[J]):
    """The results on a page. `left_out`: number of weak ones left out. `more`: further results follow."""

    results: Sequence[J]
    left_out: int
    more: bool


def on_page(found: Sequence[J], page: Page, questions: int = 1) -> PageResults[J]:
    """Return the results on a page. `questions`: number of questions that they answer."""
    if page.is_part:
        return PageResults(found[: page.end], 0, more=False)
    places, kept = arranged(found, page, questions)
    results, more = found[places.start : places.stop], places.stop < len(found)
    if page.offset >= max(1, kept):
        return PageResults(results, 0, more)
    left_out = max(0, min(page.end, len(found)) - kept) if places.stop in (page.end, kept) else 0
    return PageResults(results, left_out, more)


def arranged(found: Sequence[J], page: Page, questions: int = 1) -> tuple[range, int]:
    """Return the places of the results on a page, and how many results are not weak.

    Weak results begin on a page of their own. If all are weak, the first page is empty, and they follow from offset 1.

    The form of the answer may limit the merely related results at the end of the first page; the others begin the next.
    """
    kept, related = sum(one.match != "weak" for one in found), FORM.get().most_related(page)
    first = min(page.limit, kept)
    if related is not None:
        only = [place for place in range(first) if found[place].match == "related"]
        first = max([*only[: related * questions], *set(range(first)).difference(only)], default=-1) + 1
    if page.offset >= max(1, kept):
        start = page.offset - (not kept)
        return range(start, start + page.limit), kept
    return range(page.offset, min(page.end, kept) if page.offset else first), kept


def latest_first(found: Sequence[J], newer: Mapping[int, Sequence[int]]) -> list[J]:
    """Move the latest result on a subject just before the first earlier one; the others keep their order.

    `newer`: for each memory the ids of newer ones on its subject, newest first. Only the first results move, so that
    pages are stable. Nothing moves before a weak result.
    """
    ordered = list(found[:CANDIDATES])
    for number in dict.fromkeys(one.memory_id for one in ordered):
        places = {one.memory_id: place for place, one in reversed(list(enumerate(ordered)))}
        place = places[number]
        latest = next((places[each] for each in newer.get(number, ()) if each in places), place)
        if latest > place and ordered[place].match != "weak":
            ordered.insert(place, ordered.pop(latest).leading())
    return [*ordered, *found[CANDIDATES:]]


def current_first(reader: Reader, question: Question, found: Sequence[J], links: Iterable[Link]) -> Sequence[J]:
    """Move corrections just before what they correct, if the question asks for the current state.

    If the first result only asks, plans, denies or quotes, the next one moves before it that says what is so.
    """
    query, ids = question.text, {one.memory_id for one in found[:CANDIDATES]}
    if not gate.asks_for_state(query):
        return found
    least = (question.calibration.same_subject or 0.0) + SURELY
    pairs = [link for link in links if link.evidence >= least and {link.older_id, link.newer_id} <= ids]
    first = list(dict.fromkeys(one.memory_id for one in found[: gate.LOOKED_AT] if one.match != "weak"))
    wanted = sorted({*first, *(number for link in pairs for number in link[:2])})
    memories = reader.memories.get_all(wanted, READ_AT_MOST) if wanted else {}
    texts = {number: searchable_text(one.title, (), one.content) for number, one in memories.items()}
    newer: dict[int, list[Memory]] = {}
    for link in pairs:
        if {link.older_id, link.newer_id} <= texts.keys() and gate.replaces(query, *(texts[one] for one in link[:2])):
            newer.setdefault(link.older_id, []).append(memories[link.newer_id])
    latest = {
        number: [one.id for one in sorted(several, key=lambda one: (one.turn, one.created_at, one.id), reverse=True)]
        for number, several in newer.items()
    }
    if first and first[0] in texts and gate.leaves_open(query, texts[first[0]]):
        least = min(memories[first[0]].trust, 0)
        trusted = [one for one in first if one in texts and memories[one].trust >= least]
        others = [one for one in trusted if gate.answers_instead(query, texts[first[0]], texts[one])]
        latest.setdefault(first[0], others)
    return latest_first(found, latest)


def weighed(found: SearchHits, question: Question) -> list[Hit]:
    """Return the hits with their match levels.

    A search by words has none, unless the query has no meaning.
    """
    if not question.tells_matches:
        return found.hits
    levels = level_of_each(found, question)
    answered, others = gated(found, question, levels)
    if best_of(levels[:CANDIDATES]) != "strong":  # the best match must not depend on how many hits were requested
        levels = ["related" if level == "strong" else level for level in levels]
    kept = set(range(len(levels)))
    if question.calibration.tells_weak and gate.QUESTION.search(question.text):
        least = LOWEST_SHARE * max((hit.score for hit in found.hits), default=0.0)
        kept = {place for place, hit in enumerate(found.hits) if levels[place] != "weak" and hit.score >= least}
    if question.calibration.tells_weak and len(levels) > FOREGROUND:
        kept = standing_out(found.hits, found.compared)
        if "strong" not in {levels[place] for place in kept}:
            kept |= {place for place, level in enumerate(levels) if level == "strong"}
        kept = kept if best_of([levels[place] for place in kept if place < CANDIDATES]) != "weak" else set()
        kept |= further_parts(found, kept)
    if not answered:
        kept = set()
    kept -= others
    return [
        hit._replace(match="weak" if place not in kept else "strong" if level == "strong" else "related")
        for place, (hit, level) in enumerate(zip(found.hits, levels, strict=True))
    ]


def level_of_each(found: SearchHits, question: Question) -> list[MatchLevel]:
    """Return the match level of each hit, regardless of the others."""
    # A unit without a vector may be near the question.
    without = question.calibration if question.vector is None else UNKNOWN
    coverage = found.coverage
    return [
        without.level(0.0, hit.covered or coverage * (hit.words or 0.0))
        if hit.similarity is None
        else question.calibration.level(hit.similarity, hit.covered or coverage * (hit.words or 0.0), hit.late)
        for hit in found.hits
    ]


def gated(found: SearchHits, question: Question, levels: list[MatchLevel]) -> tuple[bool, set[int]]:
    """Lower the levels of hits that lack a deciding word; return whether the best of the others answer the question.

    Also return the places of hits with a different number, code or day than the question's.
    """
    first, others = list[tuple[float, NDArray[np.float32]]](), set[int]()
    for place, hit in enumerate(found.hits):
        text = found.texts.get(hit.id)
        fit = gate.Fit.WHOLE if text is None else gate.fit_of(question.text, text)
        if fit is gate.Fit.OTHER:
            others.add(place)
        if fit is not gate.Fit.WHOLE:
            levels[place] = "related" if levels[place] == "strong" else levels[place]
        answers = fit is gate.Fit.WHOLE or (fit is gate.Fit.UNDATED and not others)
        if answers and place < gate.LOOKED_AT and hit.id in found.compared:
            evidence = question.calibration.evidence(hit.similarity or 0.0, hit.late)
            first.append((evidence, found.compared[hit.id].nearest))
    tells = bool(found.compared) and question.calibration.tells_weak
    return not tells or gate.is_answered(question, first), others


def standing_out(hits: Sequence[Hit], compared: Mapping[int, Compared]) -> set[int]:
    """Return the places of the hits that are close enough to the best one."""
    if not hits or hits[0].score <= 0:
        return set(range(len(hits)))
    best, scores = hits[0].score, [hit.score for hit in hits]
    background = np.mean(scores[FOREGROUND:CANDIDATES]) / best
    length = compared[hits[0].id].length if hits[0].id in compared else LONG
    strictness = np.interp(background, (STANDING_OUT, ALIKE), (1, 0)) * np.interp(length, (SHORT, LONG), (1, 0))
    needed = (LOWEST_SHARE + strictness * (HIGHEST_SHARE - LOWEST_SHARE)) * best
    return {place for place, score in enumerate(scores) if score >= needed}


def further_parts(found: SearchHits, kept: Iterable[int]) -> set[int]:
    """Return the places of hits that answer a part of the question that no hit before them answers.

    Such hits are nearer to some of its words, for example to the second of two subjects.
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


# Judging an answer.

PATIENCE_ELSEWHERE_SECONDS = 2.0
"""How long a search waits for vectors outside its scope, where it only counts closer matches."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How far to trust an answer. `hits`: with match levels, weak ones last.

    `confidence`: the best match; None if the query has a meaning that was not compared. `elsewhere`: numbers of near
    units in other scopes, by name. `notes`: sentences for the message. `origins`: of memories, as far as known.
    `links`: between the memories of the best hits.
    """

    hits: Sequence[Hit] = ()
    confidence: MatchLevel | None = None
    elsewhere: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    origins: Mapping[int, Origin] = field(default_factory=dict)
    links: Sequence[Link] = ()


@contextmanager
def judging(
    retriever: Retriever, question: Question, scope: Scope, count: int, wanted: Expected
) -> Iterator[tuple[Retrieval, Judgement]]:
    """Yield a retrieval over one snapshot, and the judgement of the `count` best units or memories.

    A search that finds nothing close also waits for vectors outside the scope: otherwise the hint at matches elsewhere
    would depend on how fast they are computed.
    """
    with retriever.answering(question, scope, wanted) as retrieval:
        judgement = judge(retrieval, retrieval.find(count, memories=wanted.memories), only_here=not wanted.elsewhere)
        pending = retrieval.first.everywhere
        is_sure = not wanted.elsewhere or question.vector is None or judgement.confidence == "strong"
        if is_sure or not comes_soon(pending, pending):
            yield retrieval, judgement
            return
    retriever.wait(Awaited(EVERYTHING, pending.last_id), time.monotonic() + PATIENCE_ELSEWHERE_SECONDS)
    with retriever.answering(question, scope, wanted) as retrieval:
        yield retrieval, judge(retrieval, retrieval.find(count, memories=wanted.memories))


def judge(retrieval: Retrieval, found: SearchHits, *, only_here: bool = False) -> Judgement:
    """Judge the hits; if none is strong, look for matches elsewhere, unless `only_here`."""
    question, hits = retrieval.question, judged(found, retrieval.question)
    notes = [*limits(retrieval, found), *tasks_named(retrieval)]
    if not question.tells_matches:
        return Judgement(hits, notes=tuple(notes), origins=found.origins)
    confidence = best_of([hit.match for hit in hits]) or "weak"
    if hits and confidence != "strong":
        notes.append(messages.NO_MATCH if confidence == "weak" else messages.NO_CLOSE_MATCH)
    if missing := gate.found_nowhere(question.text, found.texts.values()) if found.texts else []:
        notes.append(messages.missing_words(missing))
    if confidence == "strong":
        return Judgement(hits, confidence, notes=tuple(notes), origins=found.origins, links=found.links)
    elsewhere = {} if only_here else retrieval.matches_elsewhere()
    if elsewhere:
        notes.append(messages.somewhere_else(elsewhere, advise=True))
    return Judgement(hits, confidence, elsewhere, tuple(notes), found.origins, found.links)


def best_superseded(retriever: Retriever, retrieval: Retrieval, judgement: Judgement) -> Hit | None:
    """Return the superseded memory that matches the question strongly, if nothing current does."""
    question, scope = retrieval.question, retrieval.scope
    if scope.state is not None or judgement.confidence in (None, "strong"):
        return None
    superseded = retriever.within(retrieval.reader, question, replace(scope, state=State.SUPERSEDED))
    found = judged(superseded.find(CANDIDATES, memories=True), question)
    return next((hit for hit in found if hit.match == "strong"), None)


def judged(found: SearchHits, question: Question) -> list[Hit]:
    """Return the hits with match levels, weak ones last.

    A newer memory on the subject of a strong match is not weak: it may say what is true now.
    """
    hits = weighed(found, question)
    strong = {hit.memory_id for hit in hits if hit.match == "strong"}
    newer = {link.newer_id for link in found.links if link.older_id in strong}
    kept = [hit._replace(match="related") if hit.match == "weak" and hit.memory_id in newer else hit for hit in hits]
    return sorted(kept, key=lambda hit: hit.match == "weak")


def limits(retrieval: Retrieval, found: SearchHits) -> Iterator[str]:
    """Yield notes on why meaning or parts of the scope were not compared, and why nothing was found."""
    question, scope = retrieval.question, retrieval.scope
    if question.problem:
        yield question.problem
    if question.respelt:
        yield messages.read_as(question.respelt)
    if retrieval.first.missing:
        yield messages.not_indexed(retrieval.first.missing, retrieval.first.pending.memories)
    if found.partial:
        yield messages.cut_short(scope)
    if found.hits:
        return
    if not retrieval.reader.memories.count(scope):
        yield nothing_stored(retrieval.reader, scope)
    elif question.vector is None:
        yield messages.no_such_words(scope)
    elif found.nearest is not None and retrieval.threshold is not None:
        yield messages.all_too_different(retrieval.threshold)


def tasks_named(retrieval: Retrieval) -> Iterator[str]:
    """Yield notes on the tasks that a question names, unless the caller filters by one."""
    scope = retrieval.scope
    for task in tasks_in(retrieval.question.text) if scope.task_code is None else ():
        if count := retrieval.reader.memories.count(replace(scope, task_code=task)):
            yield messages.of_task(count, task, scope.kind)


def nothing_stored(reader: Reader, scope: Scope) -> str:
    """Report that a scope is empty, and what its session holds, or the count without filters."""
    noun, names = messages.noun_of(scope.kind), messages.filters_of(scope)
    if not names:
        return f"No {noun} are stored yet."
    said = f"No {noun} match these filters ({', '.join(names)})."
    if scope.session_id is not None:
        held = reader.memories.count_by(Scope(session_id=scope.session_id), "kind")
        known = {MemoryKind(name): count for name, count in held.items() if name in set(MemoryKind)}
        if not known:
            return f"{said} {no_such_session(reader, scope.session_id)}"
        return f"{said} This session has {messages.kinds_in_words(known)}."
    count = reader.memories.count(Scope(scope.kind))
    return f"{said} Without filters there {'is' if count == 1 else 'are'} {count:,}." if count else said
