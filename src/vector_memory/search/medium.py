"""Medium search: the sections whose chunks match best."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from vector_memory.entries import provenance
from vector_memory.packing import Packer, omissions
from vector_memory.results import FoundSection, MediumSearchResult, Omitted
from vector_memory.search.neighbours import NearestNeighbours
from vector_memory.search.ranking import Match
from vector_memory.search.timing import SearchTimer
from vector_memory.search.wording import explain
from vector_memory.storage.chunks import ChunkOutline, outlines
from vector_memory.storage.database import Database
from vector_memory.storage.memories import Memory, get_memories
from vector_memory.values import MAX_LIMIT, Scope, check_range

CHUNKS_PER_SECTION = 5
"""So many chunks are searched for each section asked for (seed 001)."""

SECTION_DEPTH = 2
"""A section is everything under the same first two headings."""

MERGE_RATIO = 0.6
"""From this share of matching chunks on a section counts as matching as a whole."""


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of neighbouring chunks under the same headings; offsets in the document."""

    memory_id: int
    headings: tuple[str, ...]
    chunk_ids: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MatchedSection:
    """A section and the similarities of its chunks that matched."""

    section: Section
    similarities: tuple[float, ...]

    @property
    def similarity(self) -> float:
        """The mean of the chunks that matched."""
        return sum(self.similarities) / len(self.similarities)

    @property
    def match_ratio(self) -> float:
        """The share of the section's chunks that matched."""
        return len(self.similarities) / len(self.section.chunk_ids)


class MediumSearch:
    """Finds sections by meaning (seed 001, MEDIUM)."""

    def __init__(self, database: Database, neighbours: NearestNeighbours, timer: SearchTimer, packer: Packer) -> None:
        self._database = database
        self._neighbours = neighbours
        self._timer = timer
        self._packer = packer

    def search(self, query: str, scope: Scope, limit: int) -> MediumSearchResult:
        """Return the sections nearest to the query, best first."""
        check_range("limit", limit, 1, MAX_LIMIT)
        with self._timer.time(f"search_medium_{scope.kind}"):
            vector = self._neighbours.embed(query)
            with self._database.read() as connection:
                matches = self._neighbours.chunks(connection, vector, scope, limit * CHUNKS_PER_SECTION)
                memory_ids = sorted({match.memory_id for match in matches})
                sections = rank_sections(sections_of(outlines(connection, memory_ids)), matches)[:limit]
                memories = get_memories(connection, sorted({found.section.memory_id for found in sections}))
                problem = self._neighbours.explain_missing(connection, scope, found=bool(matches))
        return self._answer([self._shortened(found_section(found, memories)) for found in sections], problem)

    def _answer(self, found: Sequence[FoundSection], problem: str | None) -> MediumSearchResult:
        results = self._packer.fitting(found)
        omitted = omissions(
            found, results, lambda section: Omitted(id=section.memory_id, characters=len(section.section_content))
        )
        return MediumSearchResult(
            results=results,
            total_results=len(results),
            omitted=omitted,
            message=explain("section", len(results), problem, omitted, read_with="get_memory_by_id"),
        )

    def _shortened(self, section: FoundSection) -> FoundSection:
        text, end = self._packer.cut(section.section_content)
        if end is None:
            return section
        return section.model_copy(update={"section_content": text, "content_end": section.content_start + end})


def sections_of(chunks: Iterable[ChunkOutline]) -> list[Section]:
    """Return the sections of documents, given all their chunks by document and position.

    A preamble before the first heading, or a document without headings, is a section of its own; so is each of two
    stretches under the same headings that something else parts.
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


def rank_sections(sections: Iterable[Section], matches: Iterable[Match]) -> list[MatchedSection]:
    """Return the sections with a match by the mean similarity of their matches; the older first among equals."""
    similarity = {match.id: match.similarity for match in matches}
    found = []
    for section in sections:
        similarities = tuple(similarity[chunk_id] for chunk_id in section.chunk_ids if chunk_id in similarity)
        if similarities:
            found.append(MatchedSection(section, similarities))
    return sorted(found, key=lambda match: (-match.similarity, match.section.memory_id, match.section.start))


def found_section(match: MatchedSection, memories: Mapping[int, Memory]) -> FoundSection:
    """Return a result for a section: its text as it stands in the document, nothing repeated."""
    section, memory = match.section, memories[match.section.memory_id]
    path = " > ".join(section.headings)
    return FoundSection(
        **provenance(memory),
        memory_id=memory.id,
        section_header=path,
        section_content=memory.content[section.start : section.end],
        header_path=path,
        chunks_in_section=len(section.chunk_ids),
        matched_chunks=len(match.similarities),
        match_ratio=match.match_ratio,
        auto_merged=match.match_ratio >= MERGE_RATIO,
        similarity=match.similarity,
        content_start=section.start,
    )
