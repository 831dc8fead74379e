"""The vectors of whole memories: those of their passages, and their means."""

from collections.abc import Sequence

import numpy as np

from vector_memory.storage.postgres.arrays import as_vectors
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.records import EmbeddedPassage, Memory, StoredPassage
from vector_memory.storage.scoring import Numbers, Vectors

IS_INDEXED = "m.embedding_model_id is not null"
"""Whether a memory has all its vectors."""


def passages_of(connection: Connection, memory: Memory) -> list[StoredPassage]:
    """Return the passages of a memory with their vectors, in order; none if it does not have all its vectors."""
    sql = f"""
        select c.chunk_index, p.start_char, p.end_char, p.states, p.embedding
        from memory_passages p join session_memories m on m.id = p.memory_id and {IS_INDEXED}
        left join memory_chunks c on c.id = p.chunk_id
        where p.memory_id = %s order by p.id
    """
    rows = connection.execute(sql, (memory.id,), binary=True).fetchall()
    vectors = as_vectors([row[-1] for row in rows], connection.state.dimensions)
    return [
        StoredPassage(chunk, start, end, vector, states)
        for (chunk, start, end, states, _), vector in zip(rows, vectors, strict=True)
    ]


def embedded_passages(connection: Connection, memory_id: int) -> list[EmbeddedPassage]:
    """Return the passages of a memory that have vectors so far, in order."""
    sql = """
        select coalesce(c.chunk_index, 0), p.start_char, p.end_char
        from memory_passages p left join memory_chunks c on c.id = p.chunk_id
        where p.memory_id = %s order by p.id
    """
    return list(map(EmbeddedPassage._make, connection.execute(sql, (memory_id,)).fetchall()))


def mean_vectors(connection: Connection, memory_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
    """Return the ids of the memories that have all their vectors, ascending, and their means, shape (ids, dimensions).

    Each mean is over the vectors of all passages of the memory.
    """
    sql = f"""
        select p.memory_id, p.embedding from memory_passages p
        join session_memories m on m.id = p.memory_id and {IS_INDEXED}
        where p.memory_id = any(%s::bigint[]) order by p.id
    """
    rows = connection.execute(sql, (np.array(memory_ids, np.int64),), binary=True).fetchall()
    vectors = as_vectors([row[1] for row in rows], connection.state.dimensions)
    found, places, counts = np.unique(
        np.array([row[0] for row in rows], np.int64), return_inverse=True, return_counts=True
    )
    sums = np.zeros((len(found), vectors.shape[1]), np.float32)
    np.add.at(sums, places, vectors)
    return found, sums / counts.astype(np.float32)[:, np.newaxis]
