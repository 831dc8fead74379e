"""Upkeep: counts, deleting, cleaning up."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

from vector_memory.results.budget import Packer
from vector_memory.results.overview import CleanupResult, SessionEntry, SessionsResult, SessionStatsResult
from vector_memory.results.sessions import DeleteResult
from vector_memory.results.shortening import fitting_values
from vector_memory.storage.sqlite import memories, sessions
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.names import NamedBy, names_with
from vector_memory.storage.sqlite.sessions import SessionCounts
from vector_memory.validation import MAX_IDENTIFIER, MAX_LIMIT, check_optional_text, check_range, check_text, parse_id

MAX_DAYS = 36_500

AGENTS_SHOWN = 20
"""So many agents of a session are named in a listing, and so many times five in its statistics."""


class Maintenance:
    """Counts and cleans what is stored."""

    def __init__(self, database: Database, packer: Packer) -> None:
        self._database = database
        self._packer = packer

    def session_stats(self, session_id: str) -> SessionStatsResult:
        """Count what a session holds."""
        check_text("session_id", session_id, MAX_IDENTIFIER)
        with self._database.read() as connection:
            counts = sessions.session_counts(connection, session_id)
        busiest = sorted(counts.agent_counts.items(), key=lambda item: (-item[1], item[0]))[: 5 * AGENTS_SHOWN]
        return self._packer.fit(
            lambda _: SessionStatsResult(
                session_id=session_id,
                **asdict(replace(counts, agent_counts=dict(busiest))),
                message=said_of_counts(counts, len(counts.agent_counts) - len(busiest)),
            )
        )

    def list_sessions(self, limit: int, agent_id: str | None) -> SessionsResult:
        """Return sessions, latest activity first."""
        check_range("limit", limit, 1, MAX_LIMIT)
        check_optional_text("agent_id", agent_id, MAX_IDENTIFIER)
        with self._database.read() as connection:
            found = sessions.list_sessions(connection, agent_id, limit, AGENTS_SHOWN)
            total = sessions.count_sessions(connection, agent_id)
        listed = [SessionEntry(**asdict(session)) for session in found]

        def build(packer: Packer) -> SessionsResult:
            entries = packer.fitting(listed)
            message = f"{len(entries)} of {total} sessions."
            if len(entries) < len(found):
                message += " More did not fit into the answer: send an agent_id to list only that agent's sessions."
            return SessionsResult(sessions=entries, total_sessions=total, message=message)

        return self._packer.fit(build)

    def find_names(self, column: NamedBy, part: str, session_id: str | None) -> tuple[list[str], int]:
        """Return up to 100 names in use that contain a part, and how many there are."""
        with self._database.read() as connection:
            names, total = names_with(connection, column, part, session_id, MAX_LIMIT)
        return fitting_values(names, self._packer.room), total

    def delete(self, memory_id: str | int) -> DeleteResult:
        """Delete a memory with its chunks, vectors and keywords, and overwrite their bytes."""
        number = parse_id("memory_id", memory_id)
        with self._database.write() as connection:
            memory = memories.require_memory(connection, number)
            memories.delete_memory(connection, number)
        self._database.forget_deleted()
        return DeleteResult(memory_id=number, message=f"Deleted {memory.memory_type} {number} with all its chunks.")

    def clean_up(self, days_old: int, *, dry_run: bool) -> CleanupResult:
        """Delete what was created more than `days_old` days ago; a dry run only counts.

        One transaction a memory, so that other processes can store meanwhile. After a failure the rest is still there,
        and the call can be repeated.
        """
        check_range("days_old", days_old, 0, MAX_DAYS)
        before = (datetime.now(UTC) - timedelta(days=days_old)).isoformat(timespec="microseconds")
        if dry_run:
            with self._database.read() as connection:
                counts = memories.count_older(connection, before)
        else:
            counts = self._delete_older(before)
            self._database.forget_deleted()
        done = "would be deleted; send dry_run=false to delete them" if dry_run else "deleted"
        return CleanupResult(
            memories_deleted=counts[0],
            chunks_deleted=counts[1],
            dry_run=dry_run,
            message=f"{counts[0]} {'memory' if counts[0] == 1 else 'memories'} with {counts[1]} "
            f"{'chunk' if counts[1] == 1 else 'chunks'} older than {days_old} {'day' if days_old == 1 else 'days'} "
            f"{done}.",
        )

    def _delete_older(self, before: str) -> tuple[int, int]:
        """Delete what is older, and return how many memories and chunks that were."""
        with self._database.read() as connection:
            memory_ids = memories.ids_older(connection, before)
        return self.delete_each(memory_ids)

    def delete_each(self, memory_ids: Sequence[int]) -> tuple[int, int]:
        """Delete memory by memory, and return how many memories and chunks that were. Their bytes may be left."""
        deleted = chunks = 0
        for memory_id in memory_ids:
            with self._database.write() as connection:
                chunk_count = memories.count_chunks(connection, memory_id)
                if memories.delete_memory(connection, memory_id):
                    deleted += 1
                    chunks += chunk_count
        return deleted, chunks


def said_of_counts(counts: SessionCounts, agents_left_out: int) -> str | None:
    """Say what a session's statistics do not show."""
    if not counts.total_memories:
        return "Nothing is stored in this session: list_sessions lists the sessions."
    if agents_left_out:
        return f"agent_counts lists only the busiest agents; {agents_left_out} more have stored memories."
    return None
