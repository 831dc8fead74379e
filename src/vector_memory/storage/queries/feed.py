"""What an index in memory is made of and kept up to date from: memories, units and passages, and their postings."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.storage.connection import Queries
from vector_memory.storage.postings import LENGTH, FoundPostings, place_of
from vector_memory.storage.queries.filters import memory_filter
from vector_memory.storage.scoring import Numbers, Signatures, Vectors
from vector_memory.storage.terms import OLD_WORDS


class Revision(NamedTuple):
    """Shows whether an index in memory is still valid, and whether there is new data.

    `epoch`: changes whenever the whole index becomes invalid. The last ids show whether there are new memories, chunks
    or passages: ids ascend in the order of commits and are never reused. `removals`: the number of memories removed
    from the index. Within an epoch no field ever decreases.
    """

    epoch: int
    removals: int
    last_memory_id: int
    last_chunk_id: int
    last_passage_id: int


class IndexedMemory(NamedTuple):
    """The fields of a memory that filters use, and the place of its units. A missing session or task is empty.

    `created_at`: as stored. `place`: the place of its first unit. `lengths`: the numbers of terms of its units, in
    order.
    """

    memory_id: int
    kind: str
    session_id: str
    agent_id: str
    task_code: str
    session_iter: int
    created_at: str
    place: int
    lengths: NDArray[np.integer]


class ChunkId(NamedTuple):
    """A memory, and one of its chunks."""

    memory_id: int
    id: int


class PlacedPassage(NamedTuple):
    """A passage's id, and the memory and unit that it belongs to."""

    id: int
    memory_id: int
    unit_id: int


class NewPassages(NamedTuple):
    """The passages after another one that have vectors, sorted by id, with the signatures of their vectors.

    `vectors`: of all of them, or None if nobody asked. `last_id`: of the last passage read; None: there are no more.
    """

    placed: Sequence[PlacedPassage]
    signatures: Signatures
    vectors: Vectors | None
    last_id: int | None


Occurring = tuple[Sequence[str], Sequence[Numbers]]
"""Terms, and for each the blocks that may contain it."""


def indexed_memory(*, block_id: int, first_unit: int, lengths: bytes, **columns: str) -> IndexedMemory:
    """Return an IndexedMemory for a row."""
    return IndexedMemory(**columns, place=place_of(block_id, first_unit), lengths=np.frombuffer(lengths, LENGTH))  # type: ignore[arg-type]


class IndexFeed(Queries, ABC):
    """The data for keeping an index in memory up to date, in one snapshot. Raises DatabaseError for damaged data.

    What is abstract, each engine does in its own way.
    """

    @abstractmethod
    def revision(self) -> Revision:
        """Return the revision of the snapshot."""

    def is_settled(self) -> bool:
        """Return whether the words of units stay as they are. While an upgrade indexes them again, keep no index."""
        return self.connection.fetch_value(f"{OLD_WORDS} limit 1") is None

    @abstractmethod
    def dimensions(self) -> int:
        """Return the length of the vectors."""

    @abstractmethod
    def read_postings(self, row_ids: Numbers) -> FoundPostings:
        """Return the rows of postings that exist."""

    @abstractmethod
    def read_ahead(self, asked: Callable[[], Occurring]) -> None:
        """Read the postings that will probably be asked for, if that is faster together with other questions."""

    @abstractmethod
    def passages_after(self, passage_id: int, limit: int, *, with_vectors: bool) -> NewPassages:
        """Return at most `limit` passages with ids above `passage_id`. Without their vectors it may be faster."""

    @abstractmethod
    def existing_passages(self, passage_ids: Sequence[int]) -> list[int]:
        """Return the ids of the passages that exist."""

    @abstractmethod
    def vectors(self, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of the passages that have vectors, ascending, and the vectors. Fast for neighbouring ids."""

    @abstractmethod
    def scattered_vectors(self, scope: Scope, passage_ids: Sequence[int]) -> tuple[Numbers, Vectors]:
        """Return the same for passages of a scope of one kind; fast for ids that are far apart."""

    def memories_after(self, memory_id: int, limit: int) -> list[IndexedMemory]:
        """Return at most `limit` indexed memories with ids above `memory_id`, sorted by id."""
        return self._memories("k.memory_id > %(id)s order by k.memory_id limit %(limit)s", id=memory_id, limit=limit)

    def memories_with_chunks_after(self, chunk_id: int, last_memory_id: int) -> list[IndexedMemory]:
        """Return the memories with ids up to `last_memory_id` that have chunks with ids above `chunk_id`, sorted."""
        having = "select parent_id from memory_chunks where id > %(chunk)s and parent_id <= %(last)s"
        return self._memories(f"k.memory_id in ({having}) order by k.memory_id", chunk=chunk_id, last=last_memory_id)

    def memory_ids(self) -> list[int]:
        """Return the ids of all indexed memories."""
        return self.connection.fetch_column("select memory_id from keyword_memories")

    def memories_in(self, scope: Scope) -> list[int]:
        """Return the ids of the memories of a scope."""
        condition = memory_filter(scope)
        return self.connection.fetch_column(
            f"select m.id from session_memories m where {condition.sql}", condition.parameters
        )

    def chunks_of(self, memory_ids: Sequence[int]) -> Numbers:
        """Return memory id and chunk id, shape (chunks, 2), sorted by memory and by place in it."""
        sql = """
            select parent_id as memory_id, id from memory_chunks
            where parent_id {among:ids} order by parent_id, chunk_index
        """
        rows = self.connection.fetch(ChunkId, sql, {"ids": list(memory_ids)})
        return np.array(rows, np.int64).reshape(-1, 2)

    def _memories(self, condition: str, **parameters: int) -> list[IndexedMemory]:
        sql = f"""
            select m.id as memory_id, m.memory_type as kind, coalesce(m.session_id, '') as session_id, m.agent_id,
                coalesce(m.task_code, '') as task_code, m.session_iter, m.created_at, k.block_id, k.first_unit,
                k.lengths
            from keyword_memories k join session_memories m on m.id = k.memory_id where {condition}
        """
        return self.connection.fetch(indexed_memory, sql, parameters)
