"""What is read and written in one transaction, of any engine.

A reader is made of the queries of each subject: its methods are the functions of `queries`, over its connection. What
is abstract here differs between engines, which have a module of the same name.

A reader or writer may be used only by one thread and only inside its block.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vector_memory.domain import Fingerprint, MemoryKind, Scope
from vector_memory.storage.queries.chunks import ChunkQueries
from vector_memory.storage.queries.insert import DuplicateQueries, MemoryInserts
from vector_memory.storage.queries.memories import MemoryChanges, MemoryQueries
from vector_memory.storage.queries.pending import PendingQueries
from vector_memory.storage.queries.sessions import SessionQueries
from vector_memory.storage.queries.tags import TagChanges, TagQueries
from vector_memory.storage.records import Cursor, Memory, StoredPassage

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    import numpy as np
    from numpy.typing import NDArray

    from vector_memory.storage.maintenance_api import Upkeep
    from vector_memory.storage.scoring import CandidateSource, IndexFeed, Method


class Reader(MemoryQueries, ChunkQueries, SessionQueries, DuplicateQueries, TagQueries, PendingQueries, ABC):
    """One snapshot of a memory."""

    @abstractmethod
    def together(self, *reads: Callable[["Reader"], Any]) -> list[Any]:
        """Return what reads return that do not need each other. An engine may ask for all of it in one round trip."""

    def passages_of(self, memory: Memory) -> list[StoredPassage]:
        """Return the passages of a memory with their vectors, in order; none if it does not have all its vectors."""
        return self.upkeep.portions.passages([memory.id]).get(memory.id, [])

    @abstractmethod
    def mean_vectors(self, memory_ids: Sequence[int]) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        """Return the ids of the memories that have all vectors, ascending, and their means, shape (ids, dimensions)."""

    @abstractmethod
    def cursor(self) -> Cursor:
        """Return the cursor after everything that was ever committed, including deleted memories."""

    @abstractmethod
    def fingerprint(self) -> Fingerprint | None:
        """Return the fingerprint of the stored vectors, or None if there are none."""

    @abstractmethod
    def require_comparable(self, fingerprint: Fingerprint) -> None:
        """Raise EmbeddingUnavailableError if vectors with this fingerprint are not comparable with the stored ones."""

    @abstractmethod
    def token_states(self, kind: MemoryKind, unit_ids: Sequence[int]) -> dict[int, list[bytes | None]]:
        """Return the states of the tokens of each passage of units of a kind, by unit; None: they are not kept."""

    @abstractmethod
    def candidates(self, scope: Scope, method: "Method") -> "CandidateSource":
        """Return the source that ranks the units of a scope, which must have a kind."""

    @property
    @abstractmethod
    def feed(self) -> "IndexFeed | None":
        """The feed for an index in memory; None if the engine has none."""

    @property
    @abstractmethod
    def upkeep(self) -> "Upkeep":
        """What only maintenance needs, in the same transaction."""


class Writer(MemoryChanges, MemoryInserts, TagChanges, Reader):
    """A reader of the newest state that can also change it."""

    @abstractmethod
    def discard_vectors(self, memory_id: int) -> None:
        """Delete the vectors of a memory that does not have all of them."""
