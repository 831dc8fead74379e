"""What a search reads from a schema: postings, and vectors, which pgvector compares."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vector_memory.domain import TRAITS, Scope
from vector_memory.extras.postgres import approximate
from vector_memory.extras.postgres.statement import as_numbers, as_vectors
from vector_memory.extras.postgres.transactions import PostgresConnection
from vector_memory.storage.connection import Query, Steps, read
from vector_memory.storage.postings import BUCKETS
from vector_memory.storage.queries.candidates import Candidates, ComparedPassages, Likely, Weights
from vector_memory.storage.queries.filters import CONDITIONS, LIFETIMES, Filter, parameters_of
from vector_memory.storage.scoring import Numbers, Vectors, rounded

# ruff: noqa: D102 - the methods are described in storage.queries.candidates

MOST_AHEAD = 15_000
"""Passages of a session that are compared before it is known how many there are."""

MOST_OF_KNOWLEDGE = 4_000
"""The same for knowledge and notes, which belong to no session."""

FEW = 20_000
"""This many of the newest passages are compared exactly, in one round trip."""

BY_WORDS = 4
"""For this many of the requested passages, one unit is chosen for its words alone."""

COPIED = {"after_id": "p.memory_id > %(after_id)s"} | {
    name: CONDITIONS[name].replace("m.", "p.")
    for name in ("kind", "agent_id", "session_id", "session_iter", "task_code", "own_agent_id", "sessions")
}
"""The conditions over the columns of `memory_passages p` that are copied from the memory."""

MEMORY_OF_PASSAGE = "join session_memories m on m.id = p.memory_id"


def passage_filter(scope: Scope) -> Filter:
    """Return what follows `from memory_passages p` to select a scope's passages, joins included."""
    parameters = parameters_of(scope)
    joined = "" if parameters.keys() <= COPIED.keys() else MEMORY_OF_PASSAGE
    lifetimes = [condition.replace("m.id", "p.memory_id") for condition in LIFETIMES.get(scope.as_of, [])]
    conditions = " and ".join([*(COPIED.get(name, CONDITIONS[name]) for name in parameters), *lifetimes]) or "true"
    return Filter(f"{joined} where {{visible:p}} and {conditions}", parameters)


class Distances(NamedTuple):
    """The units and the distances of passages, as PostgreSQL sends 64-bit numbers; None: there are none."""

    units: bytes | None
    distances: bytes | None


class UnitVector(NamedTuple):
    """The unit of a passage, and its vector as pgvector sends it."""

    unit: int
    embedding: bytes


class PostgresCandidates(Candidates):
    """The Candidates of a schema, in the connection's transaction."""

    connection: PostgresConnection

    # `offset` keeps PostgreSQL from reading the whole table instead of some rows.
    POSTINGS = f"""
        select json_agg(coalesce(length(p.postings), 0) order by bucket, b.id)::text as posting_sizes,
            coalesce(string_agg(p.postings, ''::bytea order by bucket, b.id), ''::bytea) as postings
        from (select id from keyword_blocks where {{blocks}}) b
        cross join unnest(%(buckets)s::bigint[]) bucket
        left join lateral (
            select postings from keyword_postings where id = b.id * {BUCKETS} + bucket offset 0
        ) p on true
    """

    def vectors(self, passage_ids: list[int]) -> tuple[Numbers, Vectors]:
        sql = (
            f"select id, embedding from memory_passages p where id = any(%s::bigint[]) and {self._is_read} order by id"
        )
        return self._fetched(sql, passage_ids)

    @read
    def compared_ahead(self, scope: Scope, query: Vectors) -> Steps[ComparedPassages | None]:
        if scope.session_id is None and (scope.kind is None or TRAITS[scope.kind].session_scoped):
            return None
        most = MOST_AHEAD if scope.session_id is not None else MOST_OF_KNOWLEDGE
        found = yield from self._compared(scope, query, most + 1)
        return None if len(found.cosines) > most else found

    def compared(self, scope: Scope, *queries: Vectors) -> ComparedPassages:
        found = [self.run(self._compared(scope, query, None)) for query in queries]
        return ComparedPassages(*map(np.concatenate, zip(*found, strict=True)))

    def _compared(self, scope: Scope, query: Vectors, limit: int | None) -> Steps[ComparedPassages]:
        condition = passage_filter(scope)
        sql = f"""
            select string_agg(int8send(unit), ''::bytea) as units,
                string_agg(float8send(distance), ''::bytea) as distances
            from (
                select coalesce(p.chunk_id, p.memory_id) as unit,
                    p.embedding <-> %(query)s::real[]::vector as distance
                from memory_passages p {condition.sql} and {self._is_read} limit %(limit)s
            ) compared
        """
        parameters = condition.parameters | {"query": query, "limit": limit}
        ((units, distances),) = yield Query(Distances, sql, parameters)
        # For unit vectors |a - b|^2 = 2 - 2ab.
        near = 1 - np.square(np.frombuffer(distances or b"", ">f8").astype(np.float64)) / 2
        return ComparedPassages(as_numbers(units), rounded(near))

    @read
    def likeliest_ahead(
        self, scope: Scope, query: Vectors, limit: int, newest: int, besides: str | None
    ) -> Steps[Likely | None]:
        if newest > FEW:
            return None
        left_out = () if besides is None or scope.session_id is not None else besides
        units, vectors, _ = yield from nearest(
            self.connection, scope, self._is_read, query, limit, left_out, approximately=False
        )
        return Likely(units, vectors, len(units) < limit)

    @read
    def likeliest(
        self, scope: Scope, query: Vectors, worth: Weights, limit: int, newest: int | None = None
    ) -> Steps[Likely]:
        """Return the nearest passages, and those of the units that gain most from their words.

        For a few of the newest, only the nearest, in one round trip.
        """
        are_few = newest is not None and newest <= FEW
        units, vectors, is_exact = yield from nearest(
            self.connection, scope, self._is_read, query, limit, worth.left_out, approximately=not are_few
        )
        complete = is_exact and len(units) < limit
        wanted = [] if complete or are_few else np.setdiff1d(worth.best(limit // BY_WORDS), units).tolist()
        if wanted:
            column = "chunk_id" if scope.kind is not None and TRAITS[scope.kind].chunked else "memory_id"
            sql = f"select {column}, embedding from memory_passages p where {column} = any(%s) and {self._is_read}"
            others, more = self._fetched(sql, wanted)
            units, vectors = np.concatenate([units, others]), np.concatenate([vectors, more])
        return Likely(units, vectors, complete)

    def _fetched(self, sql: str, ids: list[int]) -> tuple[Numbers, Vectors]:
        """Return rows of id and vector as arrays."""
        rows = self.connection.unchecked.execute(sql, (ids,), binary=True).fetchall() if ids else []
        found, sent = zip(*rows, strict=True) if rows else ((), ())
        dimensions = 1 if self.model is None else self.model.fingerprint.dimensions
        return np.array(found, np.int64), as_vectors(sent, dimensions)


def nearest(
    connection: PostgresConnection,
    scope: Scope,
    is_read: str,
    query: Vectors,
    k: int,
    left_out: Sequence[int] | str = (),
    *,
    approximately: bool,
) -> Steps[tuple[Numbers, Vectors, bool]]:
    """Return the units and vectors of the `k` passages of a scope that are nearest to the query, and if that is exact.

    `is_read`: the condition that a passage `p` is of the model. `left_out`: memories, or a session, that are not
    in the scope. Compares all of them, unless the scope is large and
    there is an index of vectors that may be used (`approximate`).
    """
    condition = passage_filter(scope)
    condition = Filter(f"{condition.sql} and {is_read}", condition.parameters)
    if left_out:
        others = "p.session_id is distinct from %(left_out)s"
        if not isinstance(left_out, str):
            others, left_out = "p.memory_id <> all(%(left_out)s::bigint[])", list(left_out)
        condition = Filter(f"{condition.sql} and {others}", condition.parameters | {"left_out": left_out})
    rows = None
    if approximately:
        sql, parameters = connection.only_visible(condition.sql, condition.parameters)
        rows = approximate.nearest(connection.unchecked, Filter(sql, dict(parameters)), is_read, query, k)
    is_exact = rows is None
    if rows is None:
        # The sum keeps the planner from an approximate index.
        sql = f"""
            select coalesce(p.chunk_id, p.memory_id) as unit, p.embedding from memory_passages p {condition.sql}
            order by (p.embedding <-> %(query)s::real[]::vector) + 0, p.id limit %(k)s
        """
        rows = yield Query(UnitVector, sql, condition.parameters | {"query": query, "k": k})
    units, sent = zip(*rows, strict=True) if rows else ((), ())
    return np.array(units, np.int64), as_vectors(sent, len(query)), is_exact
