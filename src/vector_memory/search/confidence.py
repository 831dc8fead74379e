"""Judges how well results match a question, and finds out where else there are matches."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vector_memory.domain import MatchLevel, MemoryKind, Scope, best_of
from vector_memory.search.fusion import Hit, SearchHits
from vector_memory.search.messages import (
    NO_CLOSE_MATCH,
    NO_MATCH,
    all_too_different,
    cut_short,
    filters_of,
    kinds_in_words,
    no_such_words,
    noun_of,
    read_as,
    somewhere_else,
)
from vector_memory.search.question import Question
from vector_memory.search.relevance import weighed
from vector_memory.search.retrieval import Retrieval
from vector_memory.search.scan import PROBED
from vector_memory.storage.base import Reader


@dataclass(frozen=True, slots=True)
class Judgement:
    """How far to trust an answer. `hits`: with how well each matches, the weak ones last.

    `confidence`: the best match; None if the query has a meaning that was not compared. `elsewhere`: how many units
    near the question there are in other scopes, by their names. `notes`: sentences.
    """

    hits: Sequence[Hit] = ()
    confidence: MatchLevel | None = None
    elsewhere: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def judge(retrieval: Retrieval, scope: Scope, found: SearchHits, *, only_here: bool = False) -> Judgement:
    """Judge how well each hit matches; if none matches strongly, look for matches elsewhere, unless `only_here`."""
    question, hits = retrieval.question, judged(found, retrieval.question)
    notes = list(limits(retrieval, scope, found))
    if not question.tells_matches:
        return Judgement(hits, notes=tuple(notes))
    confidence = best_of([hit.match for hit in hits]) or "weak"
    if confidence == "strong":
        return Judgement(hits, confidence, notes=tuple(notes))
    if hits:
        notes.append(NO_MATCH if confidence == "weak" else NO_CLOSE_MATCH)
    elsewhere = {} if only_here else closer_matches(retrieval, scope)
    if elsewhere:
        notes.append(somewhere_else(elsewhere, advise=True))
    return Judgement(hits, confidence, elsewhere, tuple(notes))


def judged(found: SearchHits, question: Question) -> list[Hit]:
    """Return the hits in the order of answers, with how well each matches, weak ones last.

    A newer memory on the subject of a strong match is not weak: it may say what is true now.
    """
    hits = weighed(found, question)
    strong = {hit.memory_id for hit in hits if hit.match == "strong"}
    newer = {link.newer_id for link in found.links if link.older_id in strong}
    kept = [hit._replace(match="related") if hit.match == "weak" and hit.memory_id in newer else hit for hit in hits]
    return sorted(kept, key=lambda hit: hit.match == "weak")


def limits(retrieval: Retrieval, scope: Scope, found: SearchHits) -> Iterator[str]:
    """Yield the reasons why meaning or parts of the scope were not compared, and why nothing was found."""
    question = retrieval.question
    if question.problem:
        yield question.problem
    if question.respelt:
        yield read_as(question.respelt)
    if missing := retrieval.note_on_missing(scope):
        yield missing
    if found.partial:
        yield cut_short(scope)
    if found.hits:
        return
    if not retrieval.reader.count(scope):
        yield nothing_stored(retrieval.reader, scope)
    elif question.vector is None:
        yield no_such_words(scope)
    elif found.nearest is not None and retrieval.threshold is not None:
        yield all_too_different(retrieval.threshold)


# Whether a scope has anything on a topic, and which other scopes do.

UNSEARCHED = (MemoryKind.TAGGED, MemoryKind.KNOWLEDGE_BASE)
"""Kinds that belong to no session; notes belong to another family of tools."""

WITHOUT: dict[str, dict[str, Any]] = {
    "other_times": {"created_after": None, "created_before": None},
    "other_iterations": {"session_iter": None},
    "other_agents": {"agent_id": None},
    "other_tasks": {"task_code": None},
    "other_categories": {"category": None, "tags": ()},
}
"""Filters that a caller may have sent, with their defaults."""


def closer_matches(retrieval: Retrieval, scope: Scope) -> dict[str, int]:
    """Return how many units near the question there are outside the filters and among other kinds, by place."""
    reader, within = retrieval.reader, Scope(session_id=scope.session_id, as_of=scope.as_of)
    oldest, *kinds = reader.together(
        reader.candidates.oldest_of_newest.steps(reader.visible(Scope()), PROBED),
        *([] if scope.kind is MemoryKind.TAGGED else [reader.count_by.steps(within, "kind")]),
    )
    since = max(oldest - 1, scope.after_id or 0) or None
    others = {name: replace(other, after_id=since) for name, other in other_scopes(scope, *kinds).items()}
    counts = retrieval.counts_of_strong(others, scope.session_id)
    return {name: count for name, count in counts.items() if count}


def other_scopes(scope: Scope, kinds: Iterable[str] = ()) -> dict[str, Scope]:
    """Return the other scopes to search when a scope has nothing on a topic, by name. `kinds`: those of its session."""
    others = {
        name: replace(scope, **without)
        for name, without in WITHOUT.items()
        if any(getattr(scope, filtered) for filtered in without)
    }
    if scope.kind is MemoryKind.TAGGED:
        return others
    if scope.session_id is not None:
        others["other_sessions"] = replace(scope, session_id=None, session_iter=None)
    window = Scope(created_after=scope.created_after, created_before=scope.created_before, as_of=scope.as_of)
    for name in kinds:
        if name in set(MemoryKind) - {scope.kind, *UNSEARCHED}:
            others[name] = replace(window, kind=MemoryKind(name), session_id=scope.session_id)
    if scope.kind is not MemoryKind.KNOWLEDGE_BASE:
        others[str(MemoryKind.KNOWLEDGE_BASE)] = replace(window, kind=MemoryKind.KNOWLEDGE_BASE)
    return others


def nothing_stored(reader: Reader, scope: Scope) -> str:
    """Return a sentence that a scope is empty, with what its session holds, or the count without filters."""
    noun, names = noun_of(scope.kind), filters_of(scope)
    if not names:
        return f"No {noun} are stored yet."
    said = f"No {noun} match these filters ({', '.join(names)})."
    if scope.session_id is not None:
        held = reader.count_by(Scope(session_id=scope.session_id), "kind")
        known = {MemoryKind(name): count for name, count in held.items() if name in set(MemoryKind)}
        if not known:
            return f"{said} Nothing at all is stored in this session: list_sessions shows the sessions."
        return f"{said} This session has {kinds_in_words(known)}."
    count = reader.count(Scope(scope.kind))
    return f"{said} Without filters there {'is' if count == 1 else 'are'} {count:,}." if count else said
