"""Checks the references between the rows of a file, to which its vectors belong too, and deletes what has no parent."""

import json
from collections.abc import Sequence

import apsw

from vector_memory.storage.orphans import ORPHANS, count_orphans, remove_orphans
from vector_memory.storage.sqlite.checkpointer import count_delete
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.schema import VEC0_TABLES, VECTOR_TABLES
from vector_memory.storage.sqlite.transactions import SqliteReader, SqliteWriter, vector_dimensions
from vector_memory.storage.sqlite.vec0.blocks import are_blocks_consistent
from vector_memory.storage.sqlite.vec0.signatures import wrong_signatures

SQLITE_ORPHANS = {
    **ORPHANS,
    "memory_passages": f"""
        {ORPHANS["memory_passages"]} or not exists (select 1 from embedding_models) or t.memory_id in (
            select p.memory_id from memory_passages p join session_memories m on m.id = p.memory_id
            where m.embedding_model_id is null and p.id not in (select passage_id from vec_chunk_search)
                and p.id not in (select passage_id from vec_session_search)
        )
    """,
    "token_states": "not exists (select 1 from memory_passages where id = t.passage_id)",
    "vec_chunk_search": "t.passage_id not in (select id from memory_passages where chunk_id is not null)",
    "vec_session_search": "t.passage_id not in (select id from memory_passages where chunk_id is null)",
    "vec_signatures": "t.passage_id not in (select id from memory_passages)",
}
"""Also passages of a memory that lacks vectors of some of them, those of an unknown model, and stray vectors."""

UNKNOWN_MODEL = "embedding_model_id is not null and embedding_model_id not in (select id from embedding_models)"

UNSIGNED = """
select m.id from memory_passages p join session_memories m on m.id = p.memory_id
left join vec_signatures s on s.passage_id = p.id
where s.unit_id is not coalesce(p.chunk_id, p.memory_id)
    or s.kind_key is not (select id from index_keys where name = m.memory_type)
"""

WRONGLY_SIGNED = "select memory_id from memory_passages where id in (select value from json_each(?))"

MISFILED = """
select m.id from {table} v join memory_passages p on p.id = v.passage_id join session_memories m on m.id = p.memory_id
where v.session_key is not (select id from index_keys where name = coalesce(m.session_id, ''))
"""


def orphaned_rows(connection: apsw.Connection) -> dict[str, int]:
    """Count the rows whose parent row is missing, by table, and the memories of an unknown model."""
    found = count_orphans(SQLITE_ORPHANS, lambda sql: int(fetch_value(connection, sql)))
    models = int(fetch_value(connection, f"select count(*) from session_memories where {UNKNOWN_MODEL}"))
    return found | ({"session_memories": models} if models else {})


def delete_orphans(connection: apsw.Connection) -> int:
    """Delete these rows; return their number. A memory of an unknown model is not indexed."""

    def change(sql: str) -> int:
        connection.execute(sql)
        return connection.changes()

    count_delete(connection)
    deleted = remove_orphans(SQLITE_ORPHANS, change)
    models = change(f"update session_memories set embedding_model_id = null where {UNKNOWN_MODEL}")
    if models:
        SqliteWriter(connection).discard_vectors(None)
    return deleted + models


def misfiled_memories(connection: apsw.Connection) -> list[int]:
    """Return the memories with vectors that are in another session, or have no signature as it should be."""
    wrong = list(wrong_signatures(connection, SqliteReader(connection).candidates.vectors))
    sql = " union ".join([UNSIGNED, WRONGLY_SIGNED, *(MISFILED.format(table=table) for table in VECTOR_TABLES)])
    return fetch_column(connection, sql, (json.dumps(wrong),))


def unreadable_tables(connection: apsw.Connection, tables: Sequence[str] = VEC0_TABLES) -> list[str]:
    """Return the tables of vectors that sqlite-vec cannot read completely."""
    dimensions = vector_dimensions(connection)
    return [table for table in tables if not are_blocks_consistent(connection, table, dimensions)]
