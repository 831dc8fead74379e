"""SQL with its parameters, as a value that can wait until it is sent."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

Row = tuple[Any, ...]

Cursor = psycopg.Cursor[Row]

Parameters = Sequence[Any] | Mapping[str, Any] | None


class Statement(NamedTuple):
    """A statement with its parameters. `binary`: its results are sent as PostgreSQL stores them."""

    sql: str
    parameters: Parameters = None
    binary: bool = False

    def is_same(self, other: "Statement") -> bool:
        """Return whether another statement has the same answer."""
        return (self.sql, self.binary, comparable(self.parameters)) == (
            other.sql, other.binary, comparable(other.parameters),
        )  # fmt: skip


def comparable(parameters: Parameters) -> list[tuple[Any, Any]]:
    """Return parameters with their names or places, and arrays of NumPy as bytes, which can be compared as a whole."""
    named = parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters or ())
    return [(name, value.tobytes() if hasattr(value, "tobytes") else value) for name, value in named]
