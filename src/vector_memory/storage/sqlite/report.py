"""What the report of a session reads besides the memories: which there are, and the means of their vectors."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.sqlite.rows import fetch
from vector_memory.storage.sqlite.vectors import all_vectors_of, vector_dimensions


class Listed(NamedTuple):
    """A memory and the size of its text in bytes of UTF-8."""

    id: int
    size: int


def list_newest(connection: apsw.Connection, session_id: str, limit: int) -> list[Listed]:
    """Return a session's memories, the newest first, at most `limit`. No text is read."""
    sql = """
        select id, octet_length(content) as size from session_memories where session_id = ?
        order by created_at desc, id desc limit ?
    """
    return fetch(connection, Listed, sql, (session_id, limit))


def mean_vectors(
    connection: apsw.Connection, memory_ids: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ids of those memories that have vectors, ascending, and the means, shape (ids, dimensions).

    A mean is that of the vectors of all the passages of a memory.
    """
    sql = "select p.id, p.memory_id from json_each(?) wanted join memory_passages p on p.memory_id = wanted.value"
    rows: list[Any] = connection.execute(sql, (json.dumps(memory_ids),)).fetchall()
    owners: dict[int, int] = dict(rows)
    passages, vectors = all_vectors_of(connection, list(owners))
    memories = np.array([owners[passage] for passage in passages.tolist()], np.int64)
    found, places, counts = np.unique(memories, return_inverse=True, return_counts=True)
    sums = np.zeros((len(found), vector_dimensions(connection)), np.float32)
    np.add.at(sums, places, vectors)
    return found, sums / counts.astype(np.float32)[:, np.newaxis]
