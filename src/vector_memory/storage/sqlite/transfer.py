"""What exports and imports ask beyond texts and chunks: passages with vectors, times, and reports by their place."""

from typing import Any

import apsw
import numpy as np

from vector_memory.storage.records import History, Memory, StoredPassage
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.vectors import table_for


def memory_ids(connection: apsw.Connection, session_id: str | None) -> list[int]:
    """Return the ids of a session's memories, or of all, in the order in which they were stored."""
    sql = "select id from session_memories where :session_id is null or session_id = :session_id order by id"
    return fetch_column(connection, sql, {"session_id": session_id})


def passages_of(connection: apsw.Connection, memory: Memory) -> list[StoredPassage]:
    """Return a memory's passages that have vectors, in order."""
    rows: list[tuple[Any, ...]] = connection.execute(
        f"""
        select c.chunk_index, p.start_char, p.end_char, v.embedding
        from memory_passages p cross join {table_for(chunked=memory.chunked)} v on v.passage_id = p.id
        left join memory_chunks c on c.id = p.chunk_id
        where p.memory_id = ? order by p.id
        """,
        (memory.id,),
    ).fetchall()
    return [StoredPassage(chunk, start, end, np.frombuffer(data, np.float32)) for chunk, start, end, data in rows]


def find_report(
    connection: apsw.Connection,
    *,
    content_hash: str,
    agent_id: str,
    session_id: str | None,
    session_iter: int,
    task_code: str | None,
) -> int | None:
    """Return the id of the report with this content in this place, or None."""
    found = fetch_value(
        connection,
        """
        select id from session_memories
        where content_hash = ? and memory_type = 'report' and agent_id = ? and session_id is ? and session_iter = ?
            and task_code is ?
        order by id limit 1
        """,
        (content_hash, agent_id, session_id, session_iter, task_code),
    )
    return None if found is None else int(found)


def put_back_history(connection: apsw.Connection, memory_id: int, history: History) -> None:
    """Let a memory that was just added have the times and the number of readings that it had elsewhere."""
    sql = "update session_memories set created_at = ?, updated_at = ?, accessed_at = ?, access_count = ? where id = ?"
    connection.execute(sql, (*history, memory_id))
