"""Searches one kind of memory in any grain, or several kinds at once, merged by score."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from vector_memory.answers import models
from vector_memory.domain import TRAITS, MemoryKind, Page, Scope, SearchMode, SearchOrder
from vector_memory.domain.validation import MAX_LIMIT
from vector_memory.errors import ValidationError
from vector_memory.search.answer import GrainName, Search
from vector_memory.storage.base import Storage

Found = models.FoundChunk | models.FoundSection | models.FoundMemory
Answer = models.FineSearchResult | models.MediumSearchResult | models.CoarseSearchResult | models.SearchMemoriesResult


class Merged(NamedTuple):
    """Results of several kinds, best first, the answers they come from, and which of each kind's results are shown."""

    results: list[Found]
    answers: list[Answer]
    shown: dict[MemoryKind | None, range]


class Across:
    """Searches all kinds and grains. Memories that are not split into chunks are whole results in every grain."""

    def __init__(self, storage: Storage, search: Search, as_stored: Callable[[Scope], Scope]) -> None:
        self._storage = storage
        self._as_stored = as_stored
        self._search = search

    def one(self, query: str, scope: Scope, page: Page, grain: GrainName, mode: SearchMode | None = None) -> Answer:
        """Search a scope of one kind."""
        scope = self._as_stored(scope)
        if scope.kind is None or not TRAITS[scope.kind].chunked:
            return self._search.memories(query, scope, page, mode)
        if grain == "chunk":
            return self._search.chunks(query, scope, page, mode, 0)
        if grain == "section":
            return self._search.sections(query, scope, page, mode)
        return self._search.documents(query, scope, page, mode, order=SearchOrder.RELEVANCE)

    def several(
        self, query: str, scopes: Sequence[Scope], page: Page, grain: GrainName, mode: SearchMode | None = None
    ) -> Merged:
        """Search scopes that differ only in their kinds. Raises ValidationError beyond the best 100."""
        if page.end > MAX_LIMIT:
            raise ValidationError(f"Without --kind there are at most {MAX_LIMIT} results: choose a kind for more.")
        with self._storage.read() as reader:
            held = reader.memories.count_by(replace(self._as_stored(scopes[0]), kind=None), "kind")
        searched = [scope for scope in scopes if scope.kind in held] or scopes[:1]  # which refuses a wrong query, too
        each = replace(page, limit=page.end, offset=0, only_here=True)  # all kinds are searched anyway
        answers = [self.one(query, scope, each, grain, mode) for scope in searched]
        ranked = merged_by_score([answer.results for answer in answers])[: page.end]
        shown = {scope.kind: shown_of(scope.kind, ranked, page.offset) for scope in scopes}
        return Merged(ranked[page.offset :], answers, shown)


def shown_of(kind: MemoryKind | None, ranked: Sequence[Found], offset: int) -> range:
    """Return which of one kind's results, counted from its best, are on a page of merged results."""
    earlier = sum(result.memory_type == kind for result in ranked[:offset])
    return range(earlier, earlier + sum(result.memory_type == kind for result in ranked[offset:]))


def merged_by_score(ranked: Sequence[Sequence[Found]]) -> list[Found]:
    """Merge rankings by score, keeping the order within each.

    The latest result on a subject counts with the score of the earlier result it was placed before, if that is higher.
    """

    def scored(results: Sequence[Found]) -> list[tuple[float, Found]]:
        scores = [result.score or 0.0 for result in results]
        for place in range(len(results) - 2, -1, -1):
            if results[place].memory_id in {one.id for one in results[place + 1].later}:
                scores[place] = max(scores[place : place + 2])
        return list(zip(scores, results, strict=True))

    return [result for _, result in heapq.merge(*map(scored, ranked), key=lambda each: -each[0])]
