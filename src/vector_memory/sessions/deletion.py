"""Deletes memories: one, or all older than a number of days."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from vector_memory.domain.text import counted
from vector_memory.domain.validation import check_range, parse_id
from vector_memory.results.documents import DeleteResult
from vector_memory.results.overview import CleanupResult
from vector_memory.storage.base import Storage

MAX_DAYS = 36_500


class Deletion:
    """Deletes memories."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def delete(self, memory_id: str | int) -> DeleteResult:
        """Delete a memory with its chunks, vectors and keywords, and overwrite their bytes."""
        number = parse_id("memory_id", memory_id)
        with self._storage.read() as reader:
            memory = reader.memory(number)
        with self._storage.write() as writer:
            writer.memory(number)  # another process may have been faster
            writer.delete(number)
        self._storage.purge_deleted()
        return DeleteResult(memory_id=number, message=f"Deleted {memory.memory_type} {number} with all its chunks.")

    def clean_up(self, days_old: int, *, dry_run: bool) -> CleanupResult:
        """Delete memories created more than `days_old` days ago; a dry run only counts them.

        Each memory is deleted in its own transaction, so other processes can store in between. After a failure the
        remaining memories still exist, and the call can be repeated.
        """
        check_range("days_old", days_old, 0, MAX_DAYS)
        before = (datetime.now(UTC) - timedelta(days=days_old)).isoformat(timespec="microseconds")
        with self._storage.read() as reader:
            found = reader.expendable(before, tagged=False)
        memories, chunks = len(found), sum(memory.chunk_count for memory in found)
        if not dry_run:
            memories, chunks = self.delete_all(memory.id for memory in found)
        done = "would be deleted; send dry_run=false to delete them" if dry_run else "deleted"
        return CleanupResult(
            memories_deleted=memories,
            chunks_deleted=chunks,
            dry_run=dry_run,
            message=f"{counted(memories, 'memory', 'memories')} with {counted(chunks, 'chunk')} older than "
            f"{counted(days_old, 'day')} {done}.",
        )

    def delete_all(self, memory_ids: Iterable[int]) -> tuple[int, int]:
        """Delete memories as `delete_each` does, and overwrite their bytes."""
        counts = self.delete_each(memory_ids)
        self._storage.purge_deleted()
        return counts

    def delete_each(self, memory_ids: Iterable[int]) -> tuple[int, int]:
        """Delete memories, one transaction a memory; return the numbers of those that existed and of their chunks."""
        deleted = chunks = 0
        for number in memory_ids:
            with self._storage.write() as writer:
                chunk_count = writer.delete(number)
            if chunk_count is not None:
                deleted += 1
                chunks += chunk_count
        return deleted, chunks
