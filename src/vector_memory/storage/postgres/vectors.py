"""Passages and their vectors: `memory_passages`, and exact searches for the nearest ones."""

from collections.abc import Sequence

import numpy as np

from vector_memory.domain import TRAITS, Fingerprint, MemoryKind, Scope
from vector_memory.storage.knn import Candidates
from vector_memory.storage.postgres import approximate
from vector_memory.storage.postgres.arrays import as_vectors
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.filters import passage_filter
from vector_memory.storage.queries.insert import Passage
from vector_memory.storage.queries.memories import IS_INDEXED
from vector_memory.storage.records import Memory
from vector_memory.storage.scoring import Numbers, Vectors, cosines, means_of

# One array has the numbers of all vectors: arrays of vectors would need the number of their type in this database.
ADD = """
    insert into {table} (
        id, memory_id, chunk_id, start_char, end_char, memory_type, agent_id, session_id, session_iter, task_code,
        embedding, states
    )
    select %(first)s + p.number - 1, m.id, p.chunk_id, p.start_char, p.end_char, m.memory_type, m.agent_id,
        m.session_id, m.session_iter, m.task_code,
        (%(vectors)s::real[])[(p.number - 1) * %(length)s + 1 : p.number * %(length)s]::vector, p.states
    from unnest(%(chunks)s::bigint[], %(starts)s::integer[], %(ends)s::integer[], %(states)s::bytea[])
        with ordinality p(chunk_id, start_char, end_char, states, number)
    join session_memories m on m.id = %(memory)s
"""


def fingerprint_of(connection: Connection) -> Fingerprint | None:
    """Return the fingerprint of the stored vectors, or None while there are none."""
    return connection.state.fingerprint


def require_same_fingerprint(connection: Connection, fingerprint: Fingerprint) -> None:
    """Raise EmbeddingUnavailableError if vectors of this fingerprint are not comparable with the stored ones."""
    fingerprint.require_comparable(connection.state.fingerprint, connection.state.dimensions)


def adopt_fingerprint(connection: Connection, fingerprint: Fingerprint) -> int:
    """Return the id of the fingerprint, and make it that of the memory if it has none yet.

    Raises EmbeddingUnavailableError like `require_same_fingerprint`.
    """
    require_same_fingerprint(connection, fingerprint)
    state = connection.state
    if state.model_id is None:
        state.model_id, state.fingerprint = 1, fingerprint
        connection.later(
            "insert into embedding_models (id, model, dimensions, precision, engine) values (%s, %s, %s, %s, %s)",
            (state.model_id, fingerprint.model, fingerprint.dimensions, fingerprint.precision, fingerprint.engine),
        )
    return state.model_id


def add_passages(
    connection: Connection,
    memory: Memory,
    passages: Sequence[Passage],
    vectors: Vectors,
    states: Sequence[bytes | None] | None = None,
    *,
    table: str = "memory_passages",
) -> None:
    """Add a stored memory's passages, their vectors, and the states of their tokens if they are kept."""
    if not passages:
        return
    first, *_ = connection.state.next_ids("passage", len(passages))
    chunks, starts, ends = (list(column) for column in zip(*passages, strict=True))
    connection.later(
        ADD.format(table=table),
        {
            "memory": memory.id,
            "first": first,
            "chunks": chunks,
            "starts": starts,
            "ends": ends,
            "states": states or [None] * len(passages),
            "vectors": vectors,
            "length": vectors.shape[1],
        },
    )


def discard_partial_vectors(connection: Connection, memory_id: int | None = None) -> None:
    """Delete the passages and vectors of a memory that does not have all of them; None: of all such memories."""
    connection.later(
        """
        with gone as (
            delete from memory_passages p using session_memories m
            where p.memory_id = m.id and m.embedding_model_id is null and m.id = coalesce(%s::bigint, m.id)
            returning p.id
        )
        update namespace set epoch = epoch + 1 where exists (select 1 from gone)
        """,
        (memory_id,),
    )


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


def mean_vectors(connection: Connection, memory_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
    """Return the ids of the memories that have all their vectors, ascending, and their means, shape (ids, dimensions).

    Each mean is over the vectors of all passages of the memory.
    """
    sql = f"""
        select p.memory_id, p.embedding from memory_passages p
        join session_memories m on m.id = p.memory_id and {IS_INDEXED}
        where p.memory_id = any(%s::bigint[]) order by p.id
    """
    return means_of(*_fetched(connection, sql, memory_ids))


def vectors_of(connection: Connection, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
    """Return the ids of those passages that exist, ascending, and the vectors, shape (ids, dimensions)."""
    sql = "select id, embedding from memory_passages where id = any(%s::bigint[]) order by id"
    return _fetched(connection, sql, passage_ids)


def vectors_of_units(connection: Connection, scope: Scope, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
    """Return the unit of each passage of these units, which are of the scope's kind, and the vectors."""
    unit = "chunk_id" if scope.kind is not None and TRAITS[scope.kind].chunked else "memory_id"
    return _fetched(connection, f"select {unit}, embedding from memory_passages where {unit} = any(%s)", unit_ids)


def token_states(connection: Connection, kind: MemoryKind, unit_ids: Sequence[int]) -> dict[int, list[bytes | None]]:
    """Return the token states of each passage of units of a kind, by unit; None: they are not kept."""
    unit = "chunk_id" if TRAITS[kind].chunked else "memory_id"
    sql = f"select {unit}, states from memory_passages where {unit} = any(%s)"
    found: dict[int, list[bytes | None]] = {}
    for number, states in connection.execute(sql, (np.array(unit_ids, np.int64),), binary=True):
        found.setdefault(number, []).append(states)
    return found


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
