"""Where else there are matches, if a scope has nothing close: outside its filters, and among other kinds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from vector_memory.domain import STORED, MemoryKind, Scope
from vector_memory.search.question import Question
from vector_memory.search.rank import COUNTED, MOST_COMPARED, PROBED, Ranking, ScopeData
from vector_memory.storage.base import Reader
from vector_memory.storage.connection import Steps
from vector_memory.storage.postings import buckets_of

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


def around(reader: Reader, scope: Scope) -> list[Steps[Any]]:
    """Return the reads of what tells the `Others` of a scope: where the newest passages begin, and the kinds."""
    oldest = reader.vectors.candidates.oldest_of_newest.steps(Scope(), PROBED)
    if scope.kind is MemoryKind.TAGGED:
        return [oldest]
    within = Scope(session_id=scope.session_id, as_of=STORED)  # what is hidden is left out where it would be counted
    return [oldest, reader.memories.count_by.steps(within, "kind")]


class Others:
    """The other scopes of a search, by name. `oldest`: the memory that has the first of the newest passages.

    `kinds`: those of its session.
    """

    def __init__(self, scope: Scope, oldest: int, kinds: Iterable[str] = ()) -> None:
        self._besides = scope.session_id
        since = max(oldest - 1, scope.after_id or 0) or None
        others = other_scopes(scope, kinds)
        self._scopes = (
            others if since is None else {name: replace(each, after_id=since) for name, each in others.items()}
        )

    def reads(self, reader: Reader, question: Question) -> list[Steps[Any]]:
        """Return the reads for `counts`, which do not need each other."""
        source, buckets, besides = reader.vectors.candidates, buckets_of(question.terms or ()), self._besides
        scopes, vector = self._scopes.values(), question.vector
        return [
            *(source.indexed.steps(scope, buckets) for scope in scopes),
            *([] if besides is None else [source.memories_in.steps(Scope(session_id=besides, as_of=STORED))]),
            *(
                source.likeliest_ahead.steps(scope, vector, MOST_COMPARED, PROBED, besides)
                for scope in scopes
                if vector is not None
            ),
        ]

    def counts(
        self, reader: Reader, question: Question, found: Sequence[Any], threshold: float | None
    ) -> dict[str, int]:
        """Return how many units of each scope that has any match strongly: at most COUNTED.

        Its session does not count where a scope names none. Tokens are not compared, and of the passages only the
        likeliest of the newest. `found`: what was read.
        """
        rest = iter(found)
        indexed = [next(rest) for _ in self._scopes]
        besides = [] if self._besides is None else next(rest)
        ahead = dict(zip(self._scopes, rest, strict=False))
        rankings: dict[str, Ranking] = {}
        for (name, scope), one in zip(self._scopes.items(), indexed, strict=True):
            left_out = besides if scope.session_id is None else ()
            if one.units.without(left_out).count:
                rankings[name] = Ranking(reader.vectors.candidates, scope, question, ScopeData(one), besides=left_out)
        missing = [name for name in rankings if ahead.get(name) is None]
        likely = ahead | dict(
            zip(missing, reader.together(*(rankings[name].likeliest() for name in missing)), strict=True)
        )
        counts = {name: ranking.count_strong(likely[name], threshold) for name, ranking in rankings.items()}
        return {name: min(COUNTED, count) for name, count in counts.items() if count}


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
