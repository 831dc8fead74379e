"""Finds near copies among results: texts under one title that a newer one repeats, sentence by sentence.

Vectors do not tell them apart: with another number or a "not", a text has a cosine of .99 to itself, with other marks
of Markdown .96, and with one sentence more .9 (docs/lab/retrieval.md). So the words decide, and nothing else.
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
"""Results are compared with others of the same run of so many: however many are found, a page does not change."""

FEWEST_WORDS = 6
"""What a shorter text says, as "Done." or "yes, do it", depends on what it answers: it is no copy."""

LONGEST = 2
"""A newer text with more than so many times the words of an older one is about more."""

END = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=\s*(?:[-*+#|]|\d+[.)]\s))")
"""The end of a sentence, paragraph, heading, row or item of a list; lines may be broken in another place."""

LONG_WORD = re.compile(r"\w{6,}")
BULLET = re.compile(r"\s*(?:[-*+]|#+)\s+")
EMPHASIS = re.compile(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*")
QUOTES = '`"“”'
ARTICLES = {"a", "an", "the"}


@dataclass(frozen=True)
class Wording:
    """What a text says. `names`: what it is about, its title and headings; `order`: sorts texts as they were stored."""

    memory_id: int
    order: tuple[int, str, int]
    names: tuple[object, ...]
    text: str

    def is_repeated_by(self, newer: "Wording") -> bool:
        """Return whether another memory says all of this, in this order, and not much else."""
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
        """Its long words: nearly all pairs of texts differ in these already."""
        return frozenset(LONG_WORD.findall(self.text))

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Its sentences in their order."""
        return tuple(filter(None, map(_sentence, END.split(EMPHASIS.sub(r"\1", self.text)))))

    @cached_property
    def words(self) -> int:
        """How many words it has."""
        return len(self.text.split())


def said_in(source: Origin, text: str, headings: Iterable[str] = ()) -> Wording | None:
    """Return what a part of a memory says, or with all its text the memory; None if it is too long."""
    names, order = (*names_of(source), *map(_sentence, headings)), (source.turn, source.created_at, source.id)
    return None if len(text) > MOST_CHARACTERS else Wording(source.id, order, names, text)


def names_of(source: Origin) -> tuple[object, ...]:
    """Return what a memory is about, besides its text."""
    report = source.metadata.get("parent_report_id") if isinstance(source, Memory) else None
    return source.memory_type, source.task_code, _sentence(source.title or ""), report


def _sentence(text: str) -> str:
    """Return a sentence without marks, articles and the punctuation between its words."""
    words = (word.lstrip(QUOTES).rstrip(f"{QUOTES}.,;:") for word in BULLET.sub("", text, count=1).split())
    return " ".join(word for word in words if word and word.lower() not in ARTICLES)


def repeats(newer: Memory, older: Memory) -> bool:
    """Return whether a memory says all that an older one says, and not much else."""
    said, before = (said_in(one, one.content) for one in (newer, older))
    return said is not None and before is not None and before.is_repeated_by(said)


def copies_among(said: Sequence[Wording | None]) -> dict[int, int]:
    """Return for each place whose text a newer one says, too, the place of that one. None: a text that none repeats."""
    newest_first = sorted(
        ((place, one) for place, one in enumerate(said) if one), key=lambda each: each[1].order, reverse=True
    )
    leading: list[tuple[int, Wording]] = []
    copies = {}
    for place, one in newest_first:
        newer = [number for number, other in leading if one.is_repeated_by(other)]
        if newer:
            copies[place] = newer[0]
        else:
            leading.append((place, one))
    return copies


def whole_runs(count: int) -> int:
    """Return how many results make whole runs with at least `count`."""
    return -(-count // RUN) * RUN


def copies_in(
    found: Sequence[J], needed: int, said: Callable[[Sequence[J]], Sequence[Wording | None]]
) -> dict[int, int]:
    """Return the places of copies, and those of the results that say the same, as far as so many results need it."""
    copies: dict[int, int] = {}
    for start in range(0, len(found), RUN):
        if start - len(copies) >= needed:
            break
        among = copies_among(said(found[start : start + RUN]))
        copies |= {start + place: start + newer for place, newer in among.items()}
    return copies


def folded(found: Sequence[J], copies: Mapping[int, int]) -> list[J]:
    """Return results with each in the place of the first of its copies, over them."""
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
    """Return the results that a result of another memory may repeat. `names`: what one is about."""
    known = [(one.memory_id, names(one)) for one in found]
    memories = Counter(about for _, about in set(known))
    return [one for one, (_, about) in zip(found, known, strict=True) if memories[about] > 1]


@read
def origins_of(reader: Reader, memory_ids: Iterable[int], known: Mapping[int, Origin]) -> Steps[Mapping[int, Origin]]:
    """Return where memories come from; of some this is `known`."""
    missing = sorted({number for number in memory_ids if number not in known})
    found = {**known, **(yield from reader.memories.origins.steps(missing))} if missing else known
    require_all(found, missing)
    return found


def needed_for(page: Page) -> int:
    """Return how many results a page needs: one more tells that others follow, and of the first the latest leads."""
    return max(page.end + (not page.is_part), RUN if page.prefer == LATEST else 0)


@read
def newer_of(reader: Reader, scope: Scope, memory_ids: Sequence[int], page: Page) -> Steps[Mapping[int, Sequence[int]]]:
    """Return the ids of the memories that are newer than some and on their subjects, the newest first.

    None, if the page does not prefer the latest.
    """
    if page.prefer != LATEST:
        return {}
    within = Scope(session_id=scope.session_id, as_of=scope.as_of)
    found = yield from newer_memories.steps(reader, list(dict.fromkeys(memory_ids)), within, 0)
    return {number: [one.id for one in newer] for number, newer in found.items()}


# Groups chunks into sections: runs of neighbouring chunks under the same first headings of a document.


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
