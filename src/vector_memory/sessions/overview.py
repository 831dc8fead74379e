"""What people look at: a timeline, statistics, and one memory in full."""

from dataclasses import asdict

from vector_memory.domain import ANY, Scope
from vector_memory.domain.text import counted
from vector_memory.domain.validation import LARGEST, check_range, parse_id
from vector_memory.results.mapping import memory_entry, succession_of, superseded_in
from vector_memory.results.overview import (
    ActiveHour,
    ActivityResult,
    MemoryStatsResult,
    TimelineEntry,
    TimelineResult,
)
from vector_memory.results.sessions import MemoryEntry
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.records import Moment

EVERYTHING = Scope(as_of=ANY)

MAX_MOMENTS = 100_000

EXCERPT_LENGTH = 200
"""Characters of each content shown in a timeline."""


class Overview:
    """Shows what a memory contains. Results are for people and files, and are not cut to fit an agent's context."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def timeline(self, scope: Scope, limit: int, offset: int = 0) -> TimelineResult:
        """Return the memories of a scope that were stored last, before the last `offset`, oldest first."""
        check_range("limit", limit, 1, MAX_MOMENTS)
        check_range("offset", offset, 0, LARGEST)
        with self._storage.read() as reader:
            moments, total = moments_of(reader, scope, limit, offset)
            superseded, by = superseded_in(reader, scope, [each.memory_id for each in moments])
        entries = [TimelineEntry.model_validate(each, from_attributes=True) for each in moments]
        return TimelineResult(
            entries=[each.model_copy(update={"superseded_by": by.get(each.memory_id, [])}) for each in entries],
            total_memories=total,
            superseded=superseded,
            message=f"{len(moments):,} of {counted(total, 'memory', 'memories')}.",
        )

    def activity(self, scope: Scope) -> ActivityResult:
        """Return how much each agent stored in each hour of a scope."""
        with self._storage.read() as reader:
            found = reader.activity(scope)
        return ActivityResult(hours=[ActiveHour.model_validate(each, from_attributes=True) for each in found])

    def count(self) -> int:
        """Return the number of memories of the whole file."""
        with self._storage.read() as reader:
            return reader.count(EVERYTHING)

    def count_pending(self) -> int:
        """Return the number of memories whose vectors are being computed now."""
        with self._storage.read() as reader:
            return reader.pending(EVERYTHING).memories

    def memory_stats(self) -> MemoryStatsResult:
        """Return the statistics of the whole file."""
        with self._storage.read() as reader:
            counts, pending = reader.statistics(), reader.pending(EVERYTHING).memories
        return MemoryStatsResult(**asdict(counts), pending_vectors=pending)

    def memory(self, memory_id: str | int) -> MemoryEntry:
        """Return a memory in full; this does not count as reading it."""
        number = parse_id("memory_id", memory_id)
        with self._storage.read() as reader:
            return memory_entry(reader.memory(number)).model_copy(update=succession_of(reader, number))


def moments_of(reader: Reader, scope: Scope, limit: int, offset: int) -> tuple[list[Moment], int]:
    """Return a part of a timeline, and the number of memories in all of it.

    What no index has is looked through only once.
    """
    if not (scope.containing or scope.tags or scope.category or scope.project):
        return reader.timeline(scope, limit, EXCERPT_LENGTH, offset), reader.count(scope)
    found = reader.newest(scope)
    return reader.moments(found[offset : offset + limit], EXCERPT_LENGTH), len(found)
