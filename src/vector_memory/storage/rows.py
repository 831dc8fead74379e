"""Rows as named values: columns are read by name, never by position. No cursor outlives the call."""

from collections.abc import Callable
from typing import Any, TypeVar

import apsw

T = TypeVar("T")


def fetch(connection: apsw.Connection, make: Callable[..., T], sql: str, bindings: Any = ()) -> list[T]:
    """Run a query and return `make(**columns)` of every row."""
    cursor = connection.execute(sql, bindings)
    found: list[T] = []
    names: list[str] = []
    for row in cursor:
        names = names or [column[0] for column in cursor.get_description()]
        found.append(make(**dict(zip(names, row, strict=True))))
    return found


def fetch_one(connection: apsw.Connection, make: Callable[..., T], sql: str, bindings: Any = ()) -> T | None:
    """Run a query and return `make(**columns)` of its first row, or None."""
    found = fetch(connection, make, sql, bindings)
    return found[0] if found else None


def as_dict(**columns: Any) -> dict[str, Any]:
    """Keep a row as it is, for `fetch`."""
    return columns


def fetch_value(connection: apsw.Connection, sql: str, bindings: Any = ()) -> Any:
    """Run a query and return the first column of its first row, or None."""
    rows = connection.execute(sql, bindings).fetchall()
    return rows[0][0] if rows else None


def fetch_column(connection: apsw.Connection, sql: str, bindings: Any = ()) -> list[Any]:
    """Run a query and return the first column of every row."""
    return [row[0] for row in connection.execute(sql, bindings).fetchall()]


def next_ids(connection: apsw.Connection, table: str, count: int) -> list[int]:
    """Return the ids of the next rows of an `autoincrement` table, which hold only inside this write transaction."""
    given = fetch_value(connection, "select seq from sqlite_sequence where name = ?", (table,))
    highest = fetch_value(connection, f"select max(id) from {table}")
    last = max(given or 0, highest or 0)
    return list(range(last + 1, last + 1 + count))
