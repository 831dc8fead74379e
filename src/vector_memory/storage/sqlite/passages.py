"""Passages as a process keeps them in memory: which there are, what they are of, and their vectors in bulk."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.guards import DamagedError
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.schema import PARTITION_ROWS
from vector_memory.storage.sqlite.vectors import CHUNK_TABLE, MEMORY_TABLE, named_vectors, vector_dimensions

DAMAGED_VECTORS = "The vectors in the file are damaged: run `vector-memory doctor --fix`."


class PlacedPassage(NamedTuple):
    """A passage by its id, and what it is of: `chunk_id` is None in memories without chunks."""

    id: int
    memory_id: int
    chunk_id: int | None


def last_passage_id(connection: apsw.Connection) -> int:
    """Return the highest id that any passage ever had: ids are given in the order of commits, and never twice."""
    return int(fetch_value(connection, "select seq from sqlite_sequence where name = 'memory_passages'") or 0)


def passages_after(connection: apsw.Connection, passage_id: int, limit: int) -> list[PlacedPassage]:
    """Return at most `limit` passages with ids above `passage_id`, in their order."""
    sql = "select id, memory_id, chunk_id from memory_passages where id > ? order by id limit ?"
    return list(map(PlacedPassage._make, connection.execute(sql, (passage_id, limit)).fetchall()))


def passages_there(connection: apsw.Connection, passage_ids: Sequence[int]) -> list[int]:
    """Return those of the passages that exist."""
    sql = "select p.id from json_each(?) wanted join memory_passages p on p.id = wanted.value"
    return fetch_column(connection, sql, (json.dumps(passage_ids),))


def all_vectors_of(
    connection: apsw.Connection, passage_ids: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return as `vectors_of` does the vectors of passages of chunks and of others."""
    ids, vectors = vectors_of(connection, CHUNK_TABLE, passage_ids)
    others, more = vectors_of(connection, MEMORY_TABLE, list(set(passage_ids).difference(ids.tolist())))
    ids, vectors = np.concatenate([ids, others]), np.concatenate([vectors, more])
    order = np.argsort(ids)
    return ids[order], vectors[order]


def vectors_of(
    connection: apsw.Connection, table: str, passage_ids: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ids of those passages that have vectors, ascending, and the vectors, shape (ids, dimensions).

    Reads whole blocks of the tables in which sqlite-vec 0.1.9 keeps the data of a vec0 table, which it names by the
    convention of SQLite (https://sqlite.org/vtab.html#the_xshadowname_method). For many passages of a session that
    takes a tenth of the time of asking vec0 for each of them. Raises DamagedError if a block is missing or has not the
    right length.
    """
    dimensions = vector_dimensions(connection)
    places = connection.execute(
        f"""
        select r.rowid, r.chunk_id, r.chunk_offset
        from json_each(?) wanted join {table}_rowids r on r.rowid = wanted.value order by r.rowid
        """,
        (json.dumps(passage_ids),),
    ).fetchall()
    ids, blocks, offsets = np.array(places, np.int64).reshape(-1, 3).T
    vectors = np.zeros((len(ids), dimensions), np.float32)
    order = np.argsort(blocks, kind="stable")
    names, starts = np.unique(blocks[order], return_index=True)
    rows_of = dict(zip(names.tolist(), np.split(order, starts[1:]), strict=True)) if len(names) else {}
    for block, data in connection.execute(
        f"""
        select v.rowid, v.vectors from json_each(?) wanted join {table}_vector_chunks00 v on v.rowid = wanted.value
        """,
        (json.dumps(names.tolist()),),
    ):
        rows = rows_of.pop(block)
        try:
            vectors[rows] = np.frombuffer(data, np.float32).reshape(PARTITION_ROWS, dimensions)[offsets[rows]]
        except (IndexError, TypeError, ValueError):
            raise DamagedError(DAMAGED_VECTORS) from None
    if rows_of or (offsets < 0).any():
        raise DamagedError(DAMAGED_VECTORS)
    return ids, vectors


def some_vectors_of(
    connection: apsw.Connection, table: str, passage_ids: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return as `vectors_of` does the vectors of passages that are far from each other: each is read by itself."""
    sql = f"""
        select v.passage_id, v.embedding from json_each(?) wanted join {table} v on v.passage_id = wanted.value
        order by v.passage_id
    """
    rows: list[Any] = connection.execute(sql, (json.dumps(passage_ids),)).fetchall()
    return named_vectors(rows, vector_dimensions(connection))


def passages_in(connection: apsw.Connection, scope: Scope, limit: int) -> NDArray[np.int64]:
    """Return the first passages of a scope in the order of their pieces' ids; -1: all.

    Shape (passages, 3): the ids of the passage, of its piece, and of its memory.
    """
    condition = memory_filter(scope)
    sql = f"""
        select p.id, coalesce(p.chunk_id, p.memory_id) as piece, p.memory_id
        from session_memories m cross join memory_passages p on p.memory_id = m.id
        where {condition.sql} order by piece, p.id limit :limit
    """
    rows = connection.execute(sql, condition.bindings | {"limit": limit}).fetchall()
    return np.array(rows, np.int64).reshape(-1, 3)


def memories_in(connection: apsw.Connection, scope: Scope) -> list[int]:
    """Return the ids of the memories of a scope."""
    condition = memory_filter(scope)
    return fetch_column(connection, f"select m.id from session_memories m where {condition.sql}", condition.bindings)
