"""Whole databases as files: copied while servers write, and replaced while none does."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import apsw

from vector_memory.errors import DatabaseLockError
from vector_memory.storage.disk.drafts import Draft, Rules, draft_of
from vector_memory.storage.disk.filesystem import log_index_of, log_of
from vector_memory.storage.disk.protection import (
    APPLICATION_AT,
    BACKUP,
    JOURNAL_MODE_AT,
    LOGGED,
    ROLLBACK,
    is_open,
    is_unused_backup,
)
from vector_memory.storage.sqlite.guards import translated_errors
from vector_memory.storage.sqlite.inspection import inspect

PAGES_PER_STEP = 256

Progress = Callable[[int, int], None]
"""Called with the number of pages done and the number there are."""

IN_USE = (
    "Another process has the database open: stop the servers that use it (close the agents' clients), then repeat. "
    "Nothing was changed."
)
IN_USE_HERE = "This process has the database open: close it, then repeat. Nothing was changed."


def copy_database(source: Path, target: Path, on_progress: Progress | None = None) -> None:
    """Copy `source`, as it is at one moment, to the draft `target`. No writer has to wait."""
    with translated_errors(), contextlib.closing(apsw.Connection(str(target))) as connection:
        # A draft that is not finished is thrown away, and publishing it waits for the disk.
        connection.pragma("journal_mode", "off")
        connection.pragma("synchronous", "off")
        _copy(source, connection, on_progress)


def replace_database(source: Path, target: Path, kept: Path, on_progress: Progress | None = None) -> None:
    """Write a copy of `source`, which nobody uses, over the database `target`, whose bytes are kept as the file `kept`.

    `target` may be damaged. It stays the same file and is written under SQLite's own locks: a process that opens it
    now waits and then sees the new content; after a crash it is the old or the new one. Raises DatabaseLockError if
    a process has it open.
    """
    if is_open(target):
        raise DatabaseLockError(IN_USE_HERE)
    # Opened before SQLite's locks are taken and closed after: closing a file drops all locks that a process has on it.
    with target.open("rb") as old, translated_errors(), _alone(target) as connection:
        _keep(old, log_of(target), kept)
        _copy(source, connection, on_progress)
        # Nobody else can have it open. SQLite removes the log itself, when it has moved it into the file.
        log_index_of(target).unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[apsw.Connection]:
    """Give a connection that locks everybody else out, and takes whatever is in the file for an empty database."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.pragma("locking_mode", "exclusive")
        connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
        try:
            connection.execute("begin exclusive")
        except (apsw.BusyError, apsw.LockedError):
            raise DatabaseLockError(IN_USE) from None
        connection.execute("rollback")  # the lock stays until the connection is closed
        yield connection
        connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)


def _copy(source: Path, target: apsw.Connection, on_progress: Progress | None) -> None:
    def look(connection: apsw.Connection) -> None:
        connection.execute("select 1 from sqlite_schema").fetchall()  # from here on one state is read, to the end
        with target.backup("main", connection, "main") as backup:
            while not backup.done:
                backup.step(PAGES_PER_STEP)
                if on_progress is not None:
                    on_progress(backup.page_count - backup.remaining, backup.page_count)

    inspect(source, look)


def _keep(old: IO[bytes], log: Path, kept: Path) -> None:
    """Write the bytes of a database, and of its log if it has one, to private files."""
    _write(old, kept)
    if log.exists():
        with log.open("rb") as stream:
            _write(stream, log_of(kept))


def _write(stream: IO[bytes], target: Path) -> None:
    with draft_of(target, Rules(is_database=True)) as draft:
        with draft.open() as file:
            shutil.copyfileobj(stream, file)
        draft.publish()


def mark_backup(draft: Draft) -> None:
    """Let a copy tell that it is one until somebody opens it for use, by the fields that SQLite's header has for it.

    A copy of the original server's file is left alone: that server would use it without a write-ahead log.
    """
    if draft.header()[JOURNAL_MODE_AT : JOURNAL_MODE_AT + len(LOGGED)] == LOGGED:
        draft.patch(ROLLBACK, JOURNAL_MODE_AT)
        draft.patch(BACKUP, APPLICATION_AT)


def unmark_backup(draft: Draft) -> None:
    """Let a copy be a memory."""
    if is_unused_backup(draft.header()):
        draft.patch(LOGGED, JOURNAL_MODE_AT)
        draft.patch(bytes(len(BACKUP)), APPLICATION_AT)
