"""Passages and their vectors: `memory_passages` and the vec0 tables, and nearest-neighbour queries over them.

A vec0 table stores a session's vectors together (partition key), and filters by kind, agent, iteration and task inside
the index. Names are interned as integers, because sqlite-vec compares those faster than text and does not accept NULL.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import TRAITS, Fingerprint, MemoryKind, Scope
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.knn import Candidates
from vector_memory.storage.queries.filters import memory_filter
from vector_memory.storage.queries.insert import Passage
from vector_memory.storage.queries.memories import IS_INDEXED
from vector_memory.storage.records import Memory
from vector_memory.storage.scoring import Numbers, means_of
from vector_memory.storage.sqlite.dialect import as_sqlite, bound
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_one, fetch_value, next_ids
from vector_memory.storage.sqlite.vec0.blocks import read_vectors

CHUNK_TABLE = "vec_chunk_search"
MEMORY_TABLE = "vec_session_search"


def table_for(*, chunked: bool) -> str:
    """Return the vec0 table for kinds that are, or are not, chunked."""
    return CHUNK_TABLE if chunked else MEMORY_TABLE


def table_of(scope: Scope) -> str:
    """Return the vec0 table for a scope of one kind."""
    return CHUNK_TABLE if scope.kind is not None and TRAITS[scope.kind].chunked else MEMORY_TABLE


def vector_dimensions(connection: apsw.Connection) -> int:
    """Return the length of the file's vectors."""
    sql = fetch_value(connection, "select sql from sqlite_schema where name = ?", (CHUNK_TABLE,))
    match = re.search(r"float\[(\d+)\]", str(sql))
    if match is None:
        raise DamagedError("The table of vectors is missing: run `vector-memory doctor --fix`.")
    return int(match[1])


def fingerprint_of(connection: apsw.Connection) -> Fingerprint | None:
    """Return the fingerprint of the file's vectors, or None while it has none."""
    return fetch_one(connection, Fingerprint, "select model, dimensions, precision, engine from embedding_models")


def require_same_fingerprint(connection: apsw.Connection, fingerprint: Fingerprint) -> None:
    """Raise EmbeddingUnavailableError if vectors of this fingerprint are not comparable with those of the file."""
    fingerprint.require_comparable(fingerprint_of(connection), vector_dimensions(connection))


def adopt_fingerprint(connection: apsw.Connection, fingerprint: Fingerprint) -> int:
    """Return the id of the fingerprint, and make it the file's own if it has none yet.

    Raises EmbeddingUnavailableError like `require_same_fingerprint`.
    """
    require_same_fingerprint(connection, fingerprint)
    connection.execute(
        "insert or ignore into embedding_models (model, dimensions, precision, engine) values (?, ?, ?, ?)",
        (fingerprint.model, fingerprint.dimensions, fingerprint.precision, fingerprint.engine),
    )
    return int(fetch_value(connection, "select id from embedding_models"))


def add_passages(
    connection: apsw.Connection,
    memory: Memory,
    passages: Sequence[Passage],
    vectors: NDArray[np.float32],
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


def discard_partial_vectors(connection: apsw.Connection, memory_id: int | None = None) -> None:
    """Delete the passages and vectors of a memory that does not have all of them; None: of all such memories."""
    connection.execute(
        """
        delete from memory_passages where memory_id in (
            select id from session_memories where embedding_model_id is null and id = coalesce(?, id)
        )
        """,
        (memory_id,),
    )
    if connection.changes():
        begin_epoch(connection)  # processes notice by themselves only that whole memories are gone


def index_names(memory: Memory) -> tuple[str, str, str, str]:
    """Return a memory's names in the index: session, kind, agent and task. A missing session or task is empty."""
    return (memory.session_id or "", memory.memory_type, memory.agent_id, memory.task_code or "")


def intern(connection: apsw.Connection, name: str) -> int:
    """Return the integer that stands for a name in the index; create one if necessary."""
    connection.execute("insert or ignore into index_keys (name) values (?)", (name,))
    return int(fetch_value(connection, "select id from index_keys where name = ?", (name,)))


UNINDEXED = ("category", "tags", "own_agent_id", "after_id", "created_after", "created_before", "sessions")
"""Fields of a scope that are not in the vector index."""

INDEX_CONDITIONS = {
    "session_id": "session_key = :session_key",
    "kind": "kind_key = :kind_key",
    "agent_id": "agent_key = :agent_key",
    "task_code": "task_key = :task_key",
    "session_iter": "session_iter = :session_iter",
}


def index_filter(connection: apsw.Connection, scope: Scope) -> tuple[str, dict[str, Any]] | None:
    """Return conditions and bindings that limit a vector query to the scope; None: the scope is empty."""
    bindings: dict[str, Any] = {}
    conditions = []
    for field, condition in INDEX_CONDITIONS.items():
        value = getattr(scope, field)
        if value is None:
            continue
        if field != "session_iter":
            value = fetch_value(connection, "select id from index_keys where name = ?", (str(value),))
            if value is None:
                return None
        conditions.append(condition)
        bindings[condition.rpartition(":")[2]] = value
    return "".join(f" and {condition}" for condition in conditions), bindings


def nearest(connection: apsw.Connection, table: str, scope: Scope, query: NDArray[np.float32], k: int) -> Candidates:
    """Return the `k` (at most MAX_K) passages nearest to the query, nearest first.

    The table applies the filters that it supports. The others decide `wanted`, so that the caller knows how far the
    search has come.
    """
    indexed = index_filter(connection, scope)
    if indexed is None:
        return candidates_of([], len(query))
    conditions, bindings = indexed
    unindexed = memory_filter(scope, UNINDEXED)
    rows: list[Any] = connection.execute(
        f"""
        with found as materialized (
            select passage_id, embedding, distance from {table} where embedding match :query and k = :k{conditions}
        )
        select coalesce(p.chunk_id, p.memory_id), p.memory_id, ({as_sqlite(unindexed.sql)}) is true, found.embedding
        from found join memory_passages p on p.id = found.passage_id join session_memories m on m.id = p.memory_id
        order by found.distance, found.passage_id
        """,
        {"query": query.tobytes(), "k": k} | bindings | bound(unindexed.parameters),
    ).fetchall()
    return candidates_of(rows, len(query))


def candidates_of(rows: Sequence[tuple[int, int, int, bytes]], dimensions: int) -> Candidates:
    """Return rows of unit, memory, whether it is wanted, and vector as arrays."""
    units, memories, wanted, blobs = zip(*rows, strict=True) if rows else ((), (), (), ())
    vectors = np.frombuffer(b"".join(blobs), np.float32).reshape(-1, dimensions)
    return Candidates(np.array(units, np.int64), np.array(memories, np.int64), vectors, np.array(wanted, np.bool_))


def mean_vectors(connection: apsw.Connection, memory_ids: Sequence[int]) -> tuple[Numbers, NDArray[np.float32]]:
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
    return means_of(np.array([owners[passage] for passage in passages.tolist()], np.int64), vectors)


def vectors_of_units(
    connection: apsw.Connection, table: str, unit_ids: Sequence[int]
) -> tuple[Numbers, NDArray[np.float32]]:
    """Return the unit of each passage of these units (chunks, or memories that are not chunked), and the vectors."""
    unit = "chunk_id" if table == CHUNK_TABLE else "memory_id"
    sql = f"""
        select p.{unit}, v.embedding
        from json_each(?) wanted join memory_passages p on p.{unit} = wanted.value
        join {table} v on v.passage_id = p.id
    """
    rows: list[Any] = connection.execute(sql, (json.dumps(unit_ids),)).fetchall()
    return as_arrays(rows, vector_dimensions(connection))


def token_states(connection: apsw.Connection, kind: MemoryKind, unit_ids: Sequence[int]) -> dict[int, list[Any]]:
    """Return the token states of each passage of units of a kind, by unit; None: they are not kept, or are damaged."""
    unit = "chunk_id" if TRAITS[kind].chunked else "memory_id"
    sql = f"""
        select p.{unit}, iif(typeof(s.states) = 'blob', s.states, null)
        from json_each(?) wanted join memory_passages p on p.{unit} = wanted.value
        left join token_states s on s.passage_id = p.id
    """
    found: dict[int, list[Any]] = {}
    for number, states in connection.execute(sql, (json.dumps(unit_ids),)):
        found.setdefault(number, []).append(states)
    return found


def all_vectors_of(connection: apsw.Connection, passage_ids: Sequence[int]) -> tuple[Numbers, NDArray[np.float32]]:
    """Return the same as `vectors_of`, for passages of both tables."""
    ids, vectors = vectors_of(connection, CHUNK_TABLE, passage_ids)
    if len(ids) == len(passage_ids):  # copying them would take as long as reading
        return ids, vectors
    others, more = vectors_of(connection, MEMORY_TABLE, list(set(passage_ids).difference(ids.tolist())))
    ids, vectors = np.concatenate([ids, others]), np.concatenate([vectors, more])
    order = np.argsort(ids)
    return ids[order], vectors[order]


def vectors_of(
    connection: apsw.Connection, table: str, passage_ids: Sequence[int]
) -> tuple[Numbers, NDArray[np.float32]]:
    """Return the ids of those passages that have vectors, ascending, and the vectors, shape (ids, dimensions).

    Raises DamagedError if the table is not as sqlite-vec would have written it.
    """
    return read_vectors(connection, table, vector_dimensions(connection), passage_ids)


def passages_in(connection: apsw.Connection, scope: Scope, limit: int) -> Numbers:
    """Return the first `limit` passages of a scope, sorted by the ids of their units; -1: all.

    Shape (passages, 3): the ids of the passage, of its unit, and of its memory.
    """
    condition = memory_filter(scope)
    sql = f"""
        select p.id, coalesce(p.chunk_id, p.memory_id) as unit, p.memory_id
        from session_memories m cross join memory_passages p on p.memory_id = m.id
        where {as_sqlite(condition.sql)} order by unit, p.id limit :limit
    """
    rows = connection.execute(sql, bound(condition.parameters) | {"limit": limit}).fetchall()
    return np.array(rows, np.int64).reshape(-1, 3)


def as_arrays(rows: Sequence[tuple[int, bytes]], dimensions: int) -> tuple[Numbers, NDArray[np.float32]]:
    """Return rows of id and vector as arrays, shapes (rows,) and (rows, dimensions)."""
    ids, vectors = zip(*rows, strict=True) if rows else ((), ())
    return np.array(ids, np.int64), np.frombuffer(b"".join(vectors), np.float32).reshape(-1, dimensions)
