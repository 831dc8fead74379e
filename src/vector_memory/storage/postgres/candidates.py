"""What a search reads from a schema: postings, vectors, and the CandidateSource of a scope."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from vector_memory.domain import TRAITS, Scope
from vector_memory.storage.knn import Candidates, ScopeCandidates
from vector_memory.storage.postgres import approximate
from vector_memory.storage.postgres.arrays import as_numbers, as_vectors
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.dialect import as_postgres
from vector_memory.storage.postgres.transactions import PostgresConnection
from vector_memory.storage.postings import FoundPostings, in_order
from vector_memory.storage.queries.filters import CONDITIONS, Filter, parameters_of
from vector_memory.storage.queries.words import ScopeWords
from vector_memory.storage.scoring import Method, Numbers, Vectors, cosines


def read_postings(connection: Connection, wanted: Numbers) -> FoundPostings:
    """Return the postings of those rows that exist, in the given order.

    The query returns them in one row: handing over thousands of rows takes longer than reading them. It gets their ids
    sorted, so that PostgreSQL reads neighbouring rows after each other, and cannot choose to read the whole table.
    """
    sql = """
        select string_agg(int8send(id), ''::bytea), string_agg(int8send(length(postings)::bigint), ''::bytea),
            string_agg(postings, ''::bytea)
        from keyword_postings where id = any(%s::bigint[])
    """
    ids, places = np.unique(np.asarray(wanted, np.int64), return_inverse=True)
    found, sizes, joined = connection.execute(sql, (ids,), binary=True).fetchall()[0]
    rows, postings = in_order(np.searchsorted(ids, as_numbers(found)), as_numbers(sizes), joined or b"")
    ends = np.searchsorted(rows, np.arange(len(ids) + 1))
    counts = np.diff(ends)[places]
    before = np.cumsum(counts) - counts
    order = np.repeat(ends[:-1][places] - before, counts) + np.arange(counts.sum())
    return FoundPostings(np.repeat(np.arange(len(places)), counts), postings[order])


COPIED = {"after_id": "p.memory_id > %(after_id)s"} | {
    name: CONDITIONS[name].replace("m.", "p.")
    for name in ("kind", "agent_id", "session_id", "session_iter", "task_code", "own_agent_id", "sessions")
}
"""The conditions over the columns of `memory_passages p` that are copied from the memory."""

MEMORY_OF_PASSAGE = "join session_memories m on m.id = p.memory_id"


def passage_filter(scope: Scope) -> Filter:
    """Return the condition that a passage is in the scope, after `from memory_passages p`: joins and all."""
    parameters = parameters_of(scope)
    joined = "" if parameters.keys() <= COPIED.keys() else MEMORY_OF_PASSAGE
    conditions = " and ".join(COPIED.get(name, CONDITIONS[name]) for name in parameters) or "true"
    return Filter(as_postgres(f"{joined} where {conditions}"), parameters)


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


class PostgresCandidates(ScopeCandidates):
    """The CandidateSource of a scope of memories of one kind, in the connection's transaction."""

    def __init__(self, connection: PostgresConnection, scope: Scope, method: Method) -> None:
        super().__init__(method, ScopeWords(connection, scope, partial(read_postings, connection.raw)))
        self._raw = connection.raw
        self._scope = scope

    def _nearest_passages(self, query: Vectors, k: int) -> Candidates:
        return nearest(self._raw, self._scope, query, k)

    def _passages(self, limit: int) -> Numbers:
        return passages_in(self._raw, self._scope, limit)

    def _vectors_of(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        return vectors_of(self._raw, passage_ids)

    def _vectors_of_units(self, unit_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        return vectors_of_units(self._raw, self._scope, unit_ids)
