"""Deletes memories: one, all older than a number of days, those selected by policies, or expired ones."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

from vector_memory.answers.documents import DeleteResult
from vector_memory.answers.overview import CleanupResult, PolicyResult
from vector_memory.domain import ANY, MemoryKind, Scope
from vector_memory.domain.text import counted
from vector_memory.domain.times import after_days
from vector_memory.domain.validation import check_range, parse_id
from vector_memory.errors import ValidationError
from vector_memory.settings import RetentionRule, retention_rules
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.storage.records import Expendable

MAX_DAYS = 36_500

ERASED_AT_ONCE = 50
"""Maximum number of memories that are erased before the log is emptied."""

MOST_SESSIONS = 1 << 31


class Deletion:
    """Deletes memories.

    `by`: the agent that deletes, for whom a memory is gone, but a person can undo that for `undo_hours`. What a person
    deletes is gone at once.
    """

    def __init__(self, storage: Storage, undo_hours: int = 0) -> None:
        self._storage = storage
        self._undo_hours = undo_hours

    def delete(self, memory_id: str | int, *, by: str | None = None) -> DeleteResult:
        """Delete a memory with its chunks, vectors and keywords, and overwrite their bytes."""
        number = parse_id("memory_id", memory_id)
        with self._storage.read() as reader:
            memory = reader.memories.get(number)
        with self._storage.write() as writer:
            writer.memories.get(number)  # another process may have been faster
            self._delete_in(writer, number, by)
        self._storage.purge_deleted()
        return DeleteResult(memory_id=number, message=f"Deleted {memory.memory_type} {number} with all its chunks.")

    def clean_up(self, days_old: int, *, dry_run: bool, by: str | None = None) -> CleanupResult:
        """Delete memories created more than `days_old` days ago, unless they are pinned; a dry run only counts them.

        A memory that supersedes or corrects one that stays, stays too, so that nothing outdated becomes current. Each
        memory is deleted in its own transaction, so other processes can store in between. After a failure the remaining
        memories still exist, and the call can be repeated. Expired memories are erased too.
        """
        with self._storage.read() as reader:
            found = reader.memories.expendable(older_than(days_old))
            going = oldest_ends(reader, found)
        kept, (memories, chunks) = len(found) - len(going), self._delete(going, by, dry_run=dry_run)
        done = "would be deleted; send dry_run=false to delete them" if dry_run else "deleted"
        return CleanupResult(
            memories_deleted=memories,
            chunks_deleted=chunks,
            memories_kept=kept,
            dry_run=dry_run,
            message=f"{counted(memories, 'memory', 'memories')} with {counted(chunks, 'chunk')} older than "
            f"{counted(days_old, 'day')} {done}." + (f" {kept_message(kept)}" if kept else ""),
        )

    def apply(self, retention: str, *, dry_run: bool) -> PolicyResult:
        """Delete memories that are older than a rule permits, with the exceptions of `clean_up`.

        The strictest of several rules counts. A dry run only counts them. Raises ValidationError if there is no rule.
        """
        rules = retention_rules(retention)
        if not rules:
            raise ValidationError("There is no policy: set VECTOR_MEMORY_RETENTION, for example to working_memory=30d.")
        with self._storage.read() as reader:
            by_rule = {str(rule): expendable_by(reader, rule) for rule in rules}
            found = {memory.id: memory for each in by_rule.values() for memory in each}
            going = oldest_ends(reader, list(found.values()))
        gone, (memories, chunks) = {memory.id for memory in going}, self._delete(going, None, dry_run=dry_run)
        return PolicyResult(
            memories_deleted=memories,
            chunks_deleted=chunks,
            memories_kept=len(found) - len(going),
            dry_run=dry_run,
            by_rule={rule: sum(memory.id in gone for memory in each) for rule, each in by_rule.items()},
        )

    def _delete(self, going: Sequence[Expendable], by: str | None, *, dry_run: bool) -> tuple[int, int]:
        """Delete memories, and expired ones too; return the numbers of memories and chunks. `dry_run`: only count."""
        if dry_run:
            return len(going), sum(one.chunk_count for one in going)
        counts = self.delete_all((one.id for one in going), by=by)
        self.erase_expired()
        return counts

    def erase_expired(self) -> int:
        """Delete expired memories and overwrite their bytes; return their number. Safe in several processes."""
        erased = 0
        while ids := self._expired():
            erased += self.delete_all(ids)[0]
        return erased

    def erase_some_expired(self) -> bool:
        """Do part of `erase_expired`; return whether there may be more."""
        ids = self._expired()
        if ids:
            self.delete_all(ids)
        return len(ids) == ERASED_AT_ONCE

    def delete_all(self, memory_ids: Iterable[int], *, by: str | None = None) -> tuple[int, int]:
        """Delete memories as `delete_each` does, and overwrite their bytes."""
        counts = self.delete_each(memory_ids, by=by)
        self._storage.purge_deleted()
        return counts

    def delete_each(
        self, memory_ids: Iterable[int], *, by: str | None = None, for_good: bool = True
    ) -> tuple[int, int]:
        """Delete memories, one transaction a memory; return the numbers of those that existed and of their chunks.

        `for_good`: their texts stay gone when their sources are read again.
        """
        deleted = chunks = 0
        for number in memory_ids:
            with self._storage.write() as writer:
                chunk_count = self._delete_in(writer, number, by, for_good=for_good)
            if chunk_count is not None:
                deleted += 1
                chunks += chunk_count
        return deleted, chunks

    def _delete_in(self, writer: Writer, number: int, by: str | None, *, for_good: bool = True) -> int | None:
        if by is None or not self._undo_hours:
            return writer.delete(number, for_good=for_good)
        return writer.set_aside(number, by, after_days(writer.now(), self._undo_hours / 24))

    def _expired(self) -> Sequence[int]:
        with self._storage.read() as reader:
            return reader.lifecycle.expired(ERASED_AT_ONCE)


def older_than(days: int, kind: MemoryKind | None = None, **filters: object) -> Scope:
    """Return the memories, superseded ones too, that are at least this many days old."""
    check_range("days_old", days, 0, MAX_DAYS)
    before = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
    return Scope(kind, created_before=before, as_of=ANY, **filters)  # type: ignore[arg-type]


def oldest_ends(reader: Reader, found: Sequence[Expendable]) -> list[Expendable]:
    """Return the memories that can be deleted so that nothing outdated becomes current, in the order to delete them.

    A memory that supersedes or corrects one that stays, stays. The others keep their order, but each comes after what
    it supersedes or corrects, so that this also holds if only the first are deleted.
    """
    places = {memory.id: place for place, memory in enumerate(found)}
    links = [*reader.lifecycle.superseded_by(places), *reader.memories.corrections(places)]
    kept = set[int]()
    for link in sorted(links, key=lambda link: link.newer_id):  # ids ascend along a chain
        if link.older_id not in places or link.older_id in kept:
            kept.add(link.newer_id)
    for link in sorted(links, key=lambda link: -link.newer_id):
        if link.older_id in places:
            places[link.older_id] = min(places[link.older_id], places[link.newer_id])
    left = [memory for memory in found if memory.id not in kept]
    return sorted(left, key=lambda memory: (places[memory.id], memory.id))


def kept_message(number: int) -> str:
    """Say how many old memories a clean-up keeps, and why."""
    reason = "it supersedes or corrects one that stays" if number == 1 else "they supersede or correct ones that stay"
    return f"Kept {counted(number, 'old memory', 'old memories')}: {reason}."


def expendable_by(reader: Reader, rule: RetentionRule) -> list[Expendable]:
    """Return the memories that a rule removes."""
    if rule.session is None:
        return reader.memories.expendable(older_than(rule.days, rule.kind, agent_id=rule.agent))
    names, _ = reader.sessions.find_names("session_id", "", Scope(as_of=ANY), MOST_SESSIONS)
    sessions = tuple(name for name in names if fnmatchcase(name, rule.session))
    return reader.memories.expendable(older_than(rule.days, sessions=sessions))
