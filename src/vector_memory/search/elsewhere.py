"""Whether a scope has anything on a topic, and which other scopes do."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from vector_memory.domain import MemoryKind, Scope
from vector_memory.search.messages import filters_of, kinds_in_words, noun_of
from vector_memory.search.retrieval import Retrieval
from vector_memory.search.scan import PROBED
from vector_memory.storage.base import Reader

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
    oldest, kinds = retrieval.reader.together(
        lambda reader: reader.candidates.oldest_of_newest(reader.visible(Scope()), PROBED),
        lambda reader: (
            []
            if scope.kind is MemoryKind.TAGGED
            else reader.count_by(Scope(session_id=scope.session_id, as_of=scope.as_of), "kind")
        ),
    )
    since = max(oldest - 1, scope.after_id or 0) or None
    others = {name: replace(other, after_id=since) for name, other in other_scopes(scope, kinds).items()}
    counts = retrieval.counts_of_strong(others, scope.session_id)
    return {name: count for name, count in counts.items() if count}


def other_scopes(scope: Scope, kinds: Iterable[str]) -> dict[str, Scope]:
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
