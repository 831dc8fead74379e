"""Reads rows as named values: by column name, never by position. No cursor outlives the call.

SQLite stores any value in any column, so types are checked here, once; the code that reads the values relies on them.
"""

import itertools
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import apsw

from vector_memory.storage.cancellation import require_wanted
from vector_memory.storage.damaged import WRONG_TYPE, DamagedError

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


def next_ids(connection: apsw.Connection, table: str, count: int) -> list[int]:
    """Return the ids for the next rows of an `autoincrement` table. They are valid only in this write transaction."""
    given = fetch_value(connection, "select seq from sqlite_sequence where name = ?", (table,))
    highest = fetch_value(connection, f"select max(id) from {table}")
    last = max(given or 0, highest or 0)
    return list(range(last + 1, last + 1 + count))
