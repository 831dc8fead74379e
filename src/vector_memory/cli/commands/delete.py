"""The commands that delete memories."""

import sys
from typing import Annotated

from cyclopts import Parameter

from vector_memory.cli.flags import AsJson, LocationFlags, MemoryId, Switch, opened, require_session
from vector_memory.cli.terminal import agreed, one_line, tell
from vector_memory.domain import Scope
from vector_memory.domain.text import counted
from vector_memory.errors import ConfigurationError
from vector_memory.results.sessions import MemoryEntry
from vector_memory.sessions.deletion import Deletion
from vector_memory.sessions.overview import Overview
from vector_memory.settings import DatabaseLocation

DryRun = Annotated[bool, Switch(help="Only say what would be deleted.")]
Yes = Annotated[bool, Switch(alias="-y", help="Do not ask.")]


def delete(
    *memory_ids: MemoryId,
    session: Annotated[str | None, Parameter(help="Delete all memories of this session.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> int:
    """Permanently delete memories and everything derived from them. Only a backup can bring them back.

    In a terminal it asks first.
    """
    if bool(memory_ids) == (session is not None):
        raise ConfigurationError("Name what to delete: ids of memories, or a session with --session.")
    with opened(place, read_only=dry_run) as storage:
        if session is not None:
            require_session(storage, session)
            with storage.read() as reader:
                numbers = reader.ids(Scope(session_id=session))
            what = f"{_memories(len(numbers))} of session {one_line(session)}"
        else:
            entries = [Overview(storage).memory(number) for number in dict.fromkeys(memory_ids)]
            numbers = [entry.id for entry in entries]
            what = _named(entries[0]) if len(entries) == 1 else _memories(len(entries))
        if not dry_run and not _is_agreed(what, yes=yes):
            return 1
        if not dry_run:
            Deletion(storage).delete_all(numbers)
    message = f"{'Would delete' if dry_run else 'Deleted'} {what}."
    single = numbers[0] if len(numbers) == 1 else None
    body = {"success": True, "dry_run": dry_run, "memory_id": single, "memory_ids": numbers, "message": message}
    tell(body, message, as_json=as_json)
    return 0


def cleanup(
    *,
    days: Annotated[int, Parameter(help="Delete memories that were stored more than this many days ago.")] = 90,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> int:
    """Permanently delete old memories of all kinds, except tagged ones. In a terminal it asks first."""
    with opened(place, read_only=dry_run) as storage:
        deletion = Deletion(storage)
        found = deletion.clean_up(days, dry_run=True)
        what = f"{_memories(found.memories_deleted)} older than {counted(days, 'day')}"
        if not dry_run and found.memories_deleted:
            if not _is_agreed(what, yes=yes):
                return 1
            found = deletion.clean_up(days, dry_run=False)
    message = f"{'Would delete' if dry_run else 'Deleted'} {what}."
    tell(found.model_dump() | {"message": message}, message, as_json=as_json)
    return 0


def _memories(number: int) -> str:
    return counted(number, "memory", "memories")


def _named(entry: MemoryEntry) -> str:
    title = f', "{one_line(entry.title)}",' if entry.title else ""
    return f"{entry.memory_type} {entry.id}{title} with all its chunks"


def _is_agreed(what: str, *, yes: bool) -> bool:
    """Ask whether to delete, if somebody can answer."""
    can_ask = sys.stdin.isatty() and sys.stderr.isatty()
    return yes or not can_ask or agreed(f"Delete {what}? This cannot be undone.", "Nothing was deleted.")
