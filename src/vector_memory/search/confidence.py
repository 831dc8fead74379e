"""Judges whether a scope has anything on the topic of a question, and where else there are matches."""

from dataclasses import dataclass, field

from vector_memory.domain import Scope
from vector_memory.results.sessions import Confidence
from vector_memory.search.elsewhere import closer_matches, nothing_stored
from vector_memory.search.fusion import SearchHits
from vector_memory.search.messages import (
    NO_CLOSE_MATCH,
    all_too_different,
    cut_short,
    no_such_words,
    somewhere_else,
)
from vector_memory.search.retrieval import Retrieval


@dataclass(frozen=True, slots=True)
class Judgement:
    """How far to trust an answer. `confidence` is None if the query has a meaning that was not compared.

    `elsewhere`: how many units near the question there are in other scopes, by their names. `notes`: sentences.
    """

    confidence: Confidence | None = None
    elsewhere: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def judge(retrieval: Retrieval, scope: Scope, found: SearchHits) -> Judgement:
    """Judge whether the scope has anything on the topic; if not, look where else there are matches.

    Whether a text on the topic answers the question cannot be told from these measures.
    """
    reader, question = retrieval.reader, retrieval.question
    notes = [question.problem] if question.problem else []
    if missing := retrieval.note_on_missing(scope):
        notes.append(missing)
    if found.partial:
        notes.append(cut_short(scope))
    if question.vector is None:
        if not found.hits:
            notes.append(no_such_words(scope) if reader.count(scope) else nothing_stored(reader, scope))
        if not question.is_reference:
            return Judgement(notes=tuple(notes))
    if not found.hits and found.nearest is not None and retrieval.threshold is not None:
        notes.append(all_too_different(retrieval.threshold))
    if found.is_close(retrieval.question.calibration):
        return Judgement("high", notes=tuple(notes))
    if found.hits or question.vector is not None:
        notes.append(NO_CLOSE_MATCH if reader.count(scope) else nothing_stored(reader, scope))
    elsewhere = closer_matches(retrieval, scope)
    if elsewhere:
        notes.append(somewhere_else(elsewhere, advise=True))
    return Judgement("low", elsewhere, tuple(notes))
