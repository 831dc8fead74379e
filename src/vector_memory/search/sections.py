"""Groups chunks into sections: runs of neighbouring chunks under the same first headings of a document."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import fsum
from typing import NamedTuple

from vector_memory.domain import MatchLevel, best_of
from vector_memory.results.sessions import Source
from vector_memory.search.rank import Hit
from vector_memory.storage.records import ChunkOutline

SECTION_DEPTH = 2
"""A section is everything under the same first two headings."""


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
