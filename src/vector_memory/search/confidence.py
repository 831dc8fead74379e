"""Honest answers: whether a scope has anything on the topic of a question, and where else there is something."""

from dataclasses import dataclass, field, replace

from vector_memory.domain import MemoryKind, Scope
from vector_memory.results.sessions import Confidence
from vector_memory.search.fusion import Found
from vector_memory.search.messages import (
    all_too_different,
    cut_short,
    no_such_words,
    nothing_stored,
    somewhere_else,
    weak,
)
from vector_memory.search.retriever import Retrieval

CONFIDENT = 0.42
"""From this cosine of the best passage on, a scope has something on the topic (error rates: docs/retrieval.md)."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How far an answer is to be trusted. `confidence` is None where nothing was compared by meaning.

    `elsewhere`: how many units near the question there are in other scopes, by their names. `notes`: sentences.
    """

    confidence: Confidence | None = None
    elsewhere: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def judge(retrieval: Retrieval, scope: Scope, found: Found) -> Judgement:
    """Say whether the scope has anything on the topic, and if it seems to have nothing, where else there is something.

    Nothing is said about whether a text on the topic answers the question: no cosine can tell.
    """
    reader, question = retrieval.reader, retrieval.question
    notes = [question.problem] if question.problem else []
    if missing := retrieval.note_on_missing(scope):
        notes.append(missing)
    if found.partial:
        notes.append(cut_short(scope))
    if question.vector is None:
        if not found.hits:
            notes.append(no_such_words(scope) if reader.count(scope) else nothing_stored(scope))
        return Judgement(notes=tuple(notes))
    if not found.hits and found.nearest is not None and retrieval.threshold is not None:
        notes.append(all_too_different(retrieval.threshold))
    if found.nearest is not None and found.nearest >= CONFIDENT:
        return Judgement("high", notes=tuple(notes))
    held = reader.count(scope)
    notes.append(weak(scope, held, found.nearest or 0.0) if held else nothing_stored(scope))
    elsewhere = {
        name: count for name, other in other_scopes(scope).items() if (count := retrieval.count_near(other, CONFIDENT))
    }
    if elsewhere:
        notes.append(somewhere_else(elsewhere))
    return Judgement("low", elsewhere, tuple(notes))


def other_scopes(scope: Scope) -> dict[str, Scope]:
    """Return where a question that a scope has nothing about may be asked instead, by name."""
    others = {}
    if scope.session_iter is not None:
        others["other_iterations"] = replace(scope, session_iter=None)
    if scope.agent_id is not None:
        others["other_agents"] = replace(scope, agent_id=None)
    if scope.kind is MemoryKind.TAGGED:
        if scope.category is not None or scope.tags:
            others["other_categories"] = replace(scope, category=None, tags=())
    elif scope.kind is not MemoryKind.KNOWLEDGE_BASE:
        others["knowledge_base"] = Scope(kind=MemoryKind.KNOWLEDGE_BASE)
    return others
