"""A second set of vector tables: filled with another model's vectors, then swapped with the tables in use.

The spare tables are copies of those in use, with the prefix `spare_` for tables, indexes and triggers, and with their
own foreign keys, so a deletion removes rows from them in the same transaction. They are created when the model is
changed. What is no longer needed is deleted in small steps, so that writers do not have to wait, and then the tables
are dropped.
"""

import re

import apsw

from vector_memory.domain import Fingerprint
from vector_memory.storage.queries.reembedding import MISSING, SPARE, SpareVectors, other_name
from vector_memory.storage.sqlite.checkpointer import count_delete
from vector_memory.storage.sqlite.schema import VEC0_TABLES, bits_of_signature
from vector_memory.storage.sqlite.transactions import SqliteConnection
from vector_memory.storage.sqlite.vec0 import rename_table

TABLES = ("memory_passages", "token_states", *VEC0_TABLES)
"""The tables that have a spare copy."""

TABLE_NAMES = re.compile(rf"\b({SPARE})?({'|'.join(TABLES)})\b")

PASSAGES_PER_STEP = 200

# ruff: noqa: D102 - the methods are described in storage.queries.reembedding


class SqliteSpareVectors(SpareVectors):
    """The spare vectors of a file."""

    connection: SqliteConnection

    def are_states_missing(self, *, spare: bool = False) -> bool:
        prefix = SPARE if spare else ""
        passages, states = f"{prefix}memory_passages", f"{prefix}token_states"
        sql = f"select 1 from {passages} where id not in (select passage_id from {states}) limit 1"
        return self.connection.fetch_value(sql) is not None

    def exist(self) -> bool:
        sql = "select 1 from sqlite_schema where name = 'spare_embedding_models'"
        return self.connection.fetch_value(sql) is not None

    def make_room(self, dimensions: int) -> None:
        self.connection.raw.execute(
            """
            create table spare_embedding_models (
                model text not null, dimensions integer not null, precision text not null, engine text not null
            ) strict
            """
        )
        sql = """
            select sql from sqlite_schema where tbl_name {among:names} and sql is not null
            order by type = 'trigger', type = 'index'
        """
        for statement in self.connection.fetch_column(sql, {"names": list(TABLES)}):
            self.connection.raw.execute(spare_statement(statement, dimensions))

    def swap_tables(self, new: Fingerprint) -> None:
        del new  # the tables know the length of their vectors
        self.connection.raw.execute(f"update session_memories as m set embedding_model_id = null where {MISSING}")
        swap_tables(self.connection.raw)

    def erase_some(self) -> None:
        # Deleting everything at once would make writers wait, 4 s for 100,000 vectors.
        count_delete(self.connection.raw)
        self.connection.raw.execute(
            """
            delete from spare_memory_passages
            where id in (select id from spare_memory_passages order by id limit ?)
            """,
            (PASSAGES_PER_STEP,),
        )
        if not self.connection.raw.changes():
            for table in ("embedding_models", *TABLES):
                self.connection.raw.execute(f"drop table {SPARE}{table}")


def spare_statement(sql: str, dimensions: int) -> str:
    """Return the statement that creates the spare copy of what `sql` creates.

    An index keeps its name when its table is renamed, so after a swap the names of the indexes are swapped too.
    """
    sql = re.sub(r"float\[\d+\]", f"float[{dimensions}]", sql)
    sql = re.sub(r"bit\[\d+\]", f"bit[{bits_of_signature(dimensions)}]", sql)
    sql = TABLE_NAMES.sub(lambda match: match[0] if match[1] else SPARE + match[2], sql)
    return re.sub(
        r"(?i)^(create (?:index|trigger)) (\w+)",
        lambda match: f"{match[1]} {other_name(match[2])}",
        sql,
    )


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
    if new.endswith(VEC0_TABLES):
        rename_table(connection, old, new)
    else:
        connection.execute(f"alter table {old} rename to {new}")
