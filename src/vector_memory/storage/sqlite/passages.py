"""Writes passages and their vectors: `memory_passages` and the vec0 tables.

A vec0 table stores a session's vectors together (partition key), and filters by kind, agent, iteration and task inside
the index. Names are interned as integers, because sqlite-vec compares those faster than text and does not accept NULL.
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import apsw

from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.queries.passages import Passage
from vector_memory.storage.records import Memory
from vector_memory.storage.sqlite.rows import fetch_value, next_ids

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    from vector_memory.storage.scoring import Vectors

CHUNK_TABLE = "vec_chunk_search"
MEMORY_TABLE = "vec_session_search"


def table_for(*, chunked: bool) -> str:
    """Return the vec0 table for kinds that are, or are not, chunked."""
    return CHUNK_TABLE if chunked else MEMORY_TABLE


def vector_dimensions(connection: apsw.Connection) -> int:
    """Return the length of the file's vectors."""
    sql = fetch_value(connection, "select sql from sqlite_schema where name = ?", (CHUNK_TABLE,))
    match = re.search(r"float\[(\d+)\]", str(sql))
    if match is None:
        raise DamagedError("The table of vectors is missing: run `vector-memory doctor --fix`.")
    return int(match[1])


def add_passages(
    connection: apsw.Connection,
    memory: Memory,
    passages: Sequence[Passage],
    vectors: "Vectors",
    states: Sequence[bytes | None] | None = None,
    *,
    prefix: str = "",
) -> None:
    """Add a memory's passages, their vectors, and the states of their tokens that are kept.

    `prefix`: prefix of the names of the tables.
    """
    if not passages:
        return
    table = table_for(chunked=memory.chunked)
    keys = [intern(connection, name) for name in index_names(memory)]
    first, *_ = next_ids(connection, f"{prefix}memory_passages", len(passages))
    # One statement for all rows of a table: statement by statement, the lock would be held longer.
    connection.execute(
        f"""
        insert into {prefix}memory_passages (id, memory_id, chunk_id, start_char, end_char)
        select ? + key, ?, value ->> 0, value ->> 1, value ->> 2 from json_each(?)
        """,
        (first, memory.id, json.dumps(passages)),
    )
    connection.execute(
        f"""
        insert into {prefix}{table} (passage_id, session_key, kind_key, agent_key, task_key, session_iter, embedding)
        with recursive row(number) as (select 0 union all select number + 1 from row where number + 1 < ?)
        select ? + number, ?, ?, ?, ?, ?, substr(?, number * ? + 1, ?) from row
        """,
        (len(vectors), first, *keys, memory.session_iter, vectors.tobytes(), vectors[0].nbytes, vectors[0].nbytes),
    )
    kept = ((first + number, each) for number, each in enumerate(states or ()) if each is not None)
    connection.executemany(f"insert into {prefix}token_states values (?, ?)", kept)


def index_names(memory: Memory) -> tuple[str, str, str, str]:
    """Return a memory's names in the index: session, kind, agent and task. A missing session or task is empty."""
    return (memory.session_id or "", memory.memory_type, memory.agent_id, memory.task_code or "")


def intern(connection: apsw.Connection, name: str) -> int:
    """Return the integer that stands for a name in the index; create one if necessary."""
    connection.execute("insert or ignore into index_keys (name) values (?)", (name,))
    return int(fetch_value(connection, "select id from index_keys where name = ?", (name,)))
