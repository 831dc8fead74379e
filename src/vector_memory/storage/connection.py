"""What the queries of every engine are written against: a connection in a transaction, with seven verbs.

SQL is written once, in `queries`, as psycopg reads it: a value is `%(name)s`. Where engines differ, a statement has a
fragment, `{name}` or `{name:argument}`, which the connection's dialect fills in; an f-string has it as `{{name}}`.
`{among:ids}` is such a fragment: a list is bound as it is, and each engine sends it in its own way.

A connection may be limited to some sessions. Then each statement must restrict what it reads: with `{visible:m}`, the
condition that a memory `m` may be seen; with `{visible_id:l.newer_id}`, the same for an id; or with `{exempt:reason}`,
if it reads nothing that others have stored. All other statements are refused.

PostgreSQL infers a value's type from its first comparison, so write `a = %(b)s or %(b)s is null`. A statement is one
command, and must not depend on a clock that advances while it runs.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

from vector_memory.errors import denied

T = TypeVar("T")
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

Parameters = Mapping[str, Any]

NOTHING: Parameters = {}

UNLIMITED = 1 << 62
"""For `limit`, if there is none."""


class Query(NamedTuple):
    """A query, and what makes a value of each row from its columns."""

    make: Callable[..., Any]
    sql: str
    parameters: Parameters = NOTHING


VISIBLE, ONLY_VISIBLE = re.compile(r"{visible:(\w+)}"), r"\1.session_id {among:visible}"

VISIBLE_ID, ONLY_VISIBLE_ID = (
    re.compile(r"{visible_id:(\w+\.\w+)}"),
    r"exists (select 1 from session_memories v where v.id = \1 and v.session_id {among:visible})",
)


@lru_cache(maxsize=1_024)
def limited(sql: str) -> str | None:
    """Restrict a statement to the sessions `visible`; None: the statement does not say how."""
    seen = VISIBLE_ID.sub(ONLY_VISIBLE_ID, VISIBLE.sub(ONLY_VISIBLE, sql))
    return None if "{visible" in seen or (seen == sql and "{exempt:" not in sql) else seen


class Connection(ABC):
    """A connection in a transaction. Rows are read as named values: by column name, never by position.

    `sessions`: the only visible ones; None: all.
    """

    sessions: Sequence[str] | None = None

    def require(self, session_id: str | None) -> None:
        """Raise AccessDeniedError for a session that may not be seen."""
        if self.sessions is not None and session_id not in self.sessions:
            raise denied(self.sessions)

    def require_all(self) -> None:
        """Raise AccessDeniedError if only some sessions may be seen."""
        if self.sessions is not None:
            raise denied(self.sessions)

    def only_visible(self, sql: str, parameters: Parameters) -> tuple[str, Parameters]:
        """Restrict a statement and its parameters to what may be seen. Raises AccessDeniedError."""
        if self.sessions is None:
            return sql, parameters
        visible = limited(sql)
        if visible is None:
            raise denied(self.sessions)
        return visible, {**parameters, "visible": list(self.sessions)}

    @abstractmethod
    def fetch(self, make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> list[T]:
        """Run a query and return `make(**columns)` for each row."""

    def fetch_one(self, make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> T | None:
        """Run a query and return `make(**columns)` for its first row, or None."""
        return next(iter(self.fetch(make, sql, parameters)), None)

    def fetch_value(self, sql: str, parameters: Parameters = NOTHING) -> Any:
        """Run a query and return the first column of its first row, or None."""
        return next(iter(self.fetch_column(sql, parameters)), None)

    @abstractmethod
    def fetch_column(self, sql: str, parameters: Parameters = NOTHING) -> list[Any]:
        """Run a query and return the first column of every row."""

    @abstractmethod
    def batch(self, *asked: Query) -> list[list[Any]]:
        """Run several queries, in one round trip if the engine can, and return for each what `fetch` returns."""

    @abstractmethod
    def later(self, sql: str, parameters: Parameters = NOTHING) -> None:
        """Run a statement before the next read or the commit at the latest. Its result is not read."""

    @abstractmethod
    def insert(self, table: str, rows: Sequence[Parameters], on_conflict: str = "") -> None:
        """Insert rows of the same columns, when `later` would run.

        `on_conflict`: the statement's clause for rows that exist.
        """


# What does not need each other takes one round trip if it is read together. So a method of a reader that is decorated
# with `read` is a generator: it yields each query and is sent the rows. Called, it reads at once;
# `reader.method.steps(...)` is the read as a value, for `Reader.together`.

Steps = Generator[Query | None, Any, R_co]
"""A read: it yields queries, is sent their rows, and returns the result. It yields None to wait for a round trip."""


def ask(make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> Steps[list[T]]:
    """Read `make(**columns)` of each row of a query."""
    rows: list[T] = yield Query(make, sql, parameters)
    return rows


class BoundRead(Generic[P, T]):
    """A read of one reader."""

    def __init__(self, reader: "Queries", steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._reader, self.function = reader, steps

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> T:
        """Read at once."""
        return self._reader.run(self.function(self._reader, *arguments, **named))

    def steps(self, *arguments: P.args, **named: P.kwargs) -> Steps[T]:
        """Return the read as a value."""
        return self.function(self._reader, *arguments, **named)


class read(Generic[P, T]):  # noqa: N801 - a decorator
    """Turn a generator function or method whose first parameter is a reader into a read."""

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

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """See and change everything for a while."""
        connection, sessions = self.connection, self.connection.sessions
        connection.sessions = None
        try:
            yield
        finally:
            connection.sessions = sessions

    def run(self, steps: Steps[T]) -> T:
        """Return the result of a read."""
        result: T = self.together(steps)[0]
        return result

    def together(self, *reads: Steps[Any]) -> list[Any]:
        """Return the results of independent reads: the next query of each goes into one batch."""
        results: list[Any] = [None] * len(reads)
        rows: dict[int, list[Any] | None] = dict.fromkeys(range(len(reads)))
        while rows:
            asked: dict[int, Query | None] = {}
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


UNLIMITED_FRAGMENTS = {"visible": Fragment("true"), "visible_id": Fragment("true"), "exempt": Fragment("")}
"""Every dialect's fragments for visibility, where everything is visible."""


class Counted(NamedTuple):
    """A name, and how many have it."""

    name: str
    number: int


def value_of(**columns: Any) -> Any:
    """Return the value of a row with one column."""
    (value,) = columns.values()
    return value
