"""Answers searches in three grains: chunks (fine), sections (medium), whole memories (coarse).

Each goes the same way: question, ranking, judgement, results, answer. A grain says how the units that were found are
grouped into results, and what is read beside them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import fsum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from vector_memory.domain import LATEST, LINES, MatchLevel, MemoryKind, Page, Scope, SearchMode, SearchOrder, best_of
from vector_memory.errors import ValidationError
from vector_memory.results.budget import Packed, ResponseBudget, explain, listed, omitted_memory
from vector_memory.results.lean import IS_LEAN, shortened_hits
from vector_memory.results.mapping import (
    READ_WITH,
    Superseded,
    counted_with_copies,
    found_memory,
    notes_on,
    observations_on,
    provenance,
    said_of_cut,
    superseded_in,
    with_notes,
)
from vector_memory.results.sessions import (
    CoarseSearchResult,
    FineSearchResult,
    FoundChunk,
    FoundMemory,
    FoundSection,
    MediumSearchResult,
    Omitted,
    SearchMemoriesResult,
    SearchResult,
    Source,
)
from vector_memory.search.beside import SHORT_BYTES, SHORT_TOKENS, LaterFields, beside, neighbours_of, with_superseding
from vector_memory.search.copies import (
    Said,
    copies_in,
    folded,
    found_for,
    names_of,
    needed_for,
    newer_of,
    origins_of,
    preferred,
    results_of,
    said_in,
    suspects,
    whole_runs,
)
from vector_memory.search.judge import CANDIDATES, J, Judgement, judged, judging, nothing_stored, on_page
from vector_memory.search.latency import SearchTimer
from vector_memory.search.messages import said_with
from vector_memory.search.rank import Hit
from vector_memory.search.retrieval import Retrieval, Retriever
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.damaged import require_all
from vector_memory.storage.records import (
    ChunkOutline,
    ListPosition,
    Memory,
    Neighbours,
    Order,
    Origin,
    StoredChunk,
    cursor_after,
    listing_of,
)

CHUNKS_PER_SECTION = 5
"""Chunks to search for each requested section."""

SECTION_DEPTH = 2
"""A section is everything under the same first two headings."""

MERGE_RATIO = 0.6
"""A section matches as a whole if at least this share of its chunks match."""

NOT_COMPARED = "The newest first, not compared with the query: omit order for the best match."

NO_LIST = "cursor is for lists of the newest: with a query, send next_offset as offset."

NOUNS: dict[str, str] = {MemoryKind.TAGGED: "tagged note", MemoryKind.KNOWLEDGE_BASE: "knowledge base entry"}
"""Names of kinds in results that differ from the kind's own name."""

A = TypeVar("A", bound=SearchMemoriesResult)
H = TypeVar("H", FineSearchResult, MediumSearchResult)


class Looked(NamedTuple):
    """What was found for a page, and what is to be said of it.

    `more`: further results follow. `left_out`: how many weak ones the page does not show. `cursors`: of a list, those
    after each of `found`.
    """

    found: Sequence[Any]
    judgement: Judgement
    neighbours: Mapping[int, Neighbours] = MappingProxyType({})
    more: bool = False
    left_out: int = 0
    superseded: Superseded = Superseded()
    cursors: Sequence[str] = ()


class Search:
    """Searches of one memory. `record_access` counts whole memories as read.

    `read_with`: the tool that reads on what an answer with whole memories cuts.
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
        self.retriever = retriever
        self._timer = timer
        self._budget = budget
        self._record_access = record_access
        self._read_with = read_with

    def chunks(
        self, query: str, scope: Scope, page: Page, mode: SearchMode | None, neighbours: int
    ) -> FineSearchResult:
        """Return the chunks that match the query best, best first, short ones with their neighbours."""
        scope.require_chunks()
        with self._timer.time(f"search_fine_{scope.kind}"):
            question, folds = self.retriever.prepare(query, mode, scope), self.retriever.folds(scope, page)
            with judging(self.retriever, question, scope, whole_runs(needed_for(page)), page) as (retrieval, judgement):
                hits, left_out, more = on_page(results_of(retrieval, judgement, page, folds=folds), page)
                reader, ids = retrieval.reader, [hit.memory_id for hit in hits]
                chunks, sources, observations, around, superseded, later, newer = reader.together(
                    reader.chunks.steps([hit.id for hit in hits]),
                    reader.memories.steps(ids) if IS_LEAN.get() else origins_of.steps(reader, ids, judgement.origins),
                    notes_on.steps(reader, reports_among(scope, hits), scope.as_of),
                    neighbours_of(reader, scope, ids, neighbours),
                    superseded_in.steps(reader, scope, ids),
                    self.retriever.later_of(reader, ids, scope, page),
                    newer_of.steps(reader, scope, ids if page.is_part else [], page),
                )
        require_all(sources, ids)
        around = {
            one.memory_id: around[one.memory_id]
            for one in chunks.values()
            if one.chunk.token_count < SHORT_TOKENS and one.memory_id in around
        }
        fields = with_superseding(later, superseded.by)
        found = [found_chunk(hit, chunks[hit.id], sources[hit.memory_id], fields) for hit in hits]
        if page.is_part:
            for chunk in found:
                stored = chunks[chunk.chunk_id].chunk
                said = said_in(sources[chunk.memory_id], stored.text, stored.headings) if folds else None
                chunk.saying(said, newer.get(chunk.memory_id, ()))
        if IS_LEAN.get():
            lengths = {number: len(source.content.rstrip()) for number, source in sources.items()}
            found = shortened_hits(found, retrieval.question.terms or (), lengths, page)
        looked = Looked(with_notes(found, observations), judgement, around, more, left_out, superseded)
        return self._with_hits(FineSearchResult, looked, page)

    def sections(self, query: str, scope: Scope, page: Page, mode: SearchMode | None) -> MediumSearchResult:
        """Return the sections that match the query best, best first."""
        scope.require_chunks()
        with self._timer.time(f"search_medium_{scope.kind}"):
            question, folds = self.retriever.prepare(query, mode, scope), self.retriever.folds(scope, page)
            count = max(CANDIDATES, chunks_for(page))
            with judging(self.retriever, question, scope, count, page) as (retrieval, judgement):
                sections, left_out, more = on_page(
                    sections_for(retrieval, judgement.hits, page, judgement.origins, folds=folds), page
                )
                reader, ids = retrieval.reader, sorted({match.memory_id for match in sections})
                memories, observations, superseded, later, newer = reader.together(
                    reader.memories.steps(ids),
                    notes_on.steps(reader, reports_among(scope, sections), scope.as_of),
                    superseded_in.steps(reader, scope, ids),
                    self.retriever.later_of(reader, ids, scope, page),
                    newer_of.steps(reader, scope, ids if page.is_part else [], page),
                )
        require_all(memories, ids)
        fields = with_superseding(later, superseded.by)
        found = [found_section(match, memories, fields) for match in sections]
        if page.is_part:
            for section, match in zip(found, sections, strict=True):
                said = section_said(match.section, memories[match.memory_id]) if folds else None
                section.saying(said, newer.get(match.memory_id, ()))
        if IS_LEAN.get():
            lengths = {memory.id: len(memory.content.rstrip()) for memory in memories.values()}
            found = shortened_hits(found, question.terms or (), lengths, page)
        looked = Looked(with_notes(found, observations), judgement, {}, more, left_out, superseded)
        return self._with_hits(MediumSearchResult, looked, page)

    def _with_hits(self, kind: type[H], looked: "Looked", page: Page) -> H:
        """Return an answer with chunks or sections."""
        found, judgement, around, more, left_out, superseded, _ = looked
        noun, read_with, omitted = HITS[kind]
        notes = said_with(judgement.notes, left_out, superseded.number)

        def build(budget: ResponseBudget) -> H:
            held: list[Any] = budget.held(found)
            shown = budget.with_more(held, beside(held, around, is_part=page.is_part)) if around else held
            answer = budget.packed(found, shown, page, omitted, more=more)
            return kind(
                **answer.fields(),
                total_results=counted_with_copies(answer.results),
                confidence=judgement.confidence,
                weak=left_out,
                superseded=superseded.number,
                elsewhere=judgement.elsewhere,
                message=explain(noun, answer, notes, read_with=read_with),
            ).noting(judgement.notes)

        return self._budget.for_page(page).fit(build)

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
        order: Order = "newest" if latest_first else "oldest"
        listing = listing_of(scope, order)
        with self._timer.time(f"search_coarse_{scope.kind}"), self._storage.read() as reader:
            after = None if page.cursor is None else position_of(reader, page.cursor, listing)
            memories = reader.list_memories(scope, page.limit + 1, page.offset, order=order, after=after)
            observations = observations_on(reader, memories, scope.as_of)
            superseded = superseded_in(reader, scope, [memory.id for memory in memories])
            shown = [memory.id for memory in memories[: page.limit]]
            later = reader.run(self.retriever.later_of(reader, shown, scope, page))
            notes = [nothing_stored(reader, scope)] if not memories and not (page.offset or after) else []
        found = [found_memory(memory, **later.get(memory.id, {})) for memory in memories[: page.limit]]
        said = Judgement(notes=(*notes, *filter(None, [note])))
        listed, more = with_notes(found, observations), len(memories) > page.limit
        cursors = [cursor_after(memory, listing) for memory in memories]
        return Looked(listed, said, more=more, superseded=superseded, cursors=cursors)

    def _best(self, query: str, scope: Scope, page: Page, mode: SearchMode | None, neighbours: int = 0) -> Looked:
        if page.cursor is not None:
            raise ValidationError(NO_LIST)
        with self._timer.time(f"search_coarse_{scope.kind}"):
            question = self.retriever.prepare(query, mode, scope)
            count, folds = whole_runs(needed_for(page)), self.retriever.folds(scope, page)
            with judging(self.retriever, question, scope, count, page, memories=True) as (retrieval, judgement):
                results = results_of(retrieval, judgement, page, folds=folds, memories=True)
                hits, left_out, more = on_page(results, page)
                numbers = [hit.memory_id for hit in hits]
                reader = retrieval.reader
                memories, observations, around, superseded, later, newer = reader.together(
                    reader.memories.steps(numbers),
                    notes_on.steps(reader, reports_among(scope, hits), scope.as_of),
                    neighbours_of(reader, scope, numbers, neighbours),
                    superseded_in.steps(reader, scope, numbers),
                    self.retriever.later_of(reader, numbers, scope, page),
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
        _, judgement, known, more, left_out, superseded, cursors = looked
        found = [one.model_copy(update={"superseded_by": superseded.by.get(one.id, [])}) for one in looked.found]
        if page.detail == LINES:
            lines, answer = listed(budget, found, page, more=more)
            answer = answer.listed(cursors, page)
            fields = {"lines": lines, "next_offset": answer.next_offset}
        else:
            shared = budget.share(found)
            shown = budget.with_more(shared, beside(shared, known)) if known else shared
            answer = budget.packed(found, shown, page, omitted_memory, more=more).listed(cursors, page)
            fields = answer.fields()
        return fields | {
            "next_cursor": answer.next_cursor,
            "total_results": counted_with_copies(answer.results),
            "confidence": judgement.confidence,
            "weak": left_out,
            "superseded": superseded.number,
            "elsewhere": judgement.elsewhere,
            "message": summary(answer, said_with(judgement.notes, left_out, superseded.number), scope, self._read_with),
        }


def position_of(reader: Reader, cursor: str, listing: str) -> ListPosition:
    """Return where the list goes on. Raises ValidationError."""
    position = ListPosition.parse(cursor, listing)
    if position.turn is not None:
        return position
    found = reader.origins([position.id]).get(position.id)
    if found is None:
        raise ValidationError("The memory after which this list goes on is gone: begin the list again, without cursor.")
    return position._replace(turn=found.turn)


def summary(answer: Packed[FoundMemory], notes: Sequence[str], scope: Scope, read_with: str) -> str:
    """Say how much was found, and whether results were cut or left out."""
    kind = scope.kind or "memory"
    noun = NOUNS.get(kind, kind.replace("_", " "))
    said = explain(noun, answer, notes, read_with=read_with)
    return (said + said_of_cut(answer.results, read_with)).strip()


def found_chunk(hit: Hit, stored: StoredChunk, source: Memory | Origin, beside: LaterFields) -> FoundChunk:
    """Return a result for a chunk."""
    chunk = stored.chunk
    return FoundChunk(
        **provenance(source),
        chunk_id=stored.id,
        memory_id=stored.memory_id,
        chunk_index=chunk.index,
        chunk_content=chunk.text,
        content_start=chunk.start,
        chunk_type=chunk.kind,
        header_path=chunk.header_path,
        level=chunk.level,
        score=hit.score,
        match=hit.match,
        similarity=hit.similarity,
        sources=list(hit.sources),
        copies=list(hit.copies),
        **beside.get(hit.memory_id, {}),
    )


def omitted_chunk(chunk: FoundChunk) -> Omitted:
    """Return the entry for a chunk that was left out."""
    return Omitted(id=chunk.chunk_id, characters=len(chunk.chunk_content))


# Sections.


class Section(NamedTuple):
    """A run of neighbouring chunks under the same headings. `start` and `end` are offsets in the document."""

    memory_id: int
    headings: tuple[str, ...]
    chunk_ids: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class MatchedSection:
    """A section and the chunks in it that matched. `under`: sections of other memories that it repeats."""

    section: Section
    hits: tuple[Hit, ...]
    under: tuple["MatchedSection", ...] = ()

    def over(self, copies: Iterable["MatchedSection"]) -> "MatchedSection":
        """Return the section in place of sections that it repeats, as good as the best of them."""
        return replace(self, under=tuple(copies))

    def leading(self) -> "MatchedSection":
        """Return the section as it stands before an older one on its subject: it is not weak."""
        return replace(self, hits=tuple(hit.leading() for hit in self.hits))

    @property
    def score(self) -> float:
        """The mean score of the chunks that matched, or the best one of those that it repeats."""
        return max(fsum(hit.score for hit in one.hits) / len(one.hits) for one in (self, *self.under))

    @property
    def similarity(self) -> float | None:
        """The mean cosine of the chunks that matched; None if none was compared."""
        known = [hit.similarity for hit in self.hits if hit.similarity is not None]
        return fsum(known) / len(known) if known else None

    @property
    def sources(self) -> list[Source]:
        """The lists that contain the matching chunks."""
        return sorted({source for hit in self.hits for source in hit.sources}, reverse=True)

    @cached_property
    def match(self) -> MatchLevel | None:
        """How well the best of the chunks matches."""
        return best_of([hit.match for one in (self, *self.under) for hit in one.hits])

    @property
    def memory_id(self) -> int:
        """The memory that the section is a part of."""
        return self.section.memory_id

    @property
    def copies(self) -> list[int]:
        """The memories that it repeats."""
        return sorted({one.memory_id for one in self.under})

    @property
    def match_ratio(self) -> float:
        """The share of the section's chunks that matched."""
        return len(self.hits) / len(self.section.chunk_ids)


def omitted_section(section: FoundSection) -> Omitted:
    """Return the entry for a section that was left out."""
    return Omitted(id=section.memory_id, characters=len(section.section_content))


def sections_of(chunks: Iterable[ChunkOutline]) -> list[Section]:
    """Return the sections of documents, given all their chunks sorted by document and position.

    Text before the first heading is a separate section, and so is a document without headings. If other chunks
    separate two runs under the same headings, each run is a section.
    """
    sections = []
    for (memory_id, headings), group in groupby(
        chunks, lambda chunk: (chunk.memory_id, chunk.headings[:SECTION_DEPTH])
    ):
        members = list(group)
        ids = tuple(chunk.id for chunk in members)
        end = max(chunk.end for chunk in members)
        sections.append(Section(memory_id, headings, ids, members[0].start, end))
    return sections


def chunks_for(page: Page) -> int:
    """Return how many chunks make the sections of a page: its number does not matter, or their order would change."""
    return max(page.limit * CHUNKS_PER_SECTION, CANDIDATES if page.prefer == LATEST else 0)


def sections_for(
    retrieval: Retrieval, hits: Sequence[Hit], page: Page, origins: Mapping[int, Origin], *, folds: bool
) -> Sequence[MatchedSection]:
    """Return the sections of the first hits as the results for a page; see `results_of`."""
    reader, count = retrieval.reader, chunks_for(page)

    def find(count: int) -> Sequence[Hit]:
        return judged(retrieval.find(count), retrieval.question)

    def sections(hits: Sequence[Hit]) -> list[MatchedSection]:
        return rank_sections(sections_of(reader.outlines(sorted({hit.memory_id for hit in hits}))), hits)

    def said(run: Sequence[MatchedSection]) -> list[Said | None]:
        known = origins_of(reader, [one.memory_id for one in run], origins)
        alike = suspects(run, lambda one: (*names_of(known[one.memory_id]), one.section.headings))
        memories = reader.memories(sorted({one.memory_id for one in alike})) if alike else {}
        return [section_said(one.section, memories[one.memory_id]) if one in alike else None for one in run]

    def copies(found: Sequence[MatchedSection]) -> Mapping[int, int]:
        return copies_in(found, len(found), said) if folds else {}

    found, places = found_for(hits[:count], count, page.limit, find, copies, sections)
    return found if page.is_part else preferred(reader, retrieval.scope, folded(found, places), page)


def section_said(section: Section, memory: Memory) -> Said | None:
    """Return what a section says; None if it is too long."""
    return said_in(memory, memory.content[section.start : section.end], section.headings)


def rank_sections(sections: Iterable[Section], hits: Iterable[Hit]) -> list[MatchedSection]:
    """Return the sections with a match, weak ones last, by the mean score of their matches; ties: older ones first."""
    by_chunk = {hit.id: hit for hit in hits}
    found = [
        MatchedSection(section, tuple(by_chunk[number] for number in section.chunk_ids if number in by_chunk))
        for section in sections
        if not by_chunk.keys().isdisjoint(section.chunk_ids)
    ]
    return sorted(
        found,
        key=lambda match: (
            match.match == "weak",
            -round(match.score, 6),
            match.section.memory_id,
            match.section.start,
        ),
    )


def found_section(match: MatchedSection, memories: Mapping[int, Memory], beside: LaterFields) -> FoundSection:
    """Return a result for a section, with its text as in the document, without the overlaps of its chunks."""
    section, memory = match.section, memories[match.section.memory_id]
    path = " > ".join(section.headings)
    return FoundSection(
        **provenance(memory),
        memory_id=memory.id,
        section_header=path,
        section_content=memory.content[section.start : section.end],
        header_path=path,
        chunks_in_section=len(section.chunk_ids),
        matched_chunks=len(match.hits),
        match_ratio=match.match_ratio,
        auto_merged=match.match_ratio >= MERGE_RATIO,
        score=match.score,
        match=match.match,
        similarity=match.similarity,
        sources=match.sources,
        copies=match.copies,
        content_start=section.start,
        **beside.get(memory.id, {}),
    )


HITS: dict[type[SearchResult], tuple[str, str, Callable[[Any], Omitted]]] = {
    FineSearchResult: ("chunk", "expand_chunk_context", omitted_chunk),
    MediumSearchResult: ("section", READ_WITH, omitted_section),
}
"""Names for the hits of an answer, the tool that reads one, and how one is listed that was left out."""


def reports_among(scope: Scope, hits: Sequence[J]) -> set[int]:
    """Return the ids of the reports of a scope that match well, or of all if that was not judged."""
    is_wanted = scope.kind is MemoryKind.REPORT
    return {hit.memory_id for hit in hits if is_wanted and hit.match in (None, "strong")}
