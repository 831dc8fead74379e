"""A second set of vector tables: filled with another model's vectors, then swapped with the tables in use.

The spare tables are copies of those in use, with the prefix `spare_` for tables, indexes and triggers, and with their
own foreign keys, so a deletion removes rows from them in the same transaction. They are created when the model is
changed. A row in `spare_embedding_models` says whose vectors they are being filled with. Without that row their content
is no longer needed; it is deleted in small steps, so that writers do not have to wait, and then the tables are dropped.
"""

import re
from collections.abc import Sequence
from dataclasses import astuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint
from vector_memory.storage.records import Memory
from vector_memory.storage.sqlite.erasure import count_delete
from vector_memory.storage.sqlite.memories import COLUMNS, memory_from_row
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_column, fetch_one, fetch_value
from vector_memory.storage.sqlite.schema import VECTOR_TABLES
from vector_memory.storage.sqlite.tags import clear_vectors
from vector_memory.storage.sqlite.vec0 import rename_table
from vector_memory.storage.sqlite.vectors import Passage, add_passages

SPARE = "spare_"
TABLES = ("memory_passages", *VECTOR_TABLES)
"""The tables that have a spare copy."""

TABLE_NAMES = re.compile(rf"\b({SPARE})?({'|'.join(TABLES)})\b")

MISSING = """
m.embedding_model_id = (select id from embedding_models)
and not exists (select 1 from spare_memory_passages where memory_id = m.id)
"""

PASSAGES_PER_STEP = 200


def exists(connection: apsw.Connection) -> bool:
    """Return whether there are spare tables."""
    sql = "select 1 from sqlite_schema where name = 'spare_embedding_models'"
    return fetch_value(connection, sql) is not None


def unfinished(connection: apsw.Connection) -> Fingerprint | None:
    """Return the fingerprint of the vectors that the spare tables are being filled with, or None."""
    if not exists(connection):
        return None
    return fetch_one(connection, Fingerprint, "select model, dimensions, precision, engine from spare_embedding_models")


def create(connection: apsw.Connection, fingerprint: Fingerprint) -> None:
    """Create empty spare tables for the vectors of a model."""
    connection.execute(
        """
        create table spare_embedding_models (
            model text not null, dimensions integer not null, precision text not null, engine text not null
        )
        """
    )
    connection.execute("insert into spare_embedding_models values (?, ?, ?, ?)", astuple(fingerprint))
    names = ", ".join(f"'{table}'" for table in TABLES)
    for sql in fetch_column(
        connection,
        f"""
        select sql from sqlite_schema where tbl_name in ({names}) and sql is not null
        order by type = 'trigger', type = 'index'
        """,
    ):
        connection.execute(spare_statement(sql, fingerprint.dimensions))


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


def insert_passages(
    connection: apsw.Connection, memory: Memory, passages: Sequence[Passage], vectors: NDArray[np.float32]
) -> None:
    """Add a memory's passages and their vectors, shape (passages, dimensions), to the spare tables."""
    add_passages(connection, memory, passages, vectors, prefix=SPARE)


def next_missing(connection: apsw.Connection, after_id: int) -> Memory | None:
    """Return the memory with the smallest id above `after_id` that has vectors, but none in the spare tables."""
    sql = f"select {COLUMNS} from session_memories m where {MISSING} and m.id > ? order by m.id limit 1"
    return fetch_one(connection, memory_from_row, sql, (after_id,))


def is_missing(connection: apsw.Connection, memory_id: int) -> bool:
    """Return whether a memory has vectors, but none in the spare tables."""
    return (
        fetch_value(connection, f"select 1 from session_memories m where {MISSING} and m.id = ?", (memory_id,))
        is not None
    )


def count_missing(connection: apsw.Connection) -> int:
    """Return the number of memories that have vectors, but none in the spare tables."""
    return int(fetch_value(connection, f"select count(*) from session_memories m where {MISSING}"))


def count_recomputed(connection: apsw.Connection) -> int:
    """Return the number of memories that have vectors in the spare tables."""
    return int(fetch_value(connection, "select count(distinct memory_id) from spare_memory_passages"))


def swap(connection: apsw.Connection) -> None:
    """Swap the spare tables with those in use; the old ones become spare tables that are no longer needed.

    The time does not depend on the number of vectors. A memory without new vectors counts as not indexed.
    """
    connection.execute(f"update session_memories as m set embedding_model_id = null where {MISSING}")
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
    connection.execute(
        """
        insert into embedding_models (id, model, dimensions, precision, engine)
            select coalesce((select id from embedding_models), 1), * from spare_embedding_models where true
        on conflict (id) do update set (model, dimensions, precision, engine)
            = (excluded.model, excluded.dimensions, excluded.precision, excluded.engine)
        """
    )
    clear_vectors(connection)
    begin_epoch(connection)
    discard(connection)


def rename(connection: apsw.Connection, old: str, new: str) -> None:
    """Rename a table."""
    if new.endswith(VECTOR_TABLES):
        rename_table(connection, old, new)
    else:
        connection.execute(f"alter table {old} rename to {new}")


def discard(connection: apsw.Connection) -> None:
    """Record that the content of the spare tables, if there are any, is no longer needed."""
    if exists(connection):
        connection.execute("delete from spare_embedding_models")


def erase_step(connection: apsw.Connection) -> bool:
    """Delete some passages that are no longer needed and their vectors or, at the end, drop the tables.

    False: there was nothing to do. Deleting everything at once would make writers wait, 4 s for 100,000 vectors.
    """
    if not exists(connection) or unfinished(connection) is not None:
        return False
    count_delete(connection)
    connection.execute(
        """
        delete from spare_memory_passages
        where id in (select id from spare_memory_passages order by id limit ?)
        """,
        (PASSAGES_PER_STEP,),
    )
    if not connection.changes():
        for table in ("embedding_models", *TABLES):
            connection.execute(f"drop table {SPARE}{table}")
    return True
