"""Reads rows as named values: by column name, never by position."""

from collections.abc import Callable
from typing import Any, TypeVar

from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.statement import Cursor, Parameters

T = TypeVar("T")


def fetch(connection: Connection, make: Callable[..., T], sql: str, parameters: Parameters = None) -> list[T]:
    """Run a query and return `make(**columns)` for each row."""
    return rows_of(connection.execute(sql, parameters), make)


def rows_of(cursor: Cursor, make: Callable[..., T]) -> list[T]:
    """Return `make(**columns)` for each row of a query that was run."""
    names = tuple(column.name for column in cursor.description or ())
    if getattr(make, "_fields", None) == names:  # a named tuple, which is made of values faster than by names
        return [make(*row) for row in cursor.fetchall()]
    return [make(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def fetch_one(connection: Connection, make: Callable[..., T], sql: str, parameters: Parameters = None) -> T | None:
    """Run a query and return `make(**columns)` for its first row, or None."""
    return next(iter(fetch(connection, make, sql, parameters)), None)


def fetch_value(connection: Connection, sql: str, parameters: Parameters = None) -> Any:
    """Run a query and return the first column of its first row, or None."""
    row = connection.execute(sql, parameters).fetchone()
    return row[0] if row else None


def fetch_column(connection: Connection, sql: str, parameters: Parameters = None) -> list[Any]:
    """Run a query and return the first column of every row."""
    return [row[0] for row in connection.execute(sql, parameters).fetchall()]
