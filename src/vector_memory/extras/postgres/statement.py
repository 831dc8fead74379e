"""SQL with its parameters as a value that can be sent later, and statements that are sent at once."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.waiting import Ready, Wait

if TYPE_CHECKING:
    import numpy as np

    from vector_memory.extras.postgres.connection import Connection
    from vector_memory.storage.scoring import Numbers, Vectors

Row = tuple[Any, ...]

Cursor = psycopg.Cursor[Row]

Parameters = Sequence[Any] | Mapping[str, Any] | None


class Statement(NamedTuple):
    """A statement with its parameters. `binary`: its results are sent as PostgreSQL stores them."""

    sql: str
    parameters: Parameters = None
    binary: bool = False


class Batch(psycopg.Pipeline):
    """A pipeline that sends everything at its end, and nothing afterwards.

    A process that is stopped in a transaction keeps its locks until the server ends it for being idle. The server does
    not if more statements are on their way, nor if a request to flush comes last, as psycopg sends one.
    """

    _is_complete = False

    def _communicate_gen(self) -> PQGen[None]:
        if self._is_complete:
            yield from super()._communicate_gen()

    def _exit_gen(self) -> PQGen[None]:
        self._is_complete = True
        self._enqueue_sync()
        try:
            yield from self._communicate_gen()
        except psycopg.Error:
            with suppress(psycopg.Error):  # later errors only say that an earlier statement has failed
                yield from self._rest_gen()
            raise
        yield from self._rest_gen()

    def _rest_gen(self) -> PQGen[None]:
        while self.pgconn.flush():  # the socket may have taken only part of the last statements
            ready = yield Wait.RW
            if ready & Ready.R:
                self.pgconn.consume_input()
        yield from self._fetch_gen(flush=False)


# Reads rows as named values: by column name, never by position.


T = TypeVar("T")


def fetch(connection: "Connection", make: Callable[..., T], sql: str, parameters: Parameters = None) -> list[T]:
    """Run a query and return `make(**columns)` for each row."""
    return rows_of(connection.execute(sql, parameters), make)


def rows_of(cursor: Cursor, make: Callable[..., T]) -> list[T]:
    """Return `make(**columns)` for each row of a query that was run."""
    names = tuple(column.name for column in cursor.description or ())
    if getattr(make, "_fields", None) == names:  # a named tuple, which is made of values faster than by names
        return [make(*row) for row in cursor.fetchall()]
    return [make(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def fetch_one(connection: "Connection", make: Callable[..., T], sql: str, parameters: Parameters = None) -> T | None:
    """Run a query and return `make(**columns)` for its first row, or None."""
    return next(iter(fetch(connection, make, sql, parameters)), None)


def fetch_value(connection: "Connection", sql: str, parameters: Parameters = None) -> Any:
    """Run a query and return the first column of its first row, or None."""
    row = connection.execute(sql, parameters).fetchone()
    return row[0] if row else None


def fetch_column(connection: "Connection", sql: str, parameters: Parameters = None) -> list[Any]:
    """Run a query and return the first column of every row."""
    return [row[0] for row in connection.execute(sql, parameters).fetchall()]


# Arrays of numbers and vectors as PostgreSQL sends and receives them, without text.


ELEMENTS = {"l": (20, 1016), "q": (20, 1016), "f": (700, 1021)}
"""The types of the elements of NumPy's arrays, and those of the arrays: bigint and real."""


class ArrayDumper(Dumper):
    """Sends an array of NumPy as a `bigint[]` or `real[]` of one dimension."""

    format = Format.BINARY

    def __init__(self, cls: type, context: Any = None, *, code: str = "") -> None:
        super().__init__(cls, context)
        if code:
            self.oid = ELEMENTS[code][1]

    def get_key(self, obj: "np.ndarray[Any, Any]", format: Any) -> Any:  # noqa: A002, ARG002 - named by psycopg
        """Return what chooses a dumper: the type of the elements."""
        return (self.cls, obj.dtype.char)

    def upgrade(self, obj: "np.ndarray[Any, Any]", format: Any) -> "ArrayDumper":  # noqa: A002, ARG002
        """Return the dumper for arrays with such elements."""
        return ArrayDumper(self.cls, code=obj.dtype.char)

    def dump(self, obj: "np.ndarray[Any, Any]") -> bytes:
        """Return a header and the elements, each after its length."""
        import numpy as np  # noqa: PLC0415

        values = obj.ravel()
        elements = np.empty(len(values), [("size", ">i4"), ("value", values.dtype.newbyteorder(">"))])
        elements["size"], elements["value"] = values.itemsize, values
        header = [1, 0, ELEMENTS[values.dtype.char][0], len(values), 1] if len(values) else [0, 0, 20]
        return np.array(header, ">i4").tobytes() + elements.tobytes()


def register(adapters: AdaptersMap) -> None:
    """Let a connection send arrays of NumPy."""
    adapters.register_dumper("numpy.ndarray", ArrayDumper)


def as_vectors(sent: Sequence[bytes], dimensions: int) -> "Vectors":
    """Return vectors that pgvector sent: each a header of 4 bytes, and its numbers. Shape (vectors, dimensions)."""
    import numpy as np  # noqa: PLC0415

    rows = np.frombuffer(b"".join(sent), ">f4").reshape(-1, 1 + dimensions)
    return rows[:, 1:].astype(np.float32)


def as_numbers(sent: bytes | None) -> "Numbers":
    """Return integers that `int8send` made, one after the other; None: there are none."""
    import numpy as np  # noqa: PLC0415

    return np.frombuffer(sent or b"", ">i8").astype(np.int64)
