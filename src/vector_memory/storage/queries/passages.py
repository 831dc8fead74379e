"""Passages of memories with their vectors, and the states of their tokens."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from vector_memory.domain import TRAITS, Fingerprint, MemoryKind
from vector_memory.storage.connection import Queries
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.queries.memories import IS_INDEXED
from vector_memory.storage.records import Memory, StoredPassage

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    import numpy as np
    from numpy.typing import NDArray

    from vector_memory.storage.queries.candidates import Candidates

PASSAGES = """
select p.id, p.memory_id, c.chunk_index as chunk, p.start_char as start, p.end_char as end, {states} as states
from memory_passages p {with_states} left join memory_chunks c on c.id = p.chunk_id
where p.memory_id {among:ids} order by p.id
"""

PARTIAL = """
memory_id in (
    select id from session_memories where embedding_model_id is null and (id = %(memory)s or %(memory)s is null)
)
"""


class Passage(NamedTuple):
    """A part of a memory's content that has its own vector. `chunk_id`: None if the memory is not chunked."""

    chunk_id: int | None
    start: int
    end: int


class PassageRow(NamedTuple):
    """A stored passage: its id, its memory, the number of its chunk there, its place in the text, and its states."""

    id: int
    memory_id: int
    chunk: int | None
    start: int
    end: int
    states: bytes | None


class OwnedPassage(NamedTuple):
    """A passage, and the memory that it belongs to."""

    id: int
    memory_id: int


class PassageText(NamedTuple):
    """A passage of a memory: its id, and its text."""

    id: int
    memory_id: int
    text: str


class States(NamedTuple):
    """The states of the tokens of a passage of a unit; None: they are not kept."""

    unit_id: int
    states: bytes | None


class PassageQueries(Queries, ABC):
    """Reads passages. What is abstract, each engine does in its own way."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """The length of the vectors."""

    @abstractmethod
    def fingerprint(self) -> Fingerprint | None:
        """Return the fingerprint of the stored vectors, or None if there are none."""

    @property
    @abstractmethod
    def candidates(self) -> "Candidates":
        """What searches compare."""

    def require_comparable(self, fingerprint: Fingerprint) -> None:
        """Raise EmbeddingUnavailableError if vectors with this fingerprint are not comparable with the stored ones."""
        fingerprint.require_comparable(self.fingerprint(), self.dimensions)

    def passages(self, memory_ids: Sequence[int]) -> dict[int, list[StoredPassage]]:
        """Return the passages with their vectors, in order, of those memories that have all their vectors."""
        sql = f"select m.id from session_memories m where m.id {{among:ids}} and {IS_INDEXED}"
        complete = self.connection.fetch_column(sql, {"ids": list(memory_ids)})
        found: dict[int, list[StoredPassage]] = {memory_id: [] for memory_id in complete}
        rows = self.connection.fetch(PassageRow, PASSAGES, {"ids": complete}) if complete else []
        if not rows:
            return found
        ids, vectors = self.candidates.vectors([row.id for row in rows])
        if len(ids) < len(rows):
            raise DamagedError("A passage has no vector: run `vector-memory doctor --fix`.")
        for row, vector in zip(rows, vectors, strict=True):
            found[row.memory_id].append(StoredPassage(row.chunk, row.start, row.end, vector, row.states))
        return found

    def passages_of(self, memory: Memory) -> list[StoredPassage]:
        """Return the passages of a memory with their vectors, in order; none if it does not have all its vectors."""
        return self.passages([memory.id]).get(memory.id, [])

    def passage_texts(self, memory_ids: Sequence[int]) -> list[PassageText]:
        """Return the passages of memories in order, without the states of tokens, which are much longer."""
        sql = """
            select p.id, p.memory_id, substr(m.content, p.start_char + 1, p.end_char - p.start_char) as text
            from memory_passages p join session_memories m on m.id = p.memory_id
            where p.memory_id {among:ids} order by p.id
        """
        return self.connection.fetch(PassageText, sql, {"ids": list(memory_ids)})

    def mean_vectors(self, memory_ids: Sequence[int]) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        """Return the ids of the memories that have all vectors, ascending, and their means, shape (ids, dimensions)."""
        import numpy as np  # noqa: PLC0415

        # Without the states of tokens, which are much longer than the vectors.
        sql = f"""
            select p.id, p.memory_id from memory_passages p join session_memories m on m.id = p.memory_id
            where m.id {{among:ids}} and {IS_INDEXED}
        """
        owners = dict(self.connection.fetch(OwnedPassage, sql, {"ids": list(memory_ids)}))
        ids, vectors = self.candidates.vectors(list(owners))
        owned = np.array([owners[number] for number in ids.tolist()], np.int64)
        order = owned.argsort(kind="stable")
        found, starts, counts = np.unique(owned[order], return_index=True, return_counts=True)
        if not found.size:
            return found, np.zeros((0, self.dimensions), np.float32)
        sums: NDArray[np.float32] = np.add.reduceat(vectors[order], starts, axis=0)
        return found, sums / counts.astype(np.float32)[:, np.newaxis]

    def token_states(self, kind: MemoryKind, unit_ids: Sequence[int]) -> dict[int, list[bytes | None]]:
        """Return the token states of each passage of units of a kind, by unit; None: not kept, or damaged."""
        unit = "chunk_id" if TRAITS[kind].chunked else "memory_id"
        sql = f"""
            select p.{unit} as unit_id, {{readable_states}} as states from memory_passages p {{with_states}}
            where p.{unit} {{among:ids}} order by p.id
        """
        found: dict[int, list[bytes | None]] = {}
        for row in self.connection.fetch(States, sql, {"ids": list(unit_ids)}):
            found.setdefault(row.unit_id, []).append(row.states)
        return found


class PassageChanges(PassageQueries):
    """Adds and deletes passages. What is abstract, each engine does in its own way."""

    @abstractmethod
    def adopt_fingerprint(self, fingerprint: Fingerprint) -> int:
        """Return the id of the fingerprint, and make it that of the memory if it has none yet.

        Raises EmbeddingUnavailableError if vectors of this fingerprint are not comparable with the stored ones.
        """

    @abstractmethod
    def add_passages(
        self,
        memory: Memory,
        passages: Sequence[Passage],
        vectors: "NDArray[np.float32]",
        states: Sequence[bytes | None] | None = None,
        *,
        prefix: str = "",
    ) -> None:
        """Add a stored memory's passages, their vectors, and the states of their tokens if they are kept.

        `prefix`: prefix of the names of the tables.
        """

    def discard_vectors(self, memory_id: int | None) -> None:
        """Delete the vectors of a memory that does not have all of them; None: of all such memories."""
        self.connection.later(f"delete from memory_passages where {PARTIAL}", {"memory": memory_id})
