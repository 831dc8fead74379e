"""Finds near copies among results: texts under one title that a newer text repeats, sentence by sentence.

Vectors do not tell them apart: a changed number or an added "not" leaves a cosine of .99, other Markdown marks .96, one
more sentence .9 (docs/lab/retrieval.md). So only the words decide.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import fsum
from typing import NamedTuple

from vector_memory.answers.models import Source
from vector_memory.domain import LATEST, MatchLevel, Page, Scope, best_of
from vector_memory.search.judge import CANDIDATES, J
from vector_memory.search.later import newer_memories
from vector_memory.search.rank import Hit
from vector_memory.search.retrieval import MOST_CHARACTERS
from vector_memory.storage.base import Reader
from vector_memory.storage.connection import Steps, read
from vector_memory.storage.damaged import require_all
from vector_memory.storage.records import ChunkOutline, Memory, Origin

RUN = CANDIDATES
"""Results are compared within runs of this length, so a page does not depend on how many results are found."""

FEWEST_WORDS = 6
"""The meaning of a shorter text, such as "Done." or "yes, do it", depends on its context: it is never a copy."""

LONGEST = 2
"""A newer text with more than this many times the words of an older one says more."""

END = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=\s*(?:[-*+#|]|\d+[.)]\s))")
"""The end of a sentence, paragraph, heading, table row or list item, but not of a line."""

LONG_WORD = re.compile(r"\w{6,}")
BULLET = re.compile(r"\s*(?:[-*+]|#+)\s+")
EMPHASIS = re.compile(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*")
QUOTES = '`"“”'
ARTICLES = {"a", "an", "the"}


@dataclass(frozen=True)
class Wording:
    """A text to compare. `names`: its subject, title and headings; `order`: sorts texts in the order of storing.

    `trust`: a text that is trusted less stands for no other.
    """

    memory_id: int
    order: tuple[int, str, int]
    names: tuple[object, ...]
    text: str
    trust: int = 0

    def is_repeated_by(self, newer: "Wording") -> bool:
        """Whether another memory says all of this in the same order, and little else."""
        if self.memory_id == newer.memory_id or self.names != newer.names:
            return False
        if self.words < FEWEST_WORDS or newer.words > LONGEST * self.words:
            return False
        if self.text == newer.text:
            return True
        if not self.long_words <= newer.long_words:
            return False
        following = iter(newer.sentences)
        return all(sentence in following for sentence in self.sentences)

    @cached_property
    def long_words(self) -> frozenset[str]:
        """Long words. Nearly all pairs of texts already differ in these."""
        return frozenset(LONG_WORD.findall(self.text))

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Normalized sentences, in order."""
        return tuple(filter(None, map(_sentence, END.split(EMPHASIS.sub(r"\1", self.text)))))

    @cached_property
    def words(self) -> int:
        """Number of words."""
        return len(self.text.split())


def wording_of(source: Origin, text: str, headings: Iterable[str] = ()) -> Wording | None:
    """Return the wording of a memory or a part of one; None if it is too long."""
    names, order = (*names_of(source), *map(_sentence, headings)), (source.turn, source.created_at, source.id)
    return None if len(text) > MOST_CHARACTERS else Wording(source.id, order, names, text, source.trust)


def names_of(source: Origin) -> tuple[object, ...]:
    """Return what a memory is about, besides its text."""
    report = source.metadata.get("parent_report_id") if isinstance(source, Memory) else None
    return source.memory_type, source.task_code, _sentence(source.title or ""), report


def _sentence(text: str) -> str:
    """Normalize a sentence: remove marks, articles and punctuation between words."""
    words = (word.lstrip(QUOTES).rstrip(f"{QUOTES}.,;:") for word in BULLET.sub("", text, count=1).split())
    return " ".join(word for word in words if word and word.lower() not in ARTICLES)


def repeats(newer: Memory, older: Memory) -> bool:
    """Whether a memory says all that an older one says, and little else."""
    said, before = (wording_of(one, one.content) for one in (newer, older))
    return said is not None and before is not None and before.is_repeated_by(said)


def copies_among(said: Sequence[Wording | None]) -> dict[int, int]:
    """Map each older copy to the newer text that repeats it, by places. None: a text that is not compared."""
    newest_first = sorted(
        ((place, one) for place, one in enumerate(said) if one), key=lambda each: each[1].order, reverse=True
    )
    leading: list[tuple[int, Wording]] = []
    copies = {}
    for place, one in newest_first:
        newer = [at for at, other in leading if other.trust >= min(one.trust, 0) and one.is_repeated_by(other)]
        if newer:
            copies[place] = newer[0]
        else:
            leading.append((place, one))
    return copies


def whole_runs(count: int) -> int:
    """Round a number of results up to whole runs."""
    return -(-count // RUN) * RUN


def copies_in(
    found: Sequence[J], needed: int, said: Callable[[Sequence[J]], Sequence[Wording | None]]
) -> dict[int, int]:
    """Map the places of copies to those of the results that repeat them, in the runs that `needed` results take."""
    copies: dict[int, int] = {}
    for start in range(0, len(found), RUN):
        if start - len(copies) >= needed:
            break
        among = copies_among(said(found[start : start + RUN]))
        copies |= {start + place: start + newer for place, newer in among.items()}
    return copies


def without_copies(found: Sequence[J], copies: Mapping[int, int]) -> list[J]:
    """Merge copies into the results that repeat them, each at the place of its first copy."""
    under: dict[int, list[int]] = {}
    for place, newer in copies.items():
        under.setdefault(newer, []).append(place)
    first = {
        min(newer, *places): found[newer].over([found[place] for place in places]) for newer, places in under.items()
    }
    return [
        first.get(place, one)
        for place, one in enumerate(found)
        if place in first or (place not in copies and place not in under)
    ]


def suspects(found: Sequence[J], names: Callable[[J], tuple[object, ...]]) -> list[J]:
    """Return the results that share their names with a result of another memory."""
    known = [(one.memory_id, names(one)) for one in found]
    memories = Counter(about for _, about in set(known))
    return [one for one, (_, about) in zip(found, known, strict=True) if memories[about] > 1]


@read
def origins_of(reader: Reader, memory_ids: Iterable[int], known: Mapping[int, Origin]) -> Steps[Mapping[int, Origin]]:
    """Read the origins of memories that are not yet `known`."""
    missing = sorted({number for number in memory_ids if number not in known})
    found = {**known, **(yield from reader.memories.origins.steps(missing))} if missing else known
    require_all(found, missing)
    return found


def results_needed(page: Page) -> int:
    """Results to fetch: the page, plus one to know whether more follow; a whole run if the latest comes first."""
    return max(page.end + (not page.is_part), RUN if page.prefer == LATEST else 0)


@read
def newer_of(reader: Reader, scope: Scope, memory_ids: Sequence[int], page: Page) -> Steps[Mapping[int, Sequence[int]]]:
    """Return the ids of the newer memories on the subjects of memories, newest first.

    Empty unless the page prefers the latest.
    """
    if page.prefer != LATEST:
        return {}
    within = Scope(session_id=scope.session_id, as_of=scope.as_of)
    found = yield from newer_memories.steps(reader, list(dict.fromkeys(memory_ids)), within, 0)
    return {number: [one.id for one in newer] for number, newer in found.items()}


# Sections: runs of neighbouring chunks under the same first headings of a document.


SECTION_DEPTH = 2
"""A section is everything under the same first two headings."""


class MemorySection(NamedTuple):
    """A run of neighbouring chunks under the same headings. `start` and `end` are offsets in the document."""

    memory_id: int
    headings: tuple[str, ...]
    chunk_ids: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class MatchedSection:
    """A section and the chunks in it that matched. `under`: sections of other memories that it repeats."""

    section: MemorySection
    hits: tuple[Hit, ...]
    under: tuple["MatchedSection", ...] = ()

    def over(self, copies: Iterable["MatchedSection"]) -> "MatchedSection":
        """Merge copies into this section; keep the best score."""
        return replace(self, under=tuple(copies))

    def leading(self) -> "MatchedSection":
        """Return the section for its place before an older one on its subject: not weak."""
        return replace(self, hits=tuple(hit.leading() for hit in self.hits))

    @property
    def score(self) -> float:
        """The mean score of the matching chunks; the best one if the section has copies."""
        return max(fsum(hit.score for hit in one.hits) / len(one.hits) for one in (self, *self.under))

    @property
    def similarity(self) -> float | None:
        """The mean cosine of the matching chunks; None if none was compared."""
        known = [hit.similarity for hit in self.hits if hit.similarity is not None]
        return fsum(known) / len(known) if known else None

    @property
    def sources(self) -> list[Source]:
        """The lists that contain the matching chunks."""
        return sorted({source for hit in self.hits for source in hit.sources}, reverse=True)

    @cached_property
    def match(self) -> MatchLevel | None:
        """The match level of the best chunk."""
        return best_of([hit.match for one in (self, *self.under) for hit in one.hits])

    @property
    def memory_id(self) -> int:
        """The id of the section's memory."""
        return self.section.memory_id

    @property
    def copies(self) -> list[int]:
        """The ids of the memories it repeats."""
        return sorted({one.memory_id for one in self.under})

    @property
    def match_ratio(self) -> float:
        """The share of the section's chunks that matched."""
        return len(self.hits) / len(self.section.chunk_ids)


def sections_of(chunks: Iterable[ChunkOutline]) -> list[MemorySection]:
    """Return the sections of documents, given all their chunks sorted by document and position.

    Text before the first heading is a section, and so is a document without headings. Two separate runs under the same
    headings are two sections.
    """
    sections = []
    for (memory_id, headings), group in groupby(
        chunks, lambda chunk: (chunk.memory_id, chunk.headings[:SECTION_DEPTH])
    ):
        members = list(group)
        ids = tuple(chunk.id for chunk in members)
        end = max(chunk.end for chunk in members)
        sections.append(MemorySection(memory_id, headings, ids, members[0].start, end))
    return sections


def rank_sections(sections: Iterable[MemorySection], hits: Iterable[Hit]) -> list[MatchedSection]:
    """Rank the sections that have matches by their mean score, weak ones last; ties: older ones first."""
    by_chunk = {hit.id: hit for hit in hits}
    found = [
        MatchedSection(section, tuple(by_chunk[number] for number in section.chunk_ids if number in by_chunk))
        for section in sections
        if not by_chunk.keys().isdisjoint(section.chunk_ids)
    ]
    return sorted(
        found,
        key=lambda match: (match.match == "weak", -round(match.score, 6), match.section.memory_id, match.section.start),
    )
