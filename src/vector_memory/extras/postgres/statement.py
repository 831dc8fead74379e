"""SQL for PostgreSQL: its fragments, statements with their parameters, and rows as values."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.waiting import Ready, Wait

from vector_memory.extras.postgres.schema import TABLES
from vector_memory.storage.connection import UNLIMITED_FRAGMENTS, Fragment

if TYPE_CHECKING:
    from vector_memory.extras.postgres.connection import Connection
    from vector_memory.storage.scoring import Numbers, Vectors

DIALECT = UNLIMITED_FRAGMENTS | {
    "among": Fragment("= any(%(?)s)"),
    "among_texts": Fragment("= any(%(?)s::text[])"),
    "each": Fragment("unnest(%(?)s::bigint[]) each(value)"),
    "each_pair": Fragment(
        "(select n as number, (%(?)s::bigint[])[n][1] as first, (%(?)s::bigint[])[n][2] as second"
        " from generate_subscripts(%(?)s::bigint[], 1) n)"
    ),
    "each_tag": Fragment("unnest(?.tags) tag(value)"),
    "has_tag": Fragment("m.tags && %(?)s::text[]"),
    "tags": Fragment("array_to_json(?.tags)::text"),
    "category": Fragment("?.category"),
    "project": Fragment("?.project"),
    "about_report": Fragment("?.about_report"),
    "corrects": Fragment("""position('"corrects": true' in ?.metadata) > 0"""),
    "characters": Fragment("?.content_length"),
    "octets": Fragment("?.content_bytes"),
    "indexed_by": Fragment(""),
    "unindexed": Fragment("?"),
    "json_array": Fragment("json_agg(?)::text"),
    "listed": Fragment("json_agg(? order by id)::text"),
    "json_object": Fragment("json_object_agg(?)::text"),
    "json_lists": Fragment("coalesce(json_agg(json_build_array(?)), '[]')::text"),
    "position": "strpos",
    "like": Fragment("lower(?) like %(containing)s"),
    "same_place": """
        m.about_report is not distinct from %(about_report)s
        and (m.memory_type <> 'knowledge_base' or m.category is not distinct from %(category)s)
        and case when %(root)s::text is null then position('"root": ' in m.metadata) = 0
            else position(%(root)s in m.metadata) > 0 end
    """,
    "copied_columns": ", content_length, content_bytes, category, about_report, project",
    "copied_values": ", %(content_length)s, %(content_bytes)s, %(category)s, %(about_report)s, %(project)s",
    "states": "p.states",
    "lacks_states": "(p.states is null or mod(length(p.states), (vector_dims(p.embedding) + 7) / 8) <> 0)",
    "readable_states": "p.states",
    "with_states": "",
    "bytes": Fragment("?"),
    "appended": Fragment("keyword_postings.? || excluded.?"),
    "followed": Fragment("? || %(?)s"),
    "joined": Fragment("coalesce(string_agg(?, ''::bytea order by id), ''::bytea)"),
    "no_bytes": "''::bytea",
    "now": "extract(epoch from statement_timestamp())::float8",
    "utc": """(to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') collate "C")""",
    "size": """(
        select sum(pg_total_relation_size(c.oid))::bigint from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = current_schema() and c.relkind = 'r'
    )""",
}
"""What `storage.connection` calls fragments."""

COLUMNS: dict[str, dict[str, str]] = {
    table: dict(re.findall(r"^ +(?!primary|unique)(\w+) (double precision|\w+)", columns, re.MULTILINE))
    for table, columns in re.findall(r"^create table (\w+) \((.*?)^\)", "".join(TABLES), re.MULTILINE | re.DOTALL)
}
"""The types of the columns of each table."""


@lru_cache(maxsize=1_024)
def as_postgres(sql: str) -> str:
    """Return a statement as psycopg reads it."""
    return sql.format_map(DIALECT)


@lru_cache
def insert_into(table: str, names: tuple[str, ...], on_conflict: str) -> str:
    """Return the statement that inserts rows into a table, of which each column is an array."""
    columns = {name: COLUMNS[table][name] for name in names}
    arrays = ", ".join(f"%({name}){'b' if kind == 'bytea' else 's'}::{kind}[]" for name, kind in columns.items())
    return as_postgres(
        f"insert into {table} ({', '.join(names)}) overriding system value select * from unnest({arrays}) {on_conflict}"
    )


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


def rows_of(cursor: Cursor, make: Callable[..., T]) -> list[T]:
    """Return `make(**columns)` for each row of a query that was run."""
    names = tuple(column.name for column in cursor.description or ())
    if getattr(make, "_fields", None) == names:  # a named tuple, which is made of values faster than by names
        return [make(*row) for row in cursor.fetchall()]
    return [make(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def fetch_value(connection: "Connection", sql: str, parameters: Parameters = None) -> Any:
    """Run a query and return the first column of its first row, or None."""
    row = connection.execute(sql, parameters).fetchone()
    return row[0] if row else None


def fetch_column(connection: "Connection", sql: str, parameters: Parameters = None) -> list[Any]:
    """Run a query and return the first column of every row."""
    return [row[0] for row in connection.execute(sql, parameters).fetchall()]


# Arrays of numbers and vectors as PostgreSQL sends and receives them, without text.


class VectorsDumper(Dumper):
    """Sends an array of 32-bit floats as a `real[]` of one dimension."""

    format = Format.BINARY
    oid = 1021

    def dump(self, obj: "Vectors") -> bytes:
        """Return a header and the elements, each after its length."""
        import numpy as np  # noqa: PLC0415

        elements = np.empty(obj.size, [("size", ">i4"), ("value", ">f4")])
        elements["size"], elements["value"] = 4, obj.ravel()
        return np.array([1, 0, 700, obj.size, 1], ">i4").tobytes() + elements.tobytes()


def register(adapters: AdaptersMap) -> None:
    """Let a connection send vectors of NumPy."""
    adapters.register_dumper("numpy.ndarray", VectorsDumper)


def as_vectors(sent: Sequence[bytes], dimensions: int) -> "Vectors":
    """Return vectors that pgvector sent: each a header of 4 bytes, and its numbers. Shape (vectors, dimensions)."""
    import numpy as np  # noqa: PLC0415

    rows = np.frombuffer(b"".join(sent), ">f4").reshape(-1, 1 + dimensions)
    return rows[:, 1:].astype(np.float32)


def as_numbers(sent: bytes | None) -> "Numbers":
    """Return integers that `int8send` made, one after the other; None: there are none."""
    import numpy as np  # noqa: PLC0415

    return np.frombuffer(sent or b"", ">i8").astype(np.int64)
