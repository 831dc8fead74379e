"""Coarse search: whole memories, looked up by scope or found by their best passage."""

from collections.abc import Sequence
from typing import Literal

from vector_memory.access import AccessRecorder
from vector_memory.entries import READ_WITH, found_memory, said_of_cut
from vector_memory.errors import ValidationError
from vector_memory.packing import Packer, omissions, omitted_memory
from vector_memory.results import CoarseSearchResult, FoundMemory, SearchMemoriesResult
from vector_memory.search.neighbours import NearestNeighbours
from vector_memory.search.timing import SearchTimer
from vector_memory.search.wording import explain, nothing_stored
from vector_memory.storage.database import Database
from vector_memory.storage.memories import get_memories, list_memories
from vector_memory.values import MAX_LIMIT, Scope, check_range


class CoarseSearch:
    """Finds whole memories (seed 001, COARSE)."""

    def __init__(
        self,
        database: Database,
        neighbours: NearestNeighbours,
        timer: SearchTimer,
        packer: Packer,
        access: AccessRecorder,
    ) -> None:
        self._database = database
        self._neighbours = neighbours
        self._timer = timer
        self._packer = packer
        self._access = access

    def scoped(self, scope: Scope, limit: int, *, latest_first: bool = True) -> SearchMemoriesResult:
        """Return the newest (or oldest) memories of the scope; nothing is compared."""
        found, problem = self._look_up(scope, limit, latest_first=latest_first)
        return self._memories_result(found, problem, scope, limit, query=None, latest_first=latest_first)

    def memories(self, query: str | None, scope: Scope, limit: int) -> SearchMemoriesResult:
        """Return the memories nearest to the query, or without one the newest."""
        found, problem = self._look_up(scope, limit) if query is None else self._nearest(query, scope, limit)
        return self._memories_result(found, problem, scope, limit, query=query, latest_first=True)

    def documents(
        self, query: str | None, scope: Scope, limit: int, *, order: Literal["recent", "relevance"]
    ) -> CoarseSearchResult:
        """Return the newest documents of the scope, or by `relevance` those nearest to the query."""
        if order == "recent":
            found, problem = self._look_up(scope, limit)
        elif query is None:
            raise ValidationError('order="relevance" needs a query: send one, or leave order out for the newest.')
        else:
            found, problem = self._nearest(query, scope, limit)
        results = self._hand_out(found)
        message = summary(found, results, problem, scope)
        if query is not None and order == "recent":
            message += ' The newest first, not compared with the query: send order="relevance" for the best match.'
        return CoarseSearchResult(
            results=results,
            total_results=len(results),
            omitted=omissions(found, results, omitted_memory),
            message=message,
        )

    def _look_up(self, scope: Scope, limit: int, *, latest_first: bool = True) -> tuple[list[FoundMemory], str | None]:
        check_range("limit", limit, 1, MAX_LIMIT)
        with self._timer.time(f"search_coarse_{scope.kind}"), self._database.read() as connection:
            memories = list_memories(connection, scope, limit, latest_first=latest_first)
        return [found_memory(memory) for memory in memories], None if memories else nothing_stored(scope)

    def _nearest(self, query: str, scope: Scope, limit: int) -> tuple[list[FoundMemory], str | None]:
        check_range("limit", limit, 1, MAX_LIMIT)
        with self._timer.time(f"search_coarse_{scope.kind}"):
            vector = self._neighbours.embed(query)
            with self._database.read() as connection:
                matches = self._neighbours.memories(connection, vector, scope, limit)
                memories = get_memories(connection, [match.id for match in matches])
                problem = self._neighbours.explain_missing(connection, scope, found=bool(matches))
        return [found_memory(memories[match.id], match.similarity) for match in matches], problem

    def _hand_out(self, found: Sequence[FoundMemory]) -> list[FoundMemory]:
        results = self._packer.share(found)
        self._access.record([memory.id for memory in results])
        return results

    def _memories_result(
        self,
        found: list[FoundMemory],
        problem: str | None,
        scope: Scope,
        limit: int,
        *,
        query: str | None,
        latest_first: bool,
    ) -> SearchMemoriesResult:
        results = self._hand_out(found)
        return SearchMemoriesResult(
            results=results,
            total_results=len(results),
            query=query,
            filters=scope.as_filters(),
            limit=limit,
            latest_first=latest_first,
            omitted=omissions(found, results, omitted_memory),
            message=summary(found, results, problem, scope),
        )


def summary(found: Sequence[FoundMemory], results: Sequence[FoundMemory], problem: str | None, scope: Scope) -> str:
    """Say how much was found, and whether some of it goes on or was left out."""
    omitted = omissions(found, results, omitted_memory)
    text = explain(scope.kind or "memory", len(results), problem, omitted, read_with=READ_WITH)
    return text + said_of_cut(results)
