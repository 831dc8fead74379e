"""The vectors of whole memories: those of their passages, and their means."""

import json
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.records import EmbeddedPassage, Memory, StoredPassage
from vector_memory.storage.sqlite.vectors import all_vectors_of, table_for, vector_dimensions

IS_INDEXED = "m.embedding_model_id is not null"
"""Whether a memory has all its vectors."""


def passages_of(connection: apsw.Connection, memory: Memory) -> list[StoredPassage]:
    """Return the passages of a memory with their vectors, in order; none if it does not have all its vectors."""
    rows: list[tuple[Any, ...]] = connection.execute(
        f"""
        select c.chunk_index, p.start_char, p.end_char, v.embedding, s.states
        from memory_passages p cross join {table_for(chunked=memory.chunked)} v on v.passage_id = p.id
        left join memory_chunks c on c.id = p.chunk_id left join token_states s on s.passage_id = p.id
        where p.memory_id = ? and exists (select 1 from session_memories m where m.id = p.memory_id and {IS_INDEXED})
        order by p.id
        """,
        (memory.id,),
    ).fetchall()
    return [
        StoredPassage(chunk, start, end, np.frombuffer(vector, np.float32), states)
        for chunk, start, end, vector, states in rows
    ]


def embedded_passages(connection: apsw.Connection, memory_id: int) -> list[EmbeddedPassage]:
    """Return the passages of a memory that have vectors so far, in order."""
    sql = """
        select coalesce(c.chunk_index, 0), p.start_char, p.end_char
        from memory_passages p left join memory_chunks c on c.id = p.chunk_id
        where p.memory_id = ? order by p.id
    """
    return list(map(EmbeddedPassage._make, connection.execute(sql, (memory_id,)).fetchall()))


def mean_vectors(
    connection: apsw.Connection, memory_ids: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ids of the memories that have all their vectors, ascending, and their means, shape (ids, dimensions).

    Each mean is over the vectors of all passages of the memory.
    """
    sql = f"""
        select p.id, p.memory_id from json_each(?) wanted
        join session_memories m on m.id = wanted.value and {IS_INDEXED}
        join memory_passages p on p.memory_id = m.id
    """
    rows: list[Any] = connection.execute(sql, (json.dumps(memory_ids),)).fetchall()
    owners: dict[int, int] = dict(rows)
    passages, vectors = all_vectors_of(connection, list(owners))
    memories = np.array([owners[passage] for passage in passages.tolist()], np.int64)
    found, places, counts = np.unique(memories, return_inverse=True, return_counts=True)
    sums = np.zeros((len(found), vector_dimensions(connection)), np.float32)
    np.add.at(sums, places, vectors)
    return found, sums / counts.astype(np.float32)[:, np.newaxis]
