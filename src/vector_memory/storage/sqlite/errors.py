"""Translates SQLite's errors: a damaged or altered file can contain any bytes."""

import contextlib
import json
import logging
from collections.abc import Iterator

import apsw

from vector_memory.errors import DatabaseError, DatabaseLockError, where
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.write_lock import LOCK_ADVICE

logger = logging.getLogger(__name__)

RUN_FIX = (
    "The tables of the database were altered: run `vector-memory doctor --fix`, or restore the database "
    "from a backup if that does not help."
)
FULL = "The disk or the database is full. Nothing was changed; free some space and repeat the call."
UNUSABLE = "The database contains invalid data: run `vector-memory doctor` to find out what is wrong."
# sqlite-vec also fails with this error when the disk fails; it does not pass on the reason.
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
}


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Translate errors of SQLite into errors of this package.

    SQLite's messages can contain SQL or stored text, so they are not passed on.
    """
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise DatabaseLockError(LOCK_ADVICE) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DatabaseError("The database contains unreadable text: restore it from a backup.") from error
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        # Values are checked where they are read, but not against each other.
        logger.error("Invalid value: %s", where(error))  # noqa: TRY400 - a traceback would contain its message
        raise DamagedError(UNUSABLE) from error
    except apsw.Error as error:
        advice = (
            "The database reported an unknown failure. Nothing was changed: check the disk and its free space, "
            "repeat the call, and restore the database from a backup if that does not help."
        )
        raise DatabaseError(FAILURES.get(type(error), advice)) from error
