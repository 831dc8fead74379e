"""A second set of vector tables: filled with another model's vectors, then swapped with the tables in use.

The spare tables are copies of those in use, with the prefix `spare_` for tables, indexes and triggers, and with their
own foreign keys, so a deletion removes rows from them in the same transaction. They are created when the model is
changed. A row in `spare_embedding_models` says whose vectors they are being filled with. Without that row their content
is no longer needed; it is deleted in small steps, so that writers do not have to wait, and then the tables are dropped.
"""

import re
from dataclasses import astuple

import apsw

from vector_memory.domain import Fingerprint
from vector_memory.storage.queries.insert import stored_passages
from vector_memory.storage.queries.memories import COLUMNS, memory_from_row
from vector_memory.storage.queries.pending import PendingChanges
from vector_memory.storage.queries.tags import TagChanges
from vector_memory.storage.records import Embedded, Memory
from vector_memory.storage.sqlite.dialect import as_sqlite
from vector_memory.storage.sqlite.erasure import count_delete
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_column, fetch_one, fetch_value
from vector_memory.storage.sqlite.schema import VECTOR_TABLES
from vector_memory.storage.sqlite.transactions import SqliteConnection
from vector_memory.storage.sqlite.vec0 import rename_table
from vector_memory.storage.sqlite.vectors import add_passages

SPARE = "spare_"
TABLES = ("memory_passages", "token_states", *VECTOR_TABLES)
"""The tables that have a spare copy."""

TABLE_NAMES = re.compile(rf"\b({SPARE})?({'|'.join(TABLES)})\b")

MISSING = """
m.embedding_model_id = (select id from embedding_models)
and not exists (select 1 from spare_memory_passages where memory_id = m.id)
"""

PASSAGES_PER_STEP = 200

# ruff: noqa: D102 - the methods are described in storage.maintenance_api


class SqliteSpareVectors:
    """`storage.maintenance_api.SpareVectors` over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def are_states_missing(self, *, spare: bool = False) -> bool:
        prefix = SPARE if spare else ""
        passages, states = f"{prefix}memory_passages", f"{prefix}token_states"
        sql = f"select 1 from {passages} where id not in (select passage_id from {states}) limit 1"
        return fetch_value(self._connection, sql) is not None

    def exist(self) -> bool:
        sql = "select 1 from sqlite_schema where name = 'spare_embedding_models'"
        return fetch_value(self._connection, sql) is not None

    def needed_for(self) -> Fingerprint | None:
        if not self.exist():
            return None
        sql = "select model, dimensions, precision, engine from spare_embedding_models"
        return fetch_one(self._connection, Fingerprint, sql)

    def begin(self, fingerprint: Fingerprint) -> None:
        self._connection.execute(
            """
            create table spare_embedding_models (
                model text not null, dimensions integer not null, precision text not null, engine text not null
            ) strict
            """
        )
        self._connection.execute("insert into spare_embedding_models values (?, ?, ?, ?)", astuple(fingerprint))
        names = ", ".join(f"'{table}'" for table in TABLES)
        for sql in fetch_column(
            self._connection,
            f"""
            select sql from sqlite_schema where tbl_name in ({names}) and sql is not null
            order by type = 'trigger', type = 'index'
            """,
        ):
            self._connection.execute(spare_statement(sql, fingerprint.dimensions))

    def discard(self) -> None:
        if self.exist():
            self._connection.execute("delete from spare_embedding_models")

    def next_missing(self, after_id: int) -> Memory | None:
        sql = f"select {as_sqlite(COLUMNS)} from session_memories m where {MISSING} and m.id > ? order by m.id limit 1"
        return fetch_one(self._connection, memory_from_row, sql, (after_id,))

    def is_missing(self, memory_id: int) -> bool:
        sql = f"select 1 from session_memories m where {MISSING} and m.id = ?"
        return fetch_value(self._connection, sql, (memory_id,)) is not None

    def count_missing(self) -> int:
        return int(fetch_value(self._connection, f"select count(*) from session_memories m where {MISSING}"))

    def count_recomputed(self) -> int:
        return int(fetch_value(self._connection, "select count(distinct memory_id) from spare_memory_passages"))

    def add(self, memory: Memory, embedded: Embedded) -> None:
        sql = "select id from memory_chunks where parent_id = ? order by chunk_index"
        passages = stored_passages(memory, fetch_column(self._connection, sql, (memory.id,)), embedded)
        add_passages(self._connection, memory, passages, embedded.vectors, embedded.states, prefix=SPARE)

    def swap(self) -> None:
        connection = self._connection
        connection.execute(f"update session_memories as m set embedding_model_id = null where {MISSING}")
        swap_tables(connection)
        connection.execute(
            """
            insert into embedding_models (id, model, dimensions, precision, engine)
                select coalesce((select id from embedding_models), 1), * from spare_embedding_models where true
            on conflict (id) do update set (model, dimensions, precision, engine)
                = (excluded.model, excluded.dimensions, excluded.precision, excluded.engine)
            """
        )
        TagChanges(SqliteConnection(connection)).clear_tag_vectors()
        PendingChanges(SqliteConnection(connection)).end_leases()
        begin_epoch(connection)
        self.discard()

    def erase_step(self) -> bool:
        # Deleting everything at once would make writers wait, 4 s for 100,000 vectors.
        if not self.exist() or self.needed_for() is not None:
            return False
        count_delete(self._connection)
        self._connection.execute(
            """
            delete from spare_memory_passages
            where id in (select id from spare_memory_passages order by id limit ?)
            """,
            (PASSAGES_PER_STEP,),
        )
        if not self._connection.changes():
            for table in ("embedding_models", *TABLES):
                self._connection.execute(f"drop table {SPARE}{table}")
        return True


def spare_statement(sql: str, dimensions: int) -> str:
    """Return the statement that creates the spare copy of what `sql` creates.

    An index keeps its name when its table is renamed, so after a swap the names of the indexes are swapped too.
    """
    sql = re.sub(r"float\[\d+\]", f"float[{dimensions}]", sql)
    sql = TABLE_NAMES.sub(lambda match: match[0] if match[1] else SPARE + match[2], sql)
    return re.sub(
        r"(?i)^(create (?:index|trigger)) (\w+)",
        lambda match: f"{match[1]} {other_name(match[2])}",
        sql,
    )


def other_name(name: str) -> str:
    """Return the name of the same index or trigger in the other set of tables."""
    return name.removeprefix(SPARE) if name.startswith(SPARE) else SPARE + name


def swap_tables(connection: apsw.Connection) -> None:
    """Swap the names of the spare tables with those of the tables in use."""
    triggers = {
        name: sql
        for name, sql in connection.execute("select name, sql from sqlite_schema where type = 'trigger'")
        if TABLE_NAMES.search(sql)
    }
    # Otherwise SQLite would rename the tables in their statements, but not the triggers.
    for name in triggers:
        connection.execute(f"drop trigger {name}")
    for table in TABLES:
        for old, new in ((table, f"leaving_{table}"), (SPARE + table, table), (f"leaving_{table}", SPARE + table)):
            rename(connection, old, new)
    for sql in triggers.values():
        connection.execute(sql)


def rename(connection: apsw.Connection, old: str, new: str) -> None:
    """Rename a table."""
    if new.endswith(VECTOR_TABLES):
        rename_table(connection, old, new)
    else:
        connection.execute(f"alter table {old} rename to {new}")
