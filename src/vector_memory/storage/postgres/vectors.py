"""Reads vectors from `memory_passages`, and finds the nearest ones."""

from collections.abc import Sequence

import numpy as np

from vector_memory.domain import TRAITS, Scope
from vector_memory.storage.knn import Candidates
from vector_memory.storage.postgres import approximate
from vector_memory.storage.postgres.arrays import as_vectors
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.filters import passage_filter
from vector_memory.storage.scoring import Numbers, Vectors, cosines


def nearest(connection: Connection, scope: Scope, query: Vectors, k: int) -> Candidates:
    """Return the `k` passages of a scope that are nearest to the query, nearest first.

    Compares all of them, unless the scope is large and there is an index of vectors (`approximate`).
    """
    condition = passage_filter(scope)
    rows = approximate.nearest(connection, condition, query, k)
    is_exact = rows is None
    if rows is None:
        # The sum keeps the planner from an approximate index.
        sql = f"""
            select coalesce(p.chunk_id, p.memory_id), p.memory_id, p.embedding
            from memory_passages p {condition.sql}
            order by (p.embedding <-> %(query)s::real[]::vector) + 0, p.id limit %(k)s
        """
        rows = connection.execute(sql, condition.parameters | {"query": query, "k": k}, binary=True).fetchall()
    units, memories, sent = zip(*rows, strict=True) if rows else ((), (), ())
    vectors = as_vectors(sent, len(query))
    order = slice(None) if is_exact else np.argsort(-cosines(vectors, query), kind="stable")
    return Candidates(
        np.array(units, np.int64)[order],
        np.array(memories, np.int64)[order],
        vectors[order],
        np.ones(len(rows), np.bool_),
    )


def vectors_of(connection: Connection, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
    """Return the ids of those passages that exist, ascending, and the vectors, shape (ids, dimensions)."""
    sql = "select id, embedding from memory_passages where id = any(%s::bigint[]) order by id"
    return _fetched(connection, sql, passage_ids)


def vectors_of_units(connection: Connection, scope: Scope, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
    """Return the unit of each passage of these units, which are of the scope's kind, and the vectors."""
    unit = "chunk_id" if scope.kind is not None and TRAITS[scope.kind].chunked else "memory_id"
    return _fetched(connection, f"select {unit}, embedding from memory_passages where {unit} = any(%s)", unit_ids)


def passages_in(connection: Connection, scope: Scope, limit: int) -> Numbers:
    """Return the first `limit` passages of a scope, sorted by the ids of their units; -1: all.

    Shape (passages, 3): the ids of the passage, of its unit, and of its memory.
    """
    condition = passage_filter(scope)
    sql = f"""
        select p.id, coalesce(p.chunk_id, p.memory_id) as unit, p.memory_id
        from memory_passages p {condition.sql} order by unit, p.id limit %(limit)s
    """
    bound = condition.parameters | {"limit": None if limit < 0 else limit}
    return np.array(connection.execute(sql, bound, binary=True).fetchall(), np.int64).reshape(-1, 3)


def _fetched(connection: Connection, sql: str, ids: Sequence[int]) -> tuple[Numbers, Vectors]:
    """Return rows of id and vector as arrays."""
    rows = connection.execute(sql, (np.array(ids, np.int64),), binary=True).fetchall() if len(ids) else []
    found, sent = zip(*rows, strict=True) if rows else ((), ())
    return np.array(found, np.int64), as_vectors(sent, connection.state.dimensions)
