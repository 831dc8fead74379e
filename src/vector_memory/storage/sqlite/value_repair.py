"""Removes what is wrong in the data derived from the text. The text itself, `session_memories`, is not changed."""

import json
from collections.abc import Collection

import apsw

from vector_memory.storage.sqlite import keywords
from vector_memory.storage.sqlite.legacy import normal_tags
from vector_memory.storage.sqlite.references import unreadable_tables
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_value
from vector_memory.storage.sqlite.schema import PARTITION_ROWS, VECTOR_TABLE
from vector_memory.storage.sqlite.value_faults import CHUNKED, ValueFaults
from vector_memory.storage.sqlite.vectors import discard_partial_vectors, vector_dimensions

SUBSTITUTES = {
    "access_count": "0",
    "accessed_at": "created_at",
    "updated_at": "created_at",
    "embedding": "null",
    "embedding_model_id": "null",
    "auto_chunk": f"memory_type in ({CHUNKED})",
    "chunk_count": "-1",
    "turn": "id",
}
"""Replacements for a memory's damaged columns. Chunks whose number is wrong are recomputed."""


def has_lost_values(connection: apsw.Connection, faults: ValueFaults) -> bool:
    """Return whether a damaged value cannot be replaced."""
    return any(
        column not in SUBSTITUTES and not (column == "tags" and _can_tags_be_repaired(connection, memory_id))
        for memory_id, columns in faults.get("session_memories", {}).items()
        for column in columns
    )


def _can_tags_be_repaired(connection: apsw.Connection, memory_id: int) -> bool:
    """Return whether the tags are a list, even if not all items are strings."""
    sql = """
        select typeof(tags) = 'text' and json_valid(tags) and json_type(iif(json_valid(tags), tags, 'null')) = 'array'
        from session_memories where id = ?
    """
    return bool(fetch_value(connection, sql, (memory_id,)))


def repair_values(connection: apsw.Connection, faults: ValueFaults) -> int:
    """Replace damaged values, or delete their rows; return the number of damaged rows.

    Other steps then rebuild from the text what is missing.
    """
    replace_unreadable_tables(connection)
    for memory_id, columns in faults.get("session_memories", {}).items():
        _substitute(connection, memory_id, columns)
    if faults.keys() & {"keyword_blocks", "keyword_memories", "keyword_postings"}:
        keywords.rebuild(connection)
    _remove(connection, "memory_chunks", faults)
    passages = list(faults.get("memory_passages", ()))
    connection.execute(
        """
        delete from memory_passages where memory_id in (
            select memory_id from json_each(?) damaged join memory_passages p on p.id = damaged.value
        )
        """,
        (json.dumps(passages),),
    )
    models = json.dumps(list(faults.get("embedding_models", ())))
    sql = "update session_memories set embedding_model_id = null where embedding_model_id in"
    connection.execute(f"{sql} (select value from json_each(?))", (models,))
    if "embedding_models" in faults:
        discard_partial_vectors(connection)  # nobody knows which model would continue them
    if "erasure" in faults:
        connection.execute("insert or replace into erasure values (1, 1, 0)")
    if "revision" in faults:
        connection.execute("delete from revision")
        begin_epoch(connection)
    for table in ("token_states", "embedding_models", "index_keys", "canonical_tags", "sqlite_sequence"):
        _remove(connection, table, faults)
    return sum(map(len, faults.values()))


def _substitute(connection: apsw.Connection, memory_id: int, columns: Collection[str]) -> None:
    for column in columns:
        if column == "tags":
            tags = normal_tags(fetch_value(connection, "select tags from session_memories where id = ?", (memory_id,)))
            connection.execute("update session_memories set tags = ? where id = ?", (tags, memory_id))
        else:
            sql = f"update session_memories set {column} = {SUBSTITUTES[column]} where id = ?"
            connection.execute(sql, (memory_id,))


def _remove(connection: apsw.Connection, table: str, faults: ValueFaults) -> None:
    """Delete the rows of a table that contain damaged values."""
    connection.executemany(f"delete from {table} where rowid = ?", [(row_id,) for row_id in faults.get(table, ())])


def replace_unreadable_tables(connection: apsw.Connection) -> None:
    """Replace vector tables that sqlite-vec cannot use, before deleting rows whose triggers change them."""
    for table in unreadable_tables(connection):
        replace_vector_table(connection, table)


def replace_vector_table(connection: apsw.Connection, table: str) -> None:
    """Replace a vector table with an empty one."""
    dimensions = vector_dimensions(connection)
    connection.execute(f"drop table {table}")
    connection.execute(VECTOR_TABLE.format(table=table, dimensions=dimensions, rows=PARTITION_ROWS))
    begin_epoch(connection)
