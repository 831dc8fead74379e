"""The verbs of `storage.connection` for SQLite, and its own ways to read and write.

A vec0 table stores a session's vectors together, and the signatures of a kind. The names of sessions and kinds are
integers there, because sqlite-vec does not accept NULL.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from vector_memory.domain import utc_now
from vector_memory.storage.base import Reader, Writer
from vector_memory.storage.connection import NOTHING, UNLIMITED_FRAGMENTS, Connection, Fragment, Parameters, Query
from vector_memory.storage.damaged import DamagedError, as_json
from vector_memory.storage.queries.insert import Numbered
from vector_memory.storage.queries.passages import FIRST_MODEL, MODELS, Model, Passage, TokenStates, model_from_row
from vector_memory.storage.queries.pending import PendingQueries
from vector_memory.storage.records import Derived, LastIds, Memory
from vector_memory.storage.sqlite import migrations, rows
from vector_memory.storage.sqlite.connecting import count_delete
from vector_memory.storage.sqlite.schema import ABOUT_REPORT, SIGNATURE_BITS, ModelTables, tables_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vector_memory.storage.postings import Words
    from vector_memory.storage.queries.candidates import Candidates
    from vector_memory.storage.scoring import Vectors

AMONG = Fragment("in (select value from json_each(%(?)s))")

DIALECT = UNLIMITED_FRAGMENTS | {
    "among": AMONG,
    "among_texts": AMONG,
    "each": Fragment("json_each(%(?)s) each"),
    "each_pair": Fragment("(select key number, value ->> 0 first, value ->> 1 second from json_each(%(?)s))"),
    "each_tag": Fragment("json_each(?.tags) tag"),
    "has_tag": Fragment(
        "exists (select 1 from json_each(m.tags) tag, json_each(%(?)s) wanted where tag.value = wanted.value)"
    ),
    "tags": Fragment("?.tags"),
    "category": Fragment("case json_type(?.metadata, '$.category') when 'text' then ?.metadata ->> '$.category' end"),
    "project": Fragment("?.metadata ->> '$.project'"),
    "about_report": Fragment(ABOUT_REPORT.replace("metadata", "?.metadata")),
    "corrects": Fragment("json_type(?.metadata, '$.corrects') = 'true'"),
    "characters": Fragment("length(?.content)"),
    "octets": Fragment("octet_length(?.content)"),
    "indexed_by": Fragment("indexed by ?"),
    "unindexed": Fragment("+?"),
    "json_array": Fragment("json_group_array(?)"),
    "listed": Fragment("json_group_array(?)"),
    "json_object": Fragment("json_group_object(?)"),
    "json_lists": Fragment("json_group_array(json_array(?))"),
    "position": "instr",
    "like": Fragment("? like %(containing)s escape '\\'"),
    "same_place": """
        json_extract(m.metadata, '$.parent_report_id') is json_extract(%(metadata)s, '$.parent_report_id')
        and (m.memory_type <> 'knowledge_base'
            or json_extract(m.metadata, '$.category') is json_extract(%(metadata)s, '$.category'))
        and json_extract(m.metadata, '$.root') is json_extract(%(metadata)s, '$.root')
    """,
    "copied_columns": "",
    "copied_values": "",
    "states": "s.states",
    "lacks_states": "s.states is null",
    "readable_states": "iif(typeof(s.states) = 'blob', s.states, null)",
    "with_states": "left join token_states s on s.passage_id = p.id",
    "bytes": Fragment("cast(? as blob)"),
    "appended": Fragment("cast(? || excluded.? as blob)"),
    "followed": Fragment("cast(? || %(?)s as blob)"),
    "joined": Fragment("cast(coalesce(group_concat(?, ''), '') as blob)"),
    "no_bytes": "x''",
    "now": "unixepoch('subsec')",
    "utc": "%(utc)s",
    "size": "(select page_count * page_size from pragma_page_count(), pragma_page_size())",
}
"""What `storage.connection` calls fragments."""


class Names:
    """What Python's `%` operator puts in the place of a parameter: its name as SQLite writes it."""

    def __getitem__(self, name: str) -> str:
        """Return the parameter."""
        return f":{name}"


@lru_cache(maxsize=1_024)
def as_sqlite(sql: str) -> str:
    """Return a statement as SQLite reads it."""
    return sql.format_map(DIALECT) % Names()


def bound(parameters: Parameters) -> dict[str, Any]:
    """Return parameters as SQLite takes them: a list is a text of JSON."""
    return {name: as_json(value) if isinstance(value, list) else value for name, value in parameters.items()}


# Modules that import numpy are imported where they are used: commands that only list memories do not need it.
# ruff: noqa: PLC0415, D102 - the methods are described in storage.base

T = TypeVar("T")

TABLES: dict[Numbered, str] = {"memory": "session_memories", "chunk": "memory_chunks", "passage": "memory_passages"}
"""What has ids of its own, and where."""

LASTING = ("session_memories", "memory_chunks")
"""The tables whose ids are never reused, as in `LastIds`."""


class SqliteConnection(Connection):
    """A connection in a transaction.

    `unchecked`: SQLite's connection, for reads that do not depend on visibility. Its time stands still, so that nothing
    expires between two statements.
    """

    def __init__(self, raw: apsw.Connection) -> None:
        self.unchecked = raw
        self._utc = utc_now()

    @property
    def raw(self) -> apsw.Connection:
        """The connection of SQLite. Raises AccessDeniedError if only some sessions may be seen."""
        self.require_all()
        return self.unchecked

    def prepared(self, sql: str, parameters: Parameters) -> tuple[str, dict[str, Any]]:
        """Return a statement as SQLite reads it, and its parameters with the time of the transaction."""
        sql, parameters = self.only_visible(sql, parameters)
        return as_sqlite(sql), {"utc": self._utc, **bound(parameters)}

    def fetch(self, make: Callable[..., T], sql: str, parameters: Parameters = NOTHING) -> list[T]:
        """Run a query and return `make(**columns)` for each row."""
        return rows.fetch(self.unchecked, make, *self.prepared(sql, parameters))

    def fetch_column(self, sql: str, parameters: Parameters = NOTHING) -> list[Any]:
        """Run a query and return the first column of every row."""
        return rows.fetch_column(self.unchecked, *self.prepared(sql, parameters))

    def batch(self, *asked: Query) -> list[list[Any]]:
        """Run several queries, one after the other."""
        return [self.fetch(*one) for one in asked]

    def later(self, sql: str, parameters: Parameters = NOTHING) -> None:
        """Run a statement at once."""
        self.unchecked.execute(*self.prepared(sql, parameters))

    def insert(self, table: str, rows: Sequence[Parameters], on_conflict: str = "") -> None:
        """Insert rows at once."""
        if rows:
            values = f"({', '.join(rows[0])}) values (:{', :'.join(rows[0])})"
            self.raw.executemany(as_sqlite(f"insert into {table} {values} {on_conflict}"), rows)


class SqliteVectors(PendingQueries):
    """Reads passages and their vectors."""

    connection: SqliteConnection
    _models: list[Model] | None = None

    @property
    def room(self) -> int:
        return vector_dimensions(self.connection.unchecked, tables_of(FIRST_MODEL))

    def models(self) -> list[Model]:
        if self._models is None:
            self._models = self.connection.fetch(model_from_row, MODELS)
        return self._models

    def forget_models(self) -> None:
        self._models = None

    @property
    def candidates(self) -> "Candidates":
        from vector_memory.storage.sqlite.candidates import SqliteCandidates

        return SqliteCandidates(self.connection, self.model, self.lacking)


UNUSED_NAMES = """
delete from index_keys where not exists (select 1 from session_memories where session_id = name)
    and not exists (select 1 from session_memories where memory_type = name)
"""


class SqliteReader(Reader):
    """A reader over a connection in a transaction."""

    connection: SqliteConnection

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(SqliteVectors(SqliteConnection(connection)))

    def last_ids(self) -> LastIds:
        sql = "select coalesce((select seq from sqlite_sequence where name = %(table)s), 0)"
        return LastIds(*(int(self.connection.fetch_value(sql, {"table": table})) for table in LASTING))


class SqliteWriter(SqliteReader, Writer):
    """A writer over a connection in a write transaction."""

    def raise_last_ids(self, last: LastIds) -> None:
        for table, number in zip(LASTING, last, strict=True):
            self.connection.raw.execute("update sqlite_sequence set seq = max(seq, ?) where name = ?", (number, table))
            if not self.connection.raw.changes():
                self.connection.raw.execute("insert into sqlite_sequence (name, seq) values (?, ?)", (table, number))

    def next_ids(self, of: Numbered, count: int) -> list[int]:
        table = TABLES[of]
        given = rows.fetch_value(self.connection.raw, "select seq from sqlite_sequence where name = ?", (table,))
        highest = rows.fetch_value(self.connection.raw, f"select max(id) from {table}")
        last = max(given or 0, highest or 0)
        return list(range(last + 1, last + 1 + count))

    def amend(self, memory: Memory, words: "Words | None", now: str) -> bool:
        count_delete(self.connection.raw)
        return super().amend(memory, words, now)

    def rewrite(self, memory: Memory, derived: Derived) -> None:
        count_delete(self.connection.raw)
        super().rewrite(memory, derived)
        self.connection.raw.execute(UNUSED_NAMES)

    def make_room(self, model: Model) -> None:
        if model.id != FIRST_MODEL:
            migrations.create_vector_tables(self.connection.raw, model.fingerprint.dimensions, model.id)
        elif self.vectors.room != model.fingerprint.dimensions:  # the file was created for vectors of another length
            migrations.drop_vector_tables(self.connection.raw, model.id)
            migrations.create_vector_tables(self.connection.raw, model.fingerprint.dimensions, model.id)

    def remove_room(self, model: Model) -> None:
        migrations.drop_vector_tables(self.connection.raw, model.id)
        count_delete(self.connection.raw)

    def add_passages(
        self, memory: Memory, passages: Sequence[Passage], vectors: "Vectors", states: TokenStates, model_id: int
    ) -> None:
        if not passages:
            return
        tables, signatures = tables_of(model_id), packed_signatures(vectors)
        table = tables.chunks if memory.chunked else tables.memories
        raw = self.connection.raw
        session, kind = intern(raw, memory.session_id or ""), intern(raw, memory.memory_type)
        first, *_ = self.next_ids("passage", len(passages))
        # One statement for all rows of a table: statement by statement, the lock would be held longer.
        raw.execute(
            """
            insert into memory_passages (id, model_id, memory_id, chunk_id, start_char, end_char)
            select ? + key, ?, ?, value ->> 0, value ->> 1, value ->> 2 from json_each(?)
            """,
            (first, model_id, memory.id, json.dumps(passages)),
        )
        raw.execute(
            f"""
            insert into {table} (passage_id, session_key, embedding)
            with recursive row(number) as (select 0 union all select number + 1 from row where number + 1 < ?)
            select ? + number, ?, substr(?, number * ? + 1, ?) from row
            """,
            (len(vectors), first, session, vectors.tobytes(), vectors[0].nbytes, vectors[0].nbytes),
        )
        raw.execute(
            f"""
            insert into {tables.signatures} (passage_id, kind_key, unit_id, signature)
            select ? + key, ?, coalesce(value ->> 0, ?), vec_bit(substr(?, key * ? + 1, ?)) from json_each(?)
            """,
            (
                first,
                kind,
                memory.id,
                signatures.tobytes(),
                signatures.shape[1],
                signatures.shape[1],
                json.dumps(passages),
            ),
        )
        kept = ((first + number, each) for number, each in enumerate(states or ()) if each is not None)
        raw.executemany("insert into token_states values (?, ?)", kept)


def vector_dimensions(connection: apsw.Connection, tables: ModelTables) -> int:
    """Return the length of the vectors that the tables of a model are for."""
    sql = rows.fetch_value(connection, "select sql from sqlite_schema where name = ?", (tables.chunks,))
    match = re.search(r"float\[(\d+)\]", str(sql))
    if match is None:
        raise DamagedError("The table of vectors is missing: run `vector-memory doctor --fix`.")
    return int(match[1])


def packed_signatures(vectors: "Vectors") -> "NDArray[np.uint8]":
    """Return the signatures of vectors, shape (vectors, dimensions): a bit for each number that says if it is above 0.

    From the first byte's highest bit on; shape (vectors, bytes), filled up to SIGNATURE_BITS.
    """
    import numpy as np

    packed = np.packbits(vectors > 0, axis=1)
    return np.pad(packed, ((0, 0), (0, -packed.shape[1] % (SIGNATURE_BITS // 8))))


def intern(connection: apsw.Connection, name: str) -> int:
    """Return the integer that stands for a name in the index; create one if necessary."""
    connection.execute("insert or ignore into index_keys (name) values (?)", (name,))
    return int(rows.fetch_value(connection, "select id from index_keys where name = ?", (name,)))
