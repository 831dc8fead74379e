"""Copies whole databases while servers write, and replaces them while no process uses them."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import apsw

from vector_memory.errors import DatabaseLockError, ValidationError
from vector_memory.storage.damaged import texts_in
from vector_memory.storage.disk.drafts import (
    APPLICATION_AT,
    BACKUP,
    JOURNAL_MODE_AT,
    LOGGED,
    ROLLBACK,
    Draft,
    Rules,
    draft_of,
    is_open,
    is_unused_backup,
)
from vector_memory.storage.disk.filesystem import log_index_of, log_of
from vector_memory.storage.sqlite.connecting import flush_the_disk_too
from vector_memory.storage.sqlite.inspection import inspect
from vector_memory.storage.sqlite.legacy import normal_tags, normal_time
from vector_memory.storage.sqlite.rows import as_dict, fetch, fetch_column, translated_errors

PAGES_PER_STEP = 256

Progress = Callable[[int, int], None]
"""Called with the number of pages done and the total."""

IN_USE = (
    "Another process has the database open: stop the servers that use it (close the agents' clients), then repeat. "
    "Nothing was changed."
)
IN_USE_HERE = "This process has the database open: close it, then repeat. Nothing was changed."


def copy_database(source: Path, target: Path, on_progress: Progress | None = None) -> None:
    """Copy one state of `source` to the draft `target`. Writers do not have to wait."""
    with translated_errors(), contextlib.closing(apsw.Connection(str(target))) as connection:
        # An unfinished draft is discarded, and publishing it syncs it to disk.
        connection.pragma("journal_mode", "off")
        connection.pragma("synchronous", "off")
        _copy(source, connection, on_progress)


def replace_database(
    target: Path, kept: Path, new: Callable[[Path], Path], on_progress: Progress | None = None
) -> None:
    """Write a copy of what `new` returns, which no process uses, over the database `target`.

    The old bytes are saved in `kept`, from which `new` may make the new database; if it fails, they are removed again.
    `target` may be damaged. It stays the same file and is written under SQLite's own locks. A process that opens it now
    waits and then sees the new content; after a crash, the file has the old or the new content. Raises
    DatabaseLockError if a process has it open.
    """
    if is_open(target):
        raise DatabaseLockError(IN_USE_HERE)
    # Opened before SQLite takes its locks and closed afterwards: closing a file drops all locks of the process on it.
    with target.open("rb") as old, translated_errors(), exclusive_connection(target) as connection:
        _save_bytes(old, log_of(target), kept)
        try:
            source = new(kept)
        except BaseException:
            for file in (kept, log_of(kept), log_index_of(kept)):
                file.unlink(missing_ok=True)
            raise
        _copy(source, connection, on_progress)
        # No other process can have it open. SQLite removes the log itself, after it has moved it into the file.
        log_index_of(target).unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive_connection(path: Path) -> Iterator[apsw.Connection]:
    """Yield a connection that locks out all others and treats the content of the file as an empty database."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        flush_the_disk_too(connection)
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
    def copy(connection: apsw.Connection) -> None:
        connection.execute("select 1 from sqlite_schema").fetchall()  # pins one state until the end
        with target.backup("main", connection, "main") as backup:
            while not backup.done:
                backup.step(PAGES_PER_STEP)
                if on_progress is not None:
                    on_progress(backup.page_count - backup.remaining, backup.page_count)

    inspect(source, copy)


def _save_bytes(old: IO[bytes], log: Path, kept: Path) -> None:
    """Write the bytes of a database, and of its log if there is one, to private files."""
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
    """Mark a copy as a backup, in header fields of SQLite, until a process opens it for use.

    A copy of the original server's file is not marked: that server would use it without a write-ahead log.
    """
    if draft.header()[JOURNAL_MODE_AT : JOURNAL_MODE_AT + len(LOGGED)] == LOGGED:
        draft.patch(ROLLBACK, JOURNAL_MODE_AT)
        draft.patch(BACKUP, APPLICATION_AT)


def unmark_backup(draft: Draft) -> None:
    """Remove the mark, so that the copy is an ordinary database."""
    if is_unused_backup(draft.header()):
        draft.patch(LOGGED, JOURNAL_MODE_AT)
        draft.patch(bytes(len(BACKUP)), APPLICATION_AT)


COLUMNS = {"id", "content", "category", "tags", "created_at", "updated_at", "access_count"}


class ForeignNote(NamedTuple):
    """A note as it is there; times are in this store's format. Reading a note was an update of it there."""

    content: str
    category: str
    tags: list[str]
    created_at: str
    read_at: str
    access_count: int


def foreign_notes(path: Path) -> Iterator[ForeignNote]:
    """Yield the notes by id, one at a time. Raises ValidationError for any other database, DatabaseError."""
    with translated_errors():
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            if not set(fetch_column(connection, "select name from pragma_table_info('memory_metadata')")) >= COLUMNS:
                raise ValidationError(
                    "The database is not one of the tagged memory server, so it cannot be imported: open a memory "
                    "with --database-path, and import what `vector-memory export` wrote of it."
                )
            for note_id in fetch_column(connection, "select id from memory_metadata order by id"):
                (row,) = fetch(connection, as_dict, "select * from memory_metadata where id = ?", (note_id,))
                yield foreign_note(row)
        finally:
            connection.close()


def foreign_note(row: dict[str, Any]) -> ForeignNote:
    """Return the note in a row of `memory_metadata`."""
    created_at = normal_time(row["created_at"])
    return ForeignNote(
        content=str(row["content"]),
        category=str(row["category"]),
        tags=texts_in(normal_tags(row["tags"])),
        created_at=created_at,
        read_at=normal_time(row["updated_at"] or created_at),
        access_count=int(row["access_count"] or 0),
    )
