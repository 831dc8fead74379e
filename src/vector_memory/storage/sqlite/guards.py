"""What every connection is guarded against: statements that never end, values of another type, errors of SQLite.

SQLite stores any value in any column, and a damaged or altered file can hold whatever bytes it likes. So rows are
checked here, once, where they enter Python; what reads them can rely on the declared types.
"""

import contextlib
import json
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import apsw

from vector_memory.errors import DatabaseError, DatabaseLockError, where
from vector_memory.storage.sqlite.write_lock import LOCK_ADVICE

logger = logging.getLogger(__name__)

READING_SECONDS = 60.0
"""A statement of a reading connection may take so much processor time: brute force over a million vectors takes 5 s."""

WRITING_SECONDS = 900.0
"""A statement of a writing connection: an upgrade may build an index over everything."""

STEPS = 200_000
"""Instructions of SQLite's virtual machine between two looks at the clock: some milliseconds."""

CHECKED_STATEMENTS = 1_000
"""So many statements are remembered with the types of their columns."""

TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int, type(None)),
    "real": (float, int, type(None)),
    "text": (str, type(None)),
    "blob": (bytes, type(None)),
}

WRONG_TYPE = (
    "The database contains a value of the wrong type: run `vector-memory doctor --fix`, or restore a backup if "
    "that does not help."
)

RUN_FIX = (
    "The tables of the database were altered: run `vector-memory doctor --fix`, or restore the database "
    "from a backup if that does not help."
)
FULL = "The disk or the database is full. Nothing was changed; free some space and repeat the call."
UNUSABLE = "The database contains invalid data: run `vector-memory doctor` to find out what is wrong."
# A statement also fails like this when the disk fails under sqlite-vec, which does not pass the reason on.
BROKEN = (
    "A statement failed, and nothing was changed: check the disk and repeat the call. If that does not help, run "
    "`vector-memory doctor --fix` to repair the tables, or restore a backup."
)
FAILURES: dict[type[apsw.Error], str] = {
    apsw.FullError: FULL,
    apsw.IOError: "The disk reported an error. Nothing was changed; check the disk and repeat the call.",
    apsw.ReadOnlyError: "The database cannot be written: check the permissions of its file and folder.",
    apsw.PermissionsError: "The database cannot be opened: check the permissions of its file and folder.",
    apsw.CantOpenError: "The database cannot be opened: check that its folder exists and is writable.",
    apsw.NotADBError: "The file is not an SQLite database: choose another --database-path.",
    apsw.CorruptError: "The database is damaged: restore it from a backup.",
    apsw.SQLError: BROKEN,
    apsw.MismatchError: RUN_FIX,
    apsw.InterruptError: (
        "A statement took too long and was stopped; nothing was changed. Run `vector-memory doctor` to check whether "
        "the database is damaged."
    ),
}

Row = tuple[Any, ...]


class DamagedError(DatabaseError):
    """What the file holds contradicts its own schema."""


class Guard:
    """Guards one connection, which one thread uses at a time."""

    def __init__(self, connection: apsw.Connection, seconds: float, *, typed: bool) -> None:
        self._seconds = seconds
        self._typed = typed
        self._ends_at = time.thread_time() + seconds
        self._checks: dict[str, Callable[[apsw.Cursor, Row], Row] | None] = {}
        connection.set_progress_handler(self._is_over, STEPS)
        connection.exec_trace = self._begin

    def _is_over(self) -> bool:
        """Tell SQLite whether to interrupt the statement. Processor time: a busy machine shortens nothing."""
        return time.thread_time() > self._ends_at

    def _begin(self, cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        self._ends_at = time.thread_time() + self._seconds
        if self._typed:
            cursor.row_trace = self._check_for(cursor, sql)
        return True

    def _check_for(self, cursor: apsw.Cursor, sql: str) -> Callable[[apsw.Cursor, Row], Row] | None:
        try:
            return self._checks[sql]
        except KeyError:
            if len(self._checks) >= CHECKED_STATEMENTS:
                self._checks.clear()
            check = self._checks[sql] = row_check([column[1] for column in cursor.get_description()])
            return check


def row_check(declared: Sequence[str | None]) -> Callable[[apsw.Cursor, Row], Row] | None:
    """Return what raises DamagedError for a row with other types than declared; None if no type is declared.

    Expressions have no declared type.
    """
    allowed = [TYPES.get((name or "").lower(), ()) for name in declared]
    if not any(allowed):
        return None
    require = type_check(allowed)

    def check(_cursor: apsw.Cursor, row: Row) -> Row:
        require(row)
        return row

    return check


def type_check(allowed: Sequence[Collection[type]]) -> Callable[[Row], None]:
    """Return what raises DamagedError for a row with other types than those; where there are none, any will do."""
    accepted = set[tuple[type, ...]]()

    def check(row: Row) -> None:
        types = (*map(type, row),)
        if types not in accepted:
            if any(wanted and found not in wanted for wanted, found in zip(allowed, types, strict=True)):
                raise DamagedError(WRONG_TYPE)
            accepted.add(types)

    return check


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Turn every error of SQLite into one of ours. SQLite's own words can hold SQL or text, so they stay inside."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise DatabaseLockError(LOCK_ADVICE) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DatabaseError("The database contains a text that cannot be read: restore it from a backup.") from error
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        # Nearly all values are checked where they are read; what they say about each other is not.
        logger.error("Invalid value: %s", where(error))  # noqa: TRY400 - a traceback would hold its words
        raise DamagedError(UNUSABLE) from error
    except apsw.Error as error:
        advice = (
            "The database reported an unknown failure. Nothing was changed: check the disk and its free space, "
            "repeat the call, and restore the database from a backup if that does not help."
        )
        raise DatabaseError(FAILURES.get(type(error), advice)) from error
