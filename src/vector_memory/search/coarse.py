"""Coarse search: whole memories, looked up by scope or found by their best unit."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from vector_memory.domain import LINES, MemoryKind, Page, Scope, SearchMode, SearchOrder
from vector_memory.errors import ValidationError
from vector_memory.results.budget import Packed, ResponseBudget, explain, listed, omitted_memory
from vector_memory.results.mapping import (
    READ_WITH,
    Superseded,
    counted_with_copies,
    found_memory,
    notes_on,
    observations_on,
    said_of_cut,
    superseded_in,
    with_notes,
)
from vector_memory.results.sessions import CoarseSearchResult, FoundMemory, SearchMemoriesResult
from vector_memory.search.confidence import Judgement, nothing_stored
from vector_memory.search.copies import needed_for, newer_of, results_of, said_in, whole_runs
from vector_memory.search.latency import SearchTimer
from vector_memory.search.messages import said_with
from vector_memory.search.neighbours import SHORT_BYTES, beside, neighbours_of
from vector_memory.search.relevance import on_page
from vector_memory.search.retrieval import reports_among
from vector_memory.search.retriever import Retriever
from vector_memory.storage.base import Storage
from vector_memory.storage.damaged import require_all
from vector_memory.storage.records import Neighbours

NOT_COMPARED = "The newest first, not compared with the query: omit order for the best match."

NOUNS: dict[str, str] = {MemoryKind.TAGGED: "tagged note", MemoryKind.KNOWLEDGE_BASE: "knowledge base entry"}
"""Names of kinds in results that differ from the kind's own name."""

A = TypeVar("A", bound=SearchMemoriesResult)


class Looked(NamedTuple):
    """What was found for a page, and what is to be said of it.

    `more`: further results follow. `left_out`: how many weak ones the page does not show.
    """

    found: Sequence[FoundMemory]
    judgement: Judgement
    neighbours: Mapping[int, Neighbours] = MappingProxyType({})
    more: bool = False
    left_out: int = 0
    superseded: Superseded = Superseded()


class CoarseSearch:
    """Finds whole memories.

    `record_access` counts whole memories as read. `read_with`: the tool that reads on what an answer cuts.
    """

    def __init__(
        self,
        storage: Storage,
        retriever: Retriever,
        timer: SearchTimer,
        budget: ResponseBudget,
        record_access: Callable[[Sequence[int]], None] | None,
        read_with: str = READ_WITH,
    ) -> None:
        self._storage = storage
        self._retriever = retriever
        self._timer = timer
        self._budget = budget
        self._record_access = record_access
        self._read_with = read_with

    def scoped(self, scope: Scope, page: Page, *, latest_first: bool = True) -> SearchMemoriesResult:
        """Return the newest (or oldest) memories of the scope; nothing is compared."""
        looked_up = self._look_up(scope, page, latest_first=latest_first)
        return self._answer(SearchMemoriesResult, looked_up, scope, page, latest_first=latest_first)

    def memories(
        self, query: str | None, scope: Scope, page: Page, mode: SearchMode | None = None, neighbours: int = 0
    ) -> SearchMemoriesResult:
        """Return the memories that match the query best, short ones with `neighbours`, or without one the newest."""
        found = self._look_up(scope, page) if query is None else self._best(query, scope, page, mode, neighbours)
        return self._answer(SearchMemoriesResult, found, scope, page, query)

    def documents(
        self,
        query: str | None,
        scope: Scope,
        page: Page,
        mode: SearchMode | None,
        *,
        order: SearchOrder | None,
    ) -> CoarseSearchResult:
        """Return the documents that match the query best; without one, or by `recent`, the newest of the scope."""
        if query is None and order is SearchOrder.RELEVANCE:
            raise ValidationError('order="relevance" needs a query: send one, or leave order out for the newest.')
        if query is None or order is SearchOrder.RECENT:
            looked = self._look_up(scope, page, note=None if query is None else NOT_COMPARED)
        else:
            looked = self._best(query, scope, page, mode)
        return self._answer(CoarseSearchResult, looked, scope, page, query)

    def _look_up(self, scope: Scope, page: Page, *, latest_first: bool = True, note: str | None = None) -> Looked:
        with self._timer.time(f"search_coarse_{scope.kind}"), self._storage.read() as reader:
            memories = reader.list_memories(
                scope, page.limit + 1, page.offset, order="newest" if latest_first else "oldest"
            )
            observations = observations_on(reader, memories, scope.as_of)
            superseded = superseded_in(reader, scope, [memory.id for memory in memories])
            shown = [memory.id for memory in memories[: page.limit]]
            later = reader.run(self._retriever.later_of(reader, shown, scope, page))
            notes = [nothing_stored(reader, scope)] if not memories and not page.offset else []
        found = [found_memory(memory, **later.get(memory.id, {})) for memory in memories[: page.limit]]
        said = Judgement(notes=(*notes, *filter(None, [note])))
        return Looked(with_notes(found, observations), said, more=len(memories) > page.limit, superseded=superseded)

    def _best(self, query: str, scope: Scope, page: Page, mode: SearchMode | None, neighbours: int = 0) -> Looked:
        with self._timer.time(f"search_coarse_{scope.kind}"):
            question = self._retriever.prepare(query, mode, scope)
            count, folds = whole_runs(needed_for(page)), self._retriever.folds(scope, page)
            with self._retriever.judging(question, scope, count, page, memories=True) as (retrieval, judgement):
                results = results_of(retrieval, scope, judgement.hits, page, folds=folds, memories=True)
                hits, left_out, more = on_page(results, page)
                numbers = [hit.memory_id for hit in hits]
                reader = retrieval.reader
                memories, observations, around, superseded, later, newer = reader.together(
                    reader.memories.steps(numbers),
                    notes_on.steps(reader, reports_among(scope, hits), scope.as_of),
                    neighbours_of(reader, scope, numbers, neighbours),
                    superseded_in.steps(reader, scope, numbers),
                    self._retriever.later_of(reader, numbers, scope, page),
                    newer_of.steps(reader, scope, numbers if page.is_part else [], page),
                )
                short = {one.id for one in memories.values() if len(one.content.encode()) < SHORT_BYTES}
                known = {number: around[number] for number in short & around.keys()}
        require_all(memories, (hit.id for hit in hits))
        matched = [
            found_memory(
                memories[hit.id],
                score=hit.score,
                match=hit.match,
                similarity=hit.similarity,
                source_type="keyword" if hit.similarity is None else "vector",
                sources=list(hit.sources),
                copies=list(hit.copies),
                **later.get(hit.id, {}),
            )
            for hit in hits
        ]
        matched = with_notes(matched, observations)
        if page.is_part:
            for memory in matched:
                said = said_in(memories[memory.id], memory.content) if folds else None
                memory.saying(said, newer.get(memory.id, ()))
        return Looked(matched, judgement, known, more=more, left_out=left_out, superseded=superseded)

    def _answer(
        self,
        kind: type[A],
        looked: Looked,
        scope: Scope,
        page: Page,
        query: str | None = None,
        *,
        latest_first: bool = True,
    ) -> A:
        """Return the answer with the found memories, and count them as read."""

        def build(budget: ResponseBudget) -> A:
            return kind(
                **self._found_fields(budget, looked, scope, page),
                query=budget.echo(query),
                filters=budget.echo(scope.as_filters()),
                limit=page.limit,
                latest_first=latest_first,
            ).noting(looked.judgement.notes)

        answer = self._budget.for_page(page).fit(build)
        if self._record_access is not None and not page.is_part:
            self._record_access([memory.id for memory in answer.results])
        return answer

    def _found_fields(self, budget: ResponseBudget, looked: Looked, scope: Scope, page: Page) -> dict[str, Any]:
        """Return the fields of an answer, with as many results as fit, or one line for each memory."""
        _, judgement, known, more, left_out, superseded = looked
        found = [one.model_copy(update={"superseded_by": superseded.by.get(one.id, [])}) for one in looked.found]
        if page.detail == LINES:
            lines, answer = listed(budget, found, page, more=more)
            fields = {"lines": lines, "next_offset": answer.next_offset}
        else:
            shared = budget.share(found)
            shown = budget.with_more(shared, beside(shared, known)) if known else shared
            answer = budget.packed(found, shown, page, omitted_memory, more=more)
            fields = answer.fields()
        return fields | {
            "total_results": counted_with_copies(answer.results),
            "confidence": judgement.confidence,
            "weak": left_out,
            "superseded": superseded.number,
            "elsewhere": judgement.elsewhere,
            "message": summary(answer, said_with(judgement.notes, left_out, superseded.number), scope, self._read_with),
        }


def summary(answer: Packed[FoundMemory], notes: Sequence[str], scope: Scope, read_with: str) -> str:
    """Say how much was found, and whether results were cut or left out."""
    kind = scope.kind or "memory"
    noun = NOUNS.get(kind, kind.replace("_", " "))
    said = explain(noun, answer, notes, read_with=read_with)
    return (said + said_of_cut(answer.results, read_with)).strip()
