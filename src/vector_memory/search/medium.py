"""Medium search: the sections whose chunks match best."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import fsum
from typing import NamedTuple

from vector_memory.domain import LATEST, MatchLevel, Page, Scope, SearchMode, best_of
from vector_memory.results.budget import ResponseBudget, explain
from vector_memory.results.lean import IS_LEAN, shortened_hits
from vector_memory.results.mapping import counted_with_copies, notes_on, provenance, superseded_in, with_notes
from vector_memory.results.sessions import FoundSection, MediumSearchResult, Omitted, Source
from vector_memory.search.confidence import judged
from vector_memory.search.copies import (
    Said,
    copies_in,
    folded,
    found_for,
    names_of,
    newer_of,
    preferred,
    said_in,
    suspects,
)
from vector_memory.search.fusion import Hit
from vector_memory.search.latency import SearchTimer
from vector_memory.search.later import LaterFields, with_superseding
from vector_memory.search.messages import said_with
from vector_memory.search.relevance import CANDIDATES, on_page
from vector_memory.search.retrieval import Retrieval, reports_among
from vector_memory.search.retriever import Retriever
from vector_memory.storage.damaged import require_all
from vector_memory.storage.records import ChunkOutline, Memory

CHUNKS_PER_SECTION = 5
"""Chunks to search for each requested section."""

SECTION_DEPTH = 2
"""A section is everything under the same first two headings."""

MERGE_RATIO = 0.6
"""A section matches as a whole if at least this share of its chunks match."""


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


class MediumSearch:
    """Finds sections."""

    def __init__(self, retriever: Retriever, timer: SearchTimer, budget: ResponseBudget) -> None:
        self._retriever = retriever
        self._timer = timer
        self._budget = budget

    def search(self, query: str, scope: Scope, page: Page, mode: SearchMode | None) -> MediumSearchResult:
        """Return the sections that match the query best, best first."""
        scope.require_chunks()
        with self._timer.time(f"search_medium_{scope.kind}"):
            question = self._retriever.prepare(query, mode, scope)
            count, folds = max(CANDIDATES, chunks_for(page)), self._retriever.folds(scope, page)
            with self._retriever.judging(question, scope, count, page) as (retrieval, judgement):
                reader = retrieval.reader
                ranked = sections_for(retrieval, scope, judgement.hits, page, folds=folds)
                sections, left_out, more = on_page(ranked, page)
                shown = {match.section.memory_id for match in sections}
                memories, observations, superseded, later, newer = reader.together(
                    reader.memories.steps(sorted(shown)),
                    notes_on.steps(reader, reports_among(scope, sections), scope.as_of),
                    superseded_in.steps(reader, scope, shown),
                    self._retriever.later_of(reader, sorted(shown), scope, page),
                    newer_of.steps(reader, scope, sorted(shown) if page.is_part else [], page),
                )
        notes = said_with(judgement.notes, left_out, superseded.number)
        require_all(memories, shown)
        beside_each = with_superseding(later, superseded.by)
        matched = [found_section(match, memories, beside_each) for match in sections]
        matched = with_notes(matched, observations)
        if page.is_part:
            for section, match in zip(matched, sections, strict=True):
                said = section_said(match.section, memories[match.memory_id]) if folds else None
                section.saying(said, newer.get(match.memory_id, ()))
        if IS_LEAN.get():
            lengths = {memory.id: len(memory.content.rstrip()) for memory in memories.values()}
            matched = shortened_hits(matched, question.terms or (), lengths, page)

        def build(budget: ResponseBudget) -> MediumSearchResult:
            answer = budget.packed(matched, budget.held(matched), page, omitted_section, more=more)
            return MediumSearchResult(
                **answer.fields(),
                total_results=counted_with_copies(answer.results),
                confidence=judgement.confidence,
                weak=left_out,
                superseded=superseded.number,
                elsewhere=judgement.elsewhere,
                message=explain("section", answer, notes, read_with="get_memory_by_id"),
            ).noting(judgement.notes)

        return self._budget.for_page(page).fit(build)


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
    retrieval: Retrieval, scope: Scope, hits: Sequence[Hit], page: Page, *, folds: bool
) -> Sequence[MatchedSection]:
    """Return the sections of the first hits as the results for a page; see `results_of`."""
    reader, count = retrieval.reader, chunks_for(page)

    def find(count: int) -> Sequence[Hit]:
        return judged(retrieval.find(scope, count), retrieval.question)

    def sections(hits: Sequence[Hit]) -> list[MatchedSection]:
        return rank_sections(sections_of(reader.outlines(sorted({hit.memory_id for hit in hits}))), hits)

    def said(run: Sequence[MatchedSection]) -> list[Said | None]:
        origins = retrieval.origins([one.memory_id for one in run])
        alike = suspects(run, lambda one: (*names_of(origins[one.memory_id]), one.section.headings))
        memories = reader.memories(sorted({one.memory_id for one in alike})) if alike else {}
        return [section_said(one.section, memories[one.memory_id]) if one in alike else None for one in run]

    def copies(found: Sequence[MatchedSection]) -> Mapping[int, int]:
        return copies_in(found, len(found), said) if folds else {}

    found, places = found_for(hits[:count], count, page.limit, find, copies, sections)
    return found if page.is_part else preferred(reader, scope, folded(found, places), page)


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
