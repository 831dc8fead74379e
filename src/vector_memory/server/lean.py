"""The lean form of answers: what a model reads, and nothing else.

It is made of a full result, whatever its model: some of its fields, a few of them under shorter names. A memory has the
same keys whatever was asked; only what is null or empty is left out.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, takewhile
from math import log
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from vector_memory.answers import models
from vector_memory.answers.documents import DocumentResult, ExpandedChunkResult
from vector_memory.answers.forms import Form
from vector_memory.answers.overview import SessionEntry
from vector_memory.answers.tagged import FoundText, StoreTaggedResult, TaggedMemory
from vector_memory.domain import LINES, Page, Span
from vector_memory.texts.terms import terms

SPARED = 80
"""A text is not cut to save fewer characters than this."""

PIECE = re.compile(
    r"[^\n]{0,300}?(?:\n\s*|(?<=[.!?])\s+|\Z)"  # a line or a sentence, with the white space after it
    r"|[^\n]{1,300}\s|[^\n]{1,300}"  # a part of a longer one
)


def excerpt(text: str, wanted: Collection[str], length: int) -> Span:
    """Return the part of a text, of at most about `length` characters, that has most of the wanted terms.

    A term counts more the fewer lines and sentences have it. Of several parts with the same terms, the middle one is
    chosen, for context on both sides; without any term, the beginning.
    """
    pieces = [found for found in PIECE.finditer(text) if found[0]] if len(text) > length + SPARED else []
    if not pieces:
        return Span(0, len(text))
    windows = windows_of([len(piece[0]) for piece in pieces], length)
    weights = weights_of([set(wanted).intersection(terms(piece[0])) for piece in pieces], windows)
    most = max(weights)
    best = [window for window, weight in zip(windows, weights, strict=True) if weight == most]
    start, end = best[len(best) // 2 if most else 0]
    while end - 1 > start and pieces[end - 1][0].startswith("#"):  # a heading says nothing without what is below it
        end -= 1
    return Span(pieces[start].start(), pieces[end - 1].end())


def windows_of(lengths: Sequence[int], room: int) -> list[Span]:
    """Return the runs of pieces that fit, one from each piece on; a run has at least one piece."""
    ends = [0, *accumulate(lengths)]
    windows = []
    for start in range(len(lengths)):
        end = start + 1
        while end < len(lengths) and ends[end + 1] - ends[start] <= room:
            end += 1
        windows.append(Span(start, end))
        if end == len(lengths):
            break
    return windows


def weights_of(found: Sequence[Collection[str]], windows: Sequence[Span]) -> list[float]:
    """Return the weight of the terms in each run of pieces, given those of each piece."""
    count = Counter(term for held in found for term in held)
    weight = {term: log(1 + len(found) / pieces) for term, pieces in count.items()}
    held = ({term for each in found[start:end] for term in each} for start, end in windows)
    return [sum(weight[term] for term in sorted(each)) for each in held]


FIRST, LEAST, SHARE = 2_000, 300, 0.7
"""Characters shown of the first hit, the minimum of any hit, and the share of it that the next one gets.

Measured: ten hits of equal length contain the answer less often than all of the first and little of the last.
"""

FOR_TOKENS = 2_000
"""The `max_tokens` for which FIRST is meant; of more or fewer, hits show more or less, the first never less than
LEAST_FIRST."""

LEAST_FIRST = 750

RELATED, RELATED_SHARE = 160, 0.3
"""The minimum of a merely related hit, and its share of what a strong one gets in an answer with `max_tokens`."""

CUT = "…"
"""Marks cuts in the content of a hit: at its ends, and between its parts."""

GAP = f"\n{CUT}\n"

CONTENT = ("content", "chunk_content", "section_content", "expanded_content", "beginning")

NAMES = {"id": "memory_id", "created_at": "date", "agent_id": "agent"} | dict.fromkeys(CONTENT, "content")
"""Names of a memory's fields that differ from the full form."""

WHERE = ("memory_id", "id", "created_at", "agent_id")
WHAT = (
    "title",
    "report_id",
    "corrects",
    "match",
    "trust",
    "superseded_by",
    "supersedes",
    "evidence",
    "copies",
    *CONTENT,
    "content_end",
    "context_before",
    "context_after",
    "later",
    "later_more",
    "observations",
)
"""The fields of a memory, in the order in which a model reads them; `WHERE` says which it is."""

ALONE = ("memory_type", "session_id", "task_code", "description", "tags", "metadata", "came_from")
"""More fields of a memory that is read on its own."""

READ = ("success", "message", *WHERE, *ALONE, *WHAT)
"""The fields of an answer that is one memory, or a part of one."""

RECEIPT = ("success", "message", "memory_id", "session_id", "rejected_tags", "redacted")

KEPT: dict[type[BaseModel], tuple[str, ...]] = {
    models.StoreMemoryResult: RECEIPT,
    StoreTaggedResult: RECEIPT,
    models.FoundChunk: (*WHERE, "chunk_id", *WHAT),
    models.FoundSection: (*WHERE, *WHAT),
    models.FoundMemory: (*WHERE, *WHAT),
    models.MemoryEntry: (*WHERE, *ALONE, *WHAT),
    ExpandedChunkResult: READ,
    DocumentResult: READ,
    models.FoundBeginning: (*WHERE, "memory_type", *WHAT),
    models.Beginning: (*WHERE, *WHAT),
    models.ObservationNote: (*WHERE, *WHAT),
    models.LaterMemory: ("id", "created_at", "beginning"),
    TaggedMemory: (*WHERE, "category", "tags", *WHAT),
    SessionEntry: ("session_id", "agents", "memory_count", "latest_activity"),
}
"""The fields that are kept of a result, by the nearest of its models. Others keep all but `ECHOED`."""

ECHOED = {
    *("query", "filters", "limit", "latest_first", "granularity", "total_results", "count", "omitted"),
    *("confidence", "elsewhere"),  # `match` and `message` say the same
    *("created_at", "content_length", "chunk_count", "context_window", "target_chunk_index", "chunks_returned"),
    *("chunks", "content_hash"),
}
"""Fields that repeat the question, the results or the message, or that describe a text beside them."""

H = TypeVar("H", bound=models.FoundChunk | models.FoundSection)

HITS = (models.FoundChunk, models.FoundSection)

DAY, MINUTE = len("2026-11-25"), len("2026-11-25T08:37")

MOST_RELATED = 3
"""Maximum run of merely related results at the end of a page; the next page begins with the rest."""


def lean(result: BaseModel) -> dict[str, Any]:
    """Return the lean form of a result, or of a part of one."""
    fields = vars(result)
    if isinstance(result, models.LaterMemory) and result.beginning is None:
        return {NAMES["id"]: result.id}
    kept = next((KEPT[model] for model in type(result).__mro__ if model in KEPT), None)
    if kept is not None:
        shaped = {NAMES.get(name, name): formed(fields[name]) for name in kept if fields.get(name)}
        return shaped | ({"date": f"{shaped['date'][:MINUTE]}Z"} if "date" in shaped else {})
    described = {name: field for name, field in type(result).model_fields.items() if name not in ECHOED}
    shaped = {
        field.serialization_alias or name: formed(fields[name])
        for name, field in described.items()
        if not (field.exclude_if and field.exclude_if(fields[name]))
    }
    return {key: value for key, value in shaped.items() if key == "results" or value not in (None, "", [], {})}


def formed(value: Any) -> Any:
    """Return a result's value in its lean form."""
    if isinstance(value, BaseModel):
        return lean(joined_hits([value]) if isinstance(value, HITS) else value)
    if not isinstance(value, list):
        return value
    are_hits = bool(value) and isinstance(value[0], HITS)
    return dated([lean(joined_hits(hits)) for hits in by_memory(value)] if are_hits else [formed(one) for one in value])


def dated(values: list[Any]) -> list[Any]:
    """Shorten the dates of memories to the day, unless several are of one day: their times show which is newer."""
    if not all(isinstance(value, dict) and "date" in value for value in values):
        return values
    days = Counter(memory["date"][:DAY] for memory in values)
    return [memory if days[memory["date"][:DAY]] > 1 else memory | {"date": memory["date"][:DAY]} for memory in values]


def by_memory(hits: Sequence[H]) -> list[list[H]]:
    """Return the hits of each memory, the memories in the order of their first hits."""
    groups: dict[int, list[H]] = {}
    for hit in hits:
        groups.setdefault(hit.memory_id, []).append(hit)
    return list(groups.values())


def joined_hits(hits: Sequence[H]) -> H:
    """Join the hits of one memory: their texts in the order of the memory, with marks at the cuts."""
    best, ordered = hits[0], sorted(hits, key=lambda hit: hit.content_start or 0)
    end = ordered[0].content_start or 0
    text, whole_until = (CUT if end else ""), None
    for position, hit in enumerate(ordered):
        start, new = hit.content_start or 0, hit[hit.text_field]
        common = max(0, end - start)
        if common and text.endswith(new[:common]):
            new = new[common:]
        if position and start > end:
            text, whole_until = text + GAP, whole_until or end
        text, end = text + new, hit.content_end or 0
    titles = [headings_above(hit, text) for hit in hits]
    common_titles = takewhile(lambda parts: len(set(parts)) == 1, zip(*titles, strict=False))
    title, shown = " > ".join(parts[0] for parts in common_titles), text.rstrip() + (CUT if end else "")
    copies = sorted({number for hit in hits for number in hit.copies})
    update = {best.text_field: shown, "title": title, "copies": copies, "content_end": whole_until or end or None}
    if isinstance(best, models.FoundChunk) and not best.chunk_index:
        update["chunk_id"] = None  # nothing precedes it, and content_end leads to what follows
        if ordered[0].content_start or best.match == "related":
            # The text before it is missing, too, or little is shown: its id leads to all of it.
            update["content_end"] = None
    return cast("H", best.model_copy(update=update))


def passage_at(passage: FoundText, span: Span) -> FoundText:
    """Return a part of a passage."""
    text = passage.text[slice(*span)].rstrip("\n")
    first = passage.start_line + passage.text.count("\n", 0, span.start)
    return passage.model_copy(update={"text": text, "start_line": first, "end_line": first + text.count("\n")})


def leads(hits: Sequence[models.FoundChunk | models.FoundSection], position: int) -> bool:
    """Return whether a hit stands before an older one on its subject."""
    number = hits[position].memory_id
    return any(number == one.id for hit in hits[position + 1 :] for one in hit.later)


def room_of(hit: models.FoundChunk | models.FoundSection, page: Page, share: float, *, leads: bool = False) -> int:
    """Return how many characters of a hit are shown. `share`: by its place.

    A merely related hit gets a glance, unless the caller says that there is room for more, or it `leads` an older one.
    """
    first = FIRST if page.max_tokens is None else max(LEAST_FIRST, FIRST * page.max_tokens // FOR_TOKENS)
    if leads or hit.match != "related":
        return max(LEAST, int(first * share))
    return RELATED if page.max_tokens is None else max(RELATED, int(first * share * RELATED_SHARE))


def _cut(hit: H, wanted: Collection[str], whole: int, length: int) -> H:
    name, start = hit.text_field, hit.content_start or 0
    shown = excerpt(hit[name], wanted, length)
    end = start + shown.end if start + shown.end < whole else None
    update = {name: hit[name][slice(*shown)].rstrip(), "content_start": start + shown.start, "content_end": end}
    return cast("H", hit.model_copy(update=update))


def headings_above(hit: models.FoundChunk | models.FoundSection, text: str) -> list[str]:
    """Return the title of a hit's document and the headings above it, except those in its text."""
    within = {heading(line) for line in text.splitlines() if line.startswith("#")}
    path = [heading(part) for part in hit.header_path.split(" > ")]
    path = path if hit.title in path else [hit.title or "", *path]
    return [part for part in path if part and part not in within]


def heading(line: str) -> str:
    """Return the text of a heading."""
    return line.lstrip("#").strip()


class LeanForm(Form):
    """The fields that a model reads, with hits cut around the terms of the query."""

    cuts = True
    tells_counts = False
    measured = sent = staticmethod(lean)

    def failed(self, body: dict[str, Any]) -> dict[str, Any]:  # noqa: D102 - as in `Form`
        return {name: value for name, value in body.items() if not models.says_nothing(value)}

    def most_related(self, page: Page) -> int | None:
        """Return MOST_RELATED; None if the caller says how much room there is."""
        return MOST_RELATED if page.max_tokens is None and page.detail != LINES else None

    def cut_hits(self, hits: Sequence[H], wanted: Collection[str], sources: Mapping[int, Any], page: Page) -> list[H]:
        """Return hits cut around the wanted terms, with the offsets to read on from."""
        rooms = [room_of(hit, page, SHARE**place, leads=leads(hits, place)) for place, hit in enumerate(hits)]
        return [
            _cut(hit, wanted, len(sources[hit.memory_id].content.rstrip()), room)
            for hit, room in zip(hits, rooms, strict=True)
        ]

    def cut_passages(self, passages: Sequence[FoundText], wanted: Collection[str]) -> list[FoundText]:
        """Return passages of files cut around the wanted terms, with the lines that are left of them."""
        rooms = [
            RELATED if passage.match == "related" else max(LEAST, int(FIRST * SHARE**place))
            for place, passage in enumerate(passages)
        ]
        spans = [excerpt(passage.text, wanted, room) for passage, room in zip(passages, rooms, strict=True)]
        return [passage_at(passage, span) for passage, span in zip(passages, spans, strict=True)]

    def without_repeats(self, answer: models.Result) -> models.Result:
        """Return the answer: `lean` joins the hits of a memory."""
        return answer
