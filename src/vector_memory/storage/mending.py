"""Taking away what is wrong in all that is made from the text. The text itself, `session_memories`, stays as it is."""

import json
from collections.abc import Collection

import apsw

from vector_memory.storage import keywords
from vector_memory.storage.erasure import count_delete
from vector_memory.storage.index_faults import text_faults, vector_faults
from vector_memory.storage.inspection import count_orphans
from vector_memory.storage.rows import fetch_column
from vector_memory.storage.schema import PARTITION_ROWS, VECTOR_TABLE
from vector_memory.storage.vectors import vector_dimensions


def remove_orphans(connection: apsw.Connection) -> int:
    """Remove chunks, passages and keywords whose memory is gone, and return how many rows referred to nothing.

    A memory whose model is not known any more counts as not indexed.
    """
    number = count_orphans(connection).total()
    gone = "select memory_id from keyword_memories where memory_id not in (select id from session_memories)"
    count_delete(connection)
    for memory_id in fetch_column(connection, gone):
        keywords.remove(connection, memory_id)
    connection.execute("delete from memory_chunks where parent_id not in (select id from session_memories)")
    connection.execute(
        """
        delete from memory_passages
        where memory_id not in (select id from session_memories)
            or chunk_id is not null and chunk_id not in (select id from memory_chunks)
        """
    )
    connection.execute(
        """
        update session_memories set embedding_model_id = null
        where embedding_model_id not in (select id from embedding_models)
        """
    )
    return number


def withdraw_faulty(connection: apsw.Connection) -> int:
    """Take everything out of the index that is not as the text wants it, and return of how many memories.

    They count as not indexed from then on, so that the backfill makes their chunks and vectors again. A memory whose
    text is damaged is left alone: what was made from it may be all that is left.
    """
    for table in vector_faults(connection).unreadable:
        make_vector_table_again(connection, table)
    text, vectors = text_faults(connection), vector_faults(connection)
    for table, passage_id in vectors.strays:
        connection.execute(f"delete from {table} where passage_id = ?", (passage_id,))
    faulty = (text.chunks | text.passages | vectors.missing | vectors.misfiled) - text.text
    for memory_id in text.chunks:
        keywords.remove(connection, memory_id)
    _delete(connection, "memory_chunks where parent_id", text.chunks)
    _delete(connection, "memory_passages where memory_id", faulty)
    connection.execute(
        "update session_memories set embedding_model_id = null where id in (select value from json_each(?))",
        (json.dumps(sorted(faulty)),),
    )
    return len(faulty)


def make_vector_table_again(connection: apsw.Connection, table: str) -> None:
    """Replace a vector table with an empty one."""
    dimensions = vector_dimensions(connection)
    connection.execute(f"drop table {table}")
    connection.execute(VECTOR_TABLE.format(table=table, dimensions=dimensions, rows=PARTITION_ROWS))


def _delete(connection: apsw.Connection, rows: str, ids: Collection[int]) -> None:
    """Delete the rows with the ids; triggers take their vectors along."""
    connection.execute(f"delete from {rows} in (select value from json_each(?))", (json.dumps(sorted(ids)),))
