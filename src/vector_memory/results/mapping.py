"""Converts stored memories to results."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from vector_memory.domain import MatchLevel, MemoryKind
from vector_memory.results.budget import cut
from vector_memory.results.lean import IS_LEAN
from vector_memory.results.sessions import (
    Beginning,
    FineSearchResult,
    FoundChunk,
    FoundMemory,
    FoundSection,
    MediumSearchResult,
    MemoryEntry,
    ObservationNote,
    Result,
    SharedProvenance,
    Source,
    StoredText,
)
from vector_memory.storage.base import Reader
from vector_memory.storage.records import Memory, Origin

ORIGIN = set(SharedProvenance.model_fields)
"""The fields that say where a found text comes from."""

HASH_SHOWN = 16
"""Hex digits of the content's SHA-256 in results."""

BEGINNING = 500
"""Bytes of a memory's beginning."""

NOTED = 20
"""Maximum number of observations that an answer names, and characters of each that it shows."""
NOTE = 150

READ_WITH = "get_memory_by_id"


def said_of_cut(entries: Sequence[StoredText], read_with: str = READ_WITH) -> str:
    """Return a sentence that says how to read memories whose content is cut; empty if none is."""
    count = sum(entry.content_end is not None for entry in entries)
    return f" {count} shortened to fit: read on with {read_with} and offset = content_end." if count else ""


def memory_entry(memory: Memory) -> MemoryEntry:
    """Return a memory as an entry of a result."""
    return MemoryEntry(**shown(memory))


def found_memory(memory: Memory) -> FoundMemory:
    """Return a memory as a search result that was matched by filters only."""
    return FoundMemory(**shown(memory))


def matched_memory(
    memory: Memory,
    score: float,
    similarity: float | None,
    sources: Sequence[Source],
    match: MatchLevel | None,
    later: Sequence[int],
) -> FoundMemory:
    """Return a memory as a ranked search result; without a similarity it was ranked by words only."""
    return FoundMemory(
        **shown(memory),
        score=score,
        match=match,
        later=list(later),
        similarity=similarity,
        source_type="keyword" if similarity is None else "vector",
        sources=list(sources),
    )


def shown(memory: Memory) -> dict[str, Any]:
    """Return the fields of a memory that results contain."""
    return {
        **provenance(memory),
        "id": memory.id,
        "content": memory.content,
        "description": memory.description,
        "tags": memory.tags,
        "metadata": memory.metadata,
        "content_hash": memory.content_hash[:HASH_SHOWN],
        "updated_at": memory.updated_at,
        "accessed_at": memory.accessed_at,
        "access_count": memory.access_count,
        "content_length": len(memory.content),
        "expires_at": memory.expires_at,
        "pinned": memory.pinned or None,
    }


def said_of_beginnings(entries: Sequence[StoredText]) -> str:
    """Return a sentence that says how to read memories that were shortened; empty if none was."""
    count = sum(entry.content_end is not None for entry in entries)
    return (
        f" Of {count} only the beginning is given: read on with {READ_WITH} and offset = content_end." if count else ""
    )


def beginning(memory: Memory, length: int | None = BEGINNING) -> dict[str, Any]:
    """Return the fields of a memory's beginning of at most `length` bytes; None: of all of it."""
    text, end = (memory.content, None) if length is None else cut(memory.content, 0, length)
    held = {name: value for name, value in shown(memory).items() if name in Beginning.model_fields}
    about = memory.metadata.get("parent_report_id")
    return held | {"content": text, "content_end": end, "report_id": about if isinstance(about, int) else None}


def observations_on(reader: Reader, sources: Iterable[Memory | Origin]) -> list[ObservationNote]:
    """Return the latest observations on those of the memories that are reports, the oldest first."""
    return notes_on(reader, {source.id for source in sources if source.memory_type == MemoryKind.REPORT})


def notes_on(reader: Reader, report_ids: Collection[int]) -> list[ObservationNote]:
    """Return the latest observations on these reports, the oldest first."""
    found = reader.observations_on(sorted(report_ids), NOTED, NOTE) if report_ids else []
    return [ObservationNote.model_validate(one, from_attributes=True) for one in found]


def hoist_common_fields(answer: Result) -> Result:
    """Return an answer with chunks or sections without what it says twice; any other as it is.

    What all results have in common stands beside them, and what a memory's results have in common in the first of them.
    Each has its date, and each section the title of its document.
    """
    if IS_LEAN.get() or not isinstance(answer, FineSearchResult | MediumSearchResult):  # lean ones have their own way
        return answer
    shared: dict[str, Any] = {}
    kept = {"created_at"} | ({"title"} if isinstance(answer, MediumSearchResult) else set())
    if len(answer.results) > 1:
        first, *others = ({name: result[name] for name in ORIGIN} for result in answer.results)
        alike = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
        shared = {name: value for name, value in alike.items() if name not in kept}
    seen: set[int] = set()
    results = []
    for result in answer.results:
        left_out = set(ORIGIN if result.memory_id in seen else shared) - kept
        left_out |= {"title"} if has_title_in_path(result) else set()
        left_out |= {"content_start"} if isinstance(result, FoundChunk) and result.content_end is None else set()
        results.append(result.model_copy(update=dict.fromkeys(left_out)))
        seen.add(result.memory_id)
    if all(map(has_title_in_path, answer.results)):
        shared.pop("title", None)
    return answer.model_copy(update={**shared, "results": results})


def has_title_in_path(result: FoundChunk | FoundSection) -> bool:
    """Return whether the heading path begins with the title."""
    return result.header_path.partition(" > ")[0].lstrip("#").strip() == result.title


def provenance(source: Memory | Origin) -> dict[str, Any]:
    """Return the fields that say where a found text comes from."""
    return {
        "memory_type": source.memory_type,
        "agent_id": source.agent_id,
        "session_id": source.session_id,
        "session_iter": source.session_iter,
        "task_code": source.task_code,
        "title": source.title,
        "created_at": source.created_at,
    }
