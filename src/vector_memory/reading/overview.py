"""Statistics of sessions, and the names in use."""

from dataclasses import asdict, replace

from vector_memory.answers import overview
from vector_memory.answers.budget import ResponseBudget, fitting_values
from vector_memory.answers.mapping import memory_entry, no_such_session, succession_of, superseded_in
from vector_memory.answers.models import MemoryEntry
from vector_memory.domain import ANY, Scope, State
from vector_memory.domain.text import counted
from vector_memory.domain.validation import LARGEST, MAX_IDENTIFIER, MAX_LIMIT, check_label, check_range, parse_id
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.records import Moment, NamedBy, SessionCounts, Size

AGENTS_LISTED = 20
"""Maximum number of agents named for each session in a listing."""

AGENTS_COUNTED = 100
"""Maximum number of agents named in a session's statistics."""


class Statistics:
    """Counts the memories of sessions."""

    def __init__(self, storage: Storage, budget: ResponseBudget) -> None:
        self._storage = storage
        self._budget = budget

    def session_stats(self, session_id: str) -> overview.SessionStatsResult:
        """Return the statistics of a session."""
        check_label("session_id", session_id, MAX_IDENTIFIER)
        with self._storage.read() as reader:
            counts = reader.sessions.counts(session_id)
            unknown = None if counts.total_memories else no_such_session(reader, session_id)
        busiest = sorted(counts.agent_counts.items(), key=lambda item: (-item[1], item[0]))[:AGENTS_COUNTED]
        return self._budget.fit(
            lambda _: overview.SessionStatsResult(
                session_id=session_id,
                **asdict(replace(counts, agent_counts=dict(busiest))),
                message=unknown or counts_message(counts, len(counts.agent_counts) - len(busiest)),
            )
        )

    def list_sessions(self, limit: int, scope: Scope) -> overview.SessionsResult:
        """Return the sessions that have memories of a scope, latest activity first; only these memories count."""
        check_range("limit", limit, 1, MAX_LIMIT)
        with self._storage.read() as reader:
            found, total = reader.sessions.page(scope, limit, AGENTS_LISTED)
        listed = [overview.SessionEntry(**asdict(session)) for session in found]

        def build(budget: ResponseBudget) -> overview.SessionsResult:
            entries = budget.fitting(listed)
            message = f"{len(entries)} of {counted(total, 'session')}." if total else no_sessions(scope)
            if len(entries) < len(found):
                message += " More did not fit into the answer: send an agent_id to list only that agent's sessions."
            return overview.SessionsResult(sessions=entries, total_sessions=total, message=message)

        return self._budget.fit(build)

    def find_names(self, column: NamedBy, part: str, session_id: str | None) -> tuple[list[str], int]:
        """Return up to 100 names in use that contain `part`, and their total number."""
        with self._storage.read() as reader:
            names, total = reader.sessions.find_names(column, part, Scope(session_id=session_id, as_of=ANY), MAX_LIMIT)
        return fitting_values(names, self._budget.room), total


def no_sessions(scope: Scope) -> str:
    """Report that no sessions are stored, or none that pass the filters."""
    names = ", ".join(scope.as_filters())
    return f"No sessions match these filters ({names})." if names else "No sessions are stored yet."


def counts_message(counts: SessionCounts, agents_left_out: int) -> str | None:
    """Report what a session's statistics leave out, and how many memories cannot be found by meaning yet."""
    said = []
    if agents_left_out:
        others = counted(agents_left_out, "other")
        said.append(f"agent_counts lists only the {AGENTS_COUNTED} agents with the most memories; {others} left out.")
    if counts.without_vectors:
        lacking = counted(counts.without_vectors, "memory has", "memories have")
        said.append(f"{lacking} no vectors yet and can be found by words only.")
    return " ".join(said) or None


# Views for people: a timeline, statistics, and one memory in full.

EVERYTHING = Scope(as_of=ANY)

MAX_MOMENTS = 100_000

EXCERPT_LENGTH = 200
"""Characters of each content shown in a timeline."""


class Overview:
    """Shows a memory's contents. Results are for people and files, and are not cut to fit an agent's context."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def timeline(self, scope: Scope, limit: int, offset: int = 0) -> overview.TimelineResult:
        """Return the latest memories of a scope, skipping the last `offset`, oldest first."""
        check_range("limit", limit, 1, MAX_MOMENTS)
        check_range("offset", offset, 0, LARGEST)
        with self._storage.read() as reader:
            moments, total = moments_of(reader, scope, limit, offset)
            hidden, by = superseded_in(reader, scope, [each.memory_id for each in moments])
        entries = [overview.TimelineEntry.model_validate(each, from_attributes=True) for each in moments]
        return overview.TimelineResult(
            entries=[each.model_copy(update={"superseded_by": by.get(each.memory_id, [])}) for each in entries],
            total_memories=total,
            superseded=hidden.superseded,
            message=f"{len(moments):,} of {counted(total, 'memory', 'memories')}.",
        )

    def activity(self, scope: Scope) -> overview.ActivityResult:
        """Return how much each agent stored in each hour of a scope."""
        with self._storage.read() as reader:
            found = reader.sessions.activity(scope)
        return overview.ActivityResult(
            hours=[overview.ActiveHour.model_validate(each, from_attributes=True) for each in found]
        )

    def sizes(self, limit: int) -> dict[str, list[Size]]:
        """Return the largest sessions and kinds, and how large what is superseded is, by kind."""
        with self._storage.read() as reader:
            return {
                "sessions": reader.sessions.sizes("session_id", EVERYTHING, limit),
                "kinds": reader.sessions.sizes("memory_type", EVERYTHING, limit),
                "superseded": reader.sessions.sizes("memory_type", Scope(state=State.SUPERSEDED), limit),
            }

    def count(self) -> int:
        """Return the number of memories of the whole file."""
        with self._storage.read() as reader:
            return reader.memories.count(EVERYTHING)

    def count_pending(self) -> int:
        """Return the number of memories whose vectors are being computed now."""
        with self._storage.read() as reader:
            return reader.vectors.pending(EVERYTHING).memories

    def memory_stats(self) -> overview.MemoryStatsResult:
        """Return the statistics of the whole file."""
        with self._storage.read() as reader:
            counts, pending = reader.sessions.statistics(), reader.vectors.pending(EVERYTHING).memories
        return overview.MemoryStatsResult(**asdict(counts), pending_vectors=pending)

    def memory(self, memory_id: str | int) -> MemoryEntry:
        """Return a memory in full. Does not count as a read."""
        number = parse_id("memory_id", memory_id)
        with self._storage.read() as reader:
            return memory_entry(reader.memories.get(number)).model_copy(update=succession_of(reader, number))


def moments_of(reader: Reader, scope: Scope, limit: int, offset: int) -> tuple[list[Moment], int]:
    """Return part of a timeline, and the total number of memories. Filters without an index are scanned only once."""
    if not (scope.containing or scope.tags or scope.category or scope.project):
        return reader.sessions.timeline(scope, limit, EXCERPT_LENGTH, offset), reader.memories.count(scope)
    found = reader.sessions.newest(scope)
    return reader.sessions.moments(found[offset : offset + limit], EXCERPT_LENGTH), len(found)
