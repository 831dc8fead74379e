"""What a person looks at: what was stored when, how much there is, and one memory in full."""

from dataclasses import asdict

from vector_memory.domain import Scope
from vector_memory.results.mapping import memory_entry
from vector_memory.results.overview import MemoryStatsResult, TimelineEntry, TimelineResult
from vector_memory.results.sessions import MemoryEntry
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Moment
from vector_memory.validation import check_range, parse_id

MAX_MOMENTS = 100_000

BEGINNING = 200
"""Characters of each content that a timeline holds."""


class Overview:
    """Looks into a memory. Answers are for people and files: they are not cut to fit an agent's context."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def timeline(self, scope: Scope, limit: int) -> TimelineResult:
        """Return what was stored last in a scope, the oldest first."""
        check_range("limit", limit, 1, MAX_MOMENTS)
        with self._storage.read() as reader:
            moments = reader.timeline(scope, limit, BEGINNING)
            total = reader.count(scope)
        return TimelineResult(
            entries=[timeline_entry(moment) for moment in moments],
            total_memories=total,
            message=f"{len(moments)} of {total} memories.",
        )

    def memory_stats(self) -> MemoryStatsResult:
        """Count what the file holds."""
        with self._storage.read() as reader:
            counts = reader.statistics()
        return MemoryStatsResult(**asdict(counts))

    def memory(self, memory_id: str | int) -> MemoryEntry:
        """Return a memory in full; this does not count as reading it."""
        number = parse_id("memory_id", memory_id)
        with self._storage.read() as reader:
            return memory_entry(reader.memory(number))


def timeline_entry(moment: Moment) -> TimelineEntry:
    """Return a moment as answers show it."""
    return TimelineEntry(**{name: getattr(moment, name) for name in TimelineEntry.model_fields})
