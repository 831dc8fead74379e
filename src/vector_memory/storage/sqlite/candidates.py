"""What a search reads from a file: postings, vectors, and the CandidateSource of a scope."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import TRAITS, Scope
from vector_memory.storage.knn import Candidates, ScopeCandidates
from vector_memory.storage.postings import FoundPostings, in_order
from vector_memory.storage.queries.filters import memory_filter
from vector_memory.storage.queries.words import ScopeWords
from vector_memory.storage.scoring import Method, Numbers, Vectors
from vector_memory.storage.sqlite.dialect import as_sqlite, bound
from vector_memory.storage.sqlite.rows import fetch_value
from vector_memory.storage.sqlite.transactions import CHUNK_TABLE, MEMORY_TABLE, SqliteConnection, vector_dimensions
from vector_memory.storage.sqlite.vec0.blocks import read_vectors


def read_postings(connection: apsw.Connection, wanted: Numbers) -> FoundPostings:
    """Return the postings of those rows that exist, in the given order.

    The query returns them in one row: handing over thousands of rows takes longer than reading them.
    """
    sql = """
        select cast(group_concat(p.postings, '') as blob), group_concat(wanted.key), group_concat(length(p.postings))
        from json_each(?) wanted cross join keyword_postings p on p.id = wanted.value
    """
    rows: list[Any] = connection.execute(sql, (json.dumps(wanted.tolist()),)).fetchall()
    joined, positions, sizes = rows[0]
    return in_order(
        np.fromstring(positions or "", np.int64, sep=","), np.fromstring(sizes or "", np.int64, sep=","), joined or b""
    )


def table_of(scope: Scope) -> str:
    """Return the vec0 table for a scope of one kind."""
    return CHUNK_TABLE if scope.kind is not None and TRAITS[scope.kind].chunked else MEMORY_TABLE


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


class SqliteCandidates(ScopeCandidates):
    """The CandidateSource of a scope of memories of one kind, in the connection's transaction."""

    def __init__(self, connection: SqliteConnection, scope: Scope, method: Method) -> None:
        super().__init__(method, ScopeWords(connection, scope, partial(read_postings, connection.raw)))
        self._raw = connection.raw
        self._scope = scope
        self._table = table_of(scope)

    def _nearest_passages(self, query: Vectors, k: int) -> Candidates:
        return nearest(self._raw, self._table, self._scope, query, k)

    def _passages(self, limit: int) -> Numbers:
        return passages_in(self._raw, self._scope, limit)

    def _vectors_of(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        return vectors_of(self._raw, self._table, passage_ids)

    def _vectors_of_units(self, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        return vectors_of_units(self._raw, self._table, unit_ids)
