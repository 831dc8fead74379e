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
