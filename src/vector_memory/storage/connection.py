"""What the queries of every engine are written against: a connection in a transaction, with seven verbs.

SQL is written once, in `queries`, as psycopg reads it: a value is `%(name)s`. Where engines differ, a statement has a
fragment, `{name}` or `{name:argument}`, which the connection's dialect fills in; an f-string has it as `{{name}}`.
`{among:ids}` is such a fragment: a list is bound as it is, and each engine sends it in its own way.

What PostgreSQL must know stands first: the type of a value is clear where it is compared, so `a = %(b)s or %(b)s is
null`. A statement is one command, and changes nothing by the time of a clock that goes on during it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

Parameters = Mapping[str, Any]

NOTHING: Parameters = {}

UNLIMITED = 1 << 62
"""For `limit`, if there is none."""


class Asked(NamedTuple):
    """A query, and what makes a value of each row from its columns."""

    make: Callable[..., Any]
    sql: str
    parameters: Parameters = NOTHING


class Connection(Protocol):
    """A connection in a transaction. Rows are read as named values: by column name, never by position."""

    def fetch(self, make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> list[T]:
        """Run a query and return `make(**columns)` for each row."""

    def fetch_one(self, make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> T | None:
        """Run a query and return `make(**columns)` for its first row, or None."""

    def fetch_value(self, sql: str, parameters: Parameters = NOTHING) -> Any:
        """Run a query and return the first column of its first row, or None."""

    def fetch_column(self, sql: str, parameters: Parameters = NOTHING) -> list[Any]:
        """Run a query and return the first column of every row."""

    def batch(self, *asked: Asked) -> list[list[Any]]:
        """Run several queries, in one round trip if the engine can, and return for each what `fetch` returns."""

    def later(self, sql: str, parameters: Parameters = NOTHING) -> None:
        """Run a statement, at the latest before the next one that is read, or the commit. Its result is not read."""

    def insert(self, table: str, rows: Sequence[Parameters], on_conflict: str = "") -> None:
        """Insert rows of the same columns, when `later` would run. An engine leaves out columns that it does not have.

        `on_conflict`: the clause of the statement that says what to do with rows that are there.
        """


class Queries:
    """The queries of one subject, over a connection in a transaction. `Reader` and `Writer` are made of these."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection


class Fragment(str):
    """SQL with `?` for an argument, which a format gives: `{name:argument}`."""

    __slots__ = ()

    def __format__(self, argument: str) -> str:
        """Return the SQL for an argument."""
        return self.replace("?", argument)


class Counted(NamedTuple):
    """A name, and how many have it."""

    name: str
    number: int


def value_of(**columns: Any) -> Any:
    """Return the value of a row with one column."""
    (value,) = columns.values()
    return value


def texts(values: Sequence[Any]) -> list[str]:
    """Return values as texts, for a parameter."""
    return list(map(str, values))
