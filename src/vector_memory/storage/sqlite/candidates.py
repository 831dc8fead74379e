"""What a search reads from a file: postings, and vectors by the blocks of sqlite-vec that have them."""

import numpy as np

from vector_memory.domain import TRAITS, Scope
from vector_memory.storage.connection import Steps, read
from vector_memory.storage.postings import BUCKETS
from vector_memory.storage.queries.candidates import Candidates, ComparedPassages, Likely, Weights
from vector_memory.storage.queries.filters import memory_filter
from vector_memory.storage.scoring import Numbers, Vectors, cosines
from vector_memory.storage.sqlite.rows import fetch_value
from vector_memory.storage.sqlite.schema import tables_of
from vector_memory.storage.sqlite.transactions import SqliteConnection
from vector_memory.storage.sqlite.vec0 import likeliest_passages, read_selected, read_vectors

# ruff: noqa: D102 - the methods are described in storage.queries.candidates


class SqliteCandidates(Candidates):
    """The Candidates of a file, in the connection's transaction."""

    connection: SqliteConnection

    POSTINGS = f"""
        select {{listed:coalesce(length(postings), 0)}} as posting_sizes, {{joined:postings}} as postings from (
            select p.postings from {{each:buckets}}
            cross join (select id from keyword_blocks where {{blocks}} order by id) b
            left join keyword_postings p on p.id = b.id * {BUCKETS} + each.value
        ) p
    """

    def _vectors_in(self, table: str, passage_ids: list[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of those passages that have vectors, ascending, and the vectors, shape (ids, dimensions).

        Raises DamagedError if the table is not as sqlite-vec would have written it.
        """
        dimensions = 1 if self.model is None else self.model.fingerprint.dimensions
        return read_vectors(self.connection.unchecked, table, dimensions, passage_ids)

    def vectors(self, passage_ids: list[int]) -> tuple[Numbers, Vectors]:
        tables = tables_of(self.model_id)
        ids, vectors = self._vectors_in(tables.chunks, passage_ids)
        if len(ids) == len(passage_ids):  # copying them would take as long as reading
            return ids, vectors
        others, more = self._vectors_in(tables.memories, list(set(passage_ids).difference(ids.tolist())))
        ids, vectors = np.concatenate([ids, others]), np.concatenate([vectors, more])
        order = np.argsort(ids)
        return ids[order], vectors[order]

    def compared(self, scope: Scope, *queries: Vectors) -> ComparedPassages:
        condition = memory_filter(scope)
        select = f"""
            select p.id, coalesce(p.chunk_id, p.memory_id) as number
            from session_memories m cross join memory_passages p on p.memory_id = m.id
            where {{visible:m}} and {condition.sql}
        """
        selected, raw = self.connection.prepared(select, condition.parameters), self.connection.unchecked
        units, places, vectors = read_selected(raw, self._table_of(scope), len(queries[0]), *selected)
        return ComparedPassages(units, np.max([cosines(vectors, query) for query in queries], axis=0)[places])

    @read
    def likeliest(
        self, scope: Scope, query: Vectors, worth: Weights, limit: int, newest: int | None = None
    ) -> Steps[Likely]:
        yield from ()  # signatures and vectors are in blobs
        connection = self.connection.unchecked
        kind = fetch_value(connection, "select id from index_keys where name = ?", (str(scope.kind),))
        # To a limited token, the passages of other sessions are not there, so none may take the places of the newest.
        considered = newest if self.connection.sessions is None else None
        found = likeliest_passages(
            connection, tables_of(self.model_id).signatures, kind, query, worth, limit, considered
        )
        order = np.argsort(found.passage_ids)
        passages, units = found.passage_ids[order], found.unit_ids[order]
        ids, vectors = self._vectors_in(self._table_of(scope), passages.tolist())
        return Likely(units[np.isin(passages, ids)], vectors, found.complete)

    def _table_of(self, scope: Scope) -> str:
        """Return the vec0 table for a scope of one kind."""
        tables = tables_of(self.model_id)
        return tables.chunks if scope.kind is not None and TRAITS[scope.kind].chunked else tables.memories
