"""What the queries of every engine are written against: a connection in a transaction, with seven verbs.

SQL is written once, in `queries`, as psycopg reads it: a value is `%(name)s`. Where engines differ, a statement has a
fragment, `{name}` or `{name:argument}`, which the connection's dialect fills in; an f-string has it as `{{name}}`.
`{among:ids}` is such a fragment: a list is bound as it is, and each engine sends it in its own way.

What PostgreSQL must know stands first: the type of a value is clear where it is compared, so `a = %(b)s or %(b)s is
null`. A statement is one command, and changes nothing by the time of a clock that goes on during it.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

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


# What does not need each other takes one round trip if it is read together. So a method of a reader that is decorated
# with `read` is a generator: it yields each query and is sent the rows. Called, it reads at once;
# `reader.method.steps(...)` is the read as a value, for `Reader.together`.

Steps = Generator[Asked | None, Any, R_co]
"""A read: it yields queries, is sent their rows, and returns the result. It yields None to wait for a round trip."""


def ask(make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> Steps[list[T]]:
    """Read `make(**columns)` of each row of a query."""
    rows: list[T] = yield Asked(make, sql, parameters)
    return rows


class BoundRead(Generic[P, T]):
    """A read of one reader."""

    def __init__(self, reader: "Queries", steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._reader, self._steps = reader, steps

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> T:
        """Read at once."""
        return self._reader.run(self._steps(self._reader, *arguments, **named))

    def steps(self, *arguments: P.args, **named: P.kwargs) -> Steps[T]:
        """Return the read as a value."""
        return self._steps(self._reader, *arguments, **named)


class read(Generic[P, T]):  # noqa: N801 - a decorator
    """Make a read of a generator function whose first parameter is a reader: a method, or a function."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__

    def __get__(self, reader: Any, _type: type) -> BoundRead[P, T]:
        return BoundRead(reader, self.steps)

    def __call__(self, reader: "Queries", *arguments: P.args, **named: P.kwargs) -> T:
        """Read at once."""
        return reader.run(self.steps(reader, *arguments, **named))


class Queries:
    """The queries of one subject, over a connection in a transaction. `Reader` and `Writer` are made of these."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def run(self, steps: Steps[T]) -> T:
        """Return the result of a read."""
        result: T = self.together(steps)[0]
        return result

    def together(self, *reads: Steps[Any]) -> list[Any]:
        """Return the results of reads that do not need each other: each next query of all of them in one batch."""
        results: list[Any] = [None] * len(reads)
        rows: dict[int, list[Any] | None] = dict.fromkeys(range(len(reads)))
        while rows:
            asked: dict[int, Asked | None] = {}
            for place, answer in rows.items():
                try:
                    asked[place] = reads[place].send(answer)
                except StopIteration as end:
                    results[place] = end.value
            answers = iter(self.connection.batch(*filter(None, asked.values())))
            rows = {place: next(answers) if one is not None else [] for place, one in asked.items()}
        return results


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
