"""Reads rows as named values: by column name, never by position. No cursor outlives the call.

SQLite stores any value in any column, so types are checked here, once; the code that reads the values relies on them.
"""

import contextlib
import itertools
import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import apsw

from vector_memory.errors import DatabaseError, DatabaseLockError, where
from vector_memory.storage.cancellation import require_wanted
from vector_memory.storage.damaged import WRONG_TYPE, DamagedError
from vector_memory.storage.write_lock import LOCK_ADVICE

T = TypeVar("T")

SIMPLE: dict[object, type] = {kind: kind for kind in (int, float, str, bytes, bool, NoneType)}


def fetch(connection: apsw.Connection, make: Callable[..., T], sql: str, bindings: Any = ()) -> list[T]:
    """Run a query and return `make(**columns)` for each row."""
    require_wanted()
    cursor = connection.execute(sql, bindings)
    if (first := next(cursor, None)) is None:
        return []
    names = tuple(column[0] for column in cursor.get_description())
    rows = [first, *cursor]
    _type_check(make, names).require({tuple(map(type, row)) for row in rows})
    if getattr(make, "_fields", None) == names:  # a named tuple is made of values faster than by names
        return list(itertools.starmap(make, rows))
    return [make(**dict(zip(names, row, strict=True))) for row in rows]


class TypeCheck:
    """Checks the types of rows. `allowed`: those of each column; empty: all."""

    def __init__(self, allowed: Sequence[Collection[type]]) -> None:
        self._allowed = allowed
        self._accepted = set[tuple[type, ...]]()

    def require(self, found: set[tuple[type, ...]]) -> None:
        """Raise DamagedError for rows with other types than allowed."""
        for types in found - self._accepted:
            if any(wanted and one not in wanted for wanted, one in zip(self._allowed, types, strict=True)):
                raise DamagedError(WRONG_TYPE)
            self._accepted.add(types)


@lru_cache(maxsize=256)
def _type_check(make: Callable[..., object], names: tuple[str, ...]) -> TypeCheck:
    """Return the type check for rows that `make` receives.

    For columns that a function passes on as keyword arguments, the type comes from the class that it returns.
    """
    hints = get_type_hints(make)
    if isinstance(made := hints.pop("return", None), type):
        hints = get_type_hints(made) | hints
    return TypeCheck([_simple_types(hints.get(name)) for name in names])


def _simple_types(hint: object) -> tuple[type, ...]:
    """Return the types that SQLite may return for an annotation; empty if they are not known."""
    wanted = get_args(hint) or (hint,)
    if not all(kind in SIMPLE for kind in wanted):
        return ()
    return tuple(SIMPLE[kind] for kind in wanted) + ((int,) if {bool, float} & set(wanted) else ())


def as_dict(**columns: Any) -> dict[str, Any]:
    """Return a row as a dict; for `fetch`."""
    return columns


def fetch_value(connection: apsw.Connection, sql: str, bindings: Any = ()) -> Any:
    """Run a query and return the first column of its first row, or None."""
    require_wanted()
    rows = connection.execute(sql, bindings).fetchall()
    return rows[0][0] if rows else None


def fetch_column(connection: apsw.Connection, sql: str, bindings: Any = ()) -> list[Any]:
    """Run a query and return the first column of every row."""
    require_wanted()
    return [row[0] for row in connection.execute(sql, bindings).fetchall()]


logger = logging.getLogger(__name__)

# Translates SQLite's errors: a damaged or altered file can contain any bytes.

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
