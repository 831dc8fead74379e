"""Judges how well results match a question, and finds out where else there are matches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vector_memory.domain import MatchLevel, Scope, best_of
from vector_memory.search.elsewhere import closer_matches, nothing_stored
from vector_memory.search.fusion import Hit, SearchHits
from vector_memory.search.messages import (
    NO_CLOSE_MATCH,
    NO_MATCH,
    all_too_different,
    cut_short,
    no_such_words,
    read_as,
    somewhere_else,
)
from vector_memory.search.question import Question
from vector_memory.search.relevance import weighed
from vector_memory.search.retrieval import Retrieval


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
