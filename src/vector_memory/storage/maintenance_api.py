"""What only maintenance asks of a storage engine, beside `storage.base`."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from vector_memory.storage.records import Memory, StoredChunk, StoredPassage

if TYPE_CHECKING:
    from vector_memory.storage.queries.change_of_model import ChangeOfModel
    from vector_memory.storage.queries.portions import Portions

IDENTITY = ("id", "memory_type", "agent_id", "session_id", "session_iter", "task_code", "created_at", "content_hash")
"""What no amendment changes."""

EXPORT_AND_IMPORT = (
    "Run `vector-memory export` with that version, and `vector-memory import` with this one, into another memory."
)
"""What to do with a memory of a development version."""


class Upkeep(NamedTuple):
    """What maintenance does in the transaction of a reader or writer."""

    change: "ChangeOfModel"
    portions: "Portions"


@dataclass(frozen=True, slots=True)
class WholeMemory:
    """A memory with everything derived from it but its words. `passages`: None if it does not have all its vectors."""

    memory: Memory
    chunks: Sequence[StoredChunk]
    passages: Sequence[StoredPassage] | None

    def equals(self, other: "WholeMemory") -> bool:
        """Return whether all is equal, the vectors bit by bit."""
        return (self.memory, self.chunks, self.places()) == (other.memory, other.chunks, other.places())

    def is_same(self, other: "WholeMemory") -> bool:
        """Return whether it is the same memory, however often it was read, or an earlier state of it.

        What was amended later there than here would be lost if this one replaced it.
        """
        mine, others = (attrgetter(*IDENTITY)(one.memory) for one in (self, other))
        return mine == others and other.memory.updated_at <= self.memory.updated_at

    def places(self) -> list[tuple[object, ...]] | None:
        """Return the passages with the bytes of their vectors, and the states of their tokens."""
        if self.passages is None:
            return None
        return [(*passage[:3], passage.vector.tobytes(), passage.states) for passage in self.passages]
