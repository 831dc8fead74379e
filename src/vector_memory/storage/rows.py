"""Rows as named values: columns are read by name, never by position. No cursor outlives the call."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from vector_memory.storage.guards import WRONG_TYPE, DamagedError

T = TypeVar("T")

WRONG_JSON = "The database holds a text that cannot be read: restore it from a backup."


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


def texts_in(value: str) -> list[str]:
    """Return the texts of a list that is stored as JSON. Raises DamagedError if it is something else."""
    texts = _parsed(value)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DamagedError(WRONG_TYPE)
    return texts


def object_in(value: str) -> dict[str, Any]:
    """Return an object that is stored as JSON. Raises DamagedError if it is something else."""
    stored = _parsed(value)
    if not isinstance(stored, dict):
        raise DamagedError(WRONG_TYPE)
    return stored


def _parsed(value: str) -> Any:
    try:
        parsed = json.loads(value)
        if "\\u" in value:
            json.dumps(parsed, ensure_ascii=False).encode()  # half of a surrogate pair could not be sent
    except (ValueError, RecursionError) as error:
        raise DamagedError(WRONG_JSON) from error
    return parsed
