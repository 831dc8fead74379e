"""Converts stored memories to results."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from vector_memory.answers import models
from vector_memory.answers.budget import cut
from vector_memory.domain import ANY, AsOf, MemoryKind, Scope, Way
from vector_memory.storage.base import Reader
from vector_memory.storage.connection import Steps, read
from vector_memory.storage.queries.evidence import EvidenceOf
from vector_memory.storage.queries.memories import Hidden
from vector_memory.storage.records import Memory, Origin

R = TypeVar("R", models.FoundChunk, models.FoundSection, models.FoundMemory, models.FoundBeginning)

SHOWN = [one.name for one in fields(Memory) if one.name in models.MemoryEntry.model_fields]
"""The fields of a memory that results contain."""

PLACE = [name for name in models.SharedProvenance.model_fields if name not in models.Came.model_fields]
PLACE_OF, SHOWN_OF = attrgetter(*PLACE), attrgetter(*SHOWN)

HASH_SHOWN = 16
"""Hex digits of the content's SHA-256 in results."""

BEGINNING = 500
"""Bytes of a memory's beginning."""

NOTED = 20
"""Maximum number of observations that an answer names, and characters of each that it shows."""
NOTE = 150

READ_WITH = "get_memory_by_id"

EvidenceNotes = Callable[[EvidenceOf], Mapping[int, list[models.EvidenceNote]]]
"""Tells for the evidence of memories, by their ids, whether it still holds."""

LINKED = 100
"""Maximum number of memories that an answer names as replacing another one, or replaced by it."""


class Superseded(NamedTuple):
    """How many memories an answer leaves out, and for the superseded ones it contains, what replaced them."""

    hidden: Hidden = Hidden()
    by: Mapping[int, list[int]] = MappingProxyType({})


def cut_note(entries: Sequence[models.StoredText], read_with: str = READ_WITH) -> str:
    """Explain how to read memories whose content is cut; empty if none is."""
    count = sum(entry.content_end is not None for entry in entries)
    return f" {count} shortened to fit: read on with {read_with} and offset = content_end." if count else ""


def memory_entry(memory: Memory) -> models.MemoryEntry:
    """Return a memory as an entry of a result."""
    return models.MemoryEntry(**shown(memory))


def found_memory(memory: Memory, **ranked: Any) -> models.FoundMemory:
    """Return a memory as a search result. `ranked`: further fields; none if only filters matched it."""
    return models.FoundMemory(**shown(memory), **ranked)


def shown(memory: Memory) -> dict[str, Any]:
    """Return the fields of a memory that results contain."""
    derived = {"content_hash": memory.content_hash[:HASH_SHOWN], "content_length": len(memory.content)}
    return dict(zip(SHOWN, SHOWN_OF(memory), strict=True)) | derived | {"pinned": memory.pinned or None} | came(memory)


def came(source: Origin) -> dict[str, Any]:
    """Return the fields of `Came`."""
    plain = {"token", *(("by", "client") if source.came_from.get("by") == Way.TOOL else ())}
    came_from = {name: value for name, value in source.came_from.items() if name not in plain}
    return {"came_from": came_from or None, "trust": source.trust}


SESSIONS_COMPARED = 1_000
"""Of how many sessions, the latest, the ids are compared with one that nobody has."""


def no_such_session(reader: Reader, session_id: str | None) -> str:
    """Report that nothing is stored in a session, and which session has nearly the same id."""
    names, _ = reader.sessions.find_names("session_id", "", Scope(as_of=ANY), SESSIONS_COMPARED)
    known = {name.casefold(): name for name in reversed(names) if name != session_id}
    near = get_close_matches((session_id or "").casefold(), known, 1)
    nearest = f' The nearest id is "{known[near[0]]}".' if near else ""
    return f"Nothing is stored in this session: list_sessions lists the sessions.{nearest}"


def beginnings_note(entries: Sequence[models.StoredText]) -> str:
    """Explain how to read memories of which only the beginning is shown, and which are data; empty if none."""
    count = sum(entry.content_end is not None for entry in entries)
    read_on = f"Of {count} only the beginning is given: read on with {READ_WITH} and offset = content_end."
    return "".join(f" {one}" for one in (read_on if count else "", models.data_note(entries)) if one)


def beginning(memory: Memory, length: int | None = BEGINNING) -> dict[str, Any]:
    """Return the fields of a memory's beginning of at most `length` bytes; None: its whole content."""
    text, end = (memory.content, None) if length is None else cut(memory.content, 0, length)
    held = {name: value for name, value in shown(memory).items() if name in models.Beginning.model_fields}
    about = memory.metadata.get("parent_report_id")
    return held | {"content": text, "content_end": end, "report_id": about if isinstance(about, int) else None}


def observations_on(
    reader: Reader, sources: Iterable[Memory | Origin], as_of: AsOf = None
) -> list[models.ObservationNote]:
    """Return `notes_on` the reports among memories."""
    return notes_on(reader, {source.id for source in sources if source.memory_type == MemoryKind.REPORT}, as_of)


@read
def notes_on(reader: Reader, report_ids: Collection[int], as_of: AsOf = None) -> Steps[list[models.ObservationNote]]:
    """Return the latest observations on reports: corrections first, then oldest first."""
    if not report_ids:
        return []
    found = yield from reader.memories.observations_on.steps(sorted(report_ids), NOTED, NOTE, Scope(as_of=as_of))
    return [models.ObservationNote.model_validate(one, from_attributes=True) for one in found]


def with_notes(results: Sequence[R], notes: Sequence[models.ObservationNote]) -> list[R]:
    """Add observations to the results they are about, except to weaker matches."""
    return [
        result.model_copy(update={"observations": [note for note in notes if note.report_id == result.memory_id]})
        if result.match in (None, "strong")
        else result
        for result in results
    ]


@read
def superseded_in(reader: Reader, scope: Scope, memory_ids: Collection[int]) -> Steps[Superseded]:
    """Count the superseded memories that a scope of current memories leaves out, or find those among memories."""
    if scope.as_of is None:
        return Superseded((yield from reader.memories.count_hidden.steps(scope)))
    by = by_first((yield from reader.lifecycle.superseding.steps(memory_ids))) if memory_ids else {}
    return Superseded(by={older: newer[:LINKED] for older, newer in by.items()})


def replaced_by(reader: Reader, memory_ids: Collection[int]) -> dict[int, list[int]]:
    """Map each memory to the memories it has replaced."""
    return by_first((newer, older) for older, newer in reader.lifecycle.superseded_by(memory_ids)) if memory_ids else {}


def by_first(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """Group the second values of pairs by the first ones."""
    found = defaultdict[int, list[int]](list)
    for first, second in pairs:
        found[first].append(second)
    return found


def succession_of(reader: Reader, memory_id: int) -> dict[str, Any]:
    """Return the ids of the memories that replaced one, and of those it replaced, by field names."""
    of = reader.lifecycle
    newer, older = reader.together(of.superseding.steps([memory_id]), of.superseded_by.steps([memory_id]))
    return {
        "superseded_by": [link.newer_id for link in newer[:LINKED]],
        "supersedes": [link.older_id for link in older[:LINKED]],
    }


def counted_with_copies(results: Iterable[models.FoundChunk | models.FoundSection | models.FoundMemory]) -> int:
    """Count results and the copies merged into them."""
    return sum(1 + len(result.copies) for result in results)


def provenance(source: Memory | Origin) -> dict[str, Any]:
    """Return the fields with the origin of a found text."""
    return dict(zip(PLACE, PLACE_OF(source), strict=True)) | came(source)
