"""The IndexFeed of a schema."""

from collections.abc import Callable, Sequence

import numpy as np

from vector_memory.domain import Scope
from vector_memory.storage import postings
from vector_memory.storage.postgres.arrays import as_signatures, as_vectors
from vector_memory.storage.postgres.candidates import read_postings, vectors_of
from vector_memory.storage.postgres.transactions import PostgresConnection
from vector_memory.storage.postings import FoundPostings
from vector_memory.storage.queries.feed import IndexFeed, NewPassages, Occurring, PlacedPassage, Revision
from vector_memory.storage.scoring import Numbers, Vectors, signatures_of

# ruff: noqa: D102 - the methods are described in storage.queries.feed

SIGNATURE = "binary_quantize(embedding)"


class PostgresFeed(IndexFeed):
    """The IndexFeed of a schema, in the connection's transaction."""

    def __init__(self, connection: PostgresConnection) -> None:
        super().__init__(connection)
        self._raw = connection.raw
        self._ahead: tuple[Numbers, FoundPostings] | None = None
        """Rows of postings by their ids, which were read with the first questions of the transaction."""

    def revision(self) -> Revision:
        state = self._raw.state
        return Revision(state.epoch, state.removals, state.last_memory_id, state.last_chunk_id, state.last_passage_id)

    def is_settled(self) -> bool:
        return not self._raw.state.has_old_words

    def dimensions(self) -> int:
        return self._raw.state.dimensions

    def read_ahead(self, asked: Callable[[], Occurring]) -> None:
        """Read what `read_postings` will probably be asked for. It may be asked for something else."""
        row_ids = postings.rows_with(*asked())
        if len(row_ids):
            self._ahead = (row_ids, read_postings(self._raw, row_ids))

    def passages_after(self, passage_id: int, limit: int, *, with_vectors: bool) -> NewPassages:
        """Return at most `limit` passages with ids above `passage_id`.

        Without their vectors, the server makes the signatures, which are a thirtieth as long.
        """
        sql = f"""
            select id, memory_id, coalesce(chunk_id, memory_id), {"embedding" if with_vectors else SIGNATURE}
            from memory_passages where id > %s order by id limit %s
        """
        rows = self._raw.execute(sql, (passage_id, limit), binary=True).fetchall()
        sent, vectors = [row[3] for row in rows], None
        if with_vectors:
            vectors = as_vectors(sent, self.dimensions())
            signatures = signatures_of(vectors)
        else:
            signatures = as_signatures(sent, self.dimensions())
        placed = [PlacedPassage(*row[:3]) for row in rows]
        return NewPassages(placed, signatures, vectors, placed[-1].id if len(placed) == limit else None)

    def existing_passages(self, passage_ids: Sequence[int]) -> list[int]:
        """Return the ids of the passages that exist: all that the revision knows.

        A passage goes with its memory, which `removals` counts, or with a new epoch.
        """
        return list(passage_ids)

    def vectors(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        return vectors_of(self._raw, passage_ids)

    def scattered_vectors(self, scope: Scope, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:  # noqa: ARG002
        """Return the vectors of passages of a scope, which are in one table with all others."""
        return vectors_of(self._raw, passage_ids)

    def read_postings(self, row_ids: Numbers) -> FoundPostings:
        if self._ahead is not None and np.array_equal(self._ahead[0], row_ids):
            return self._ahead[1]
        return read_postings(self._raw, row_ids)
