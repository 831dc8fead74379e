"""What only maintenance asks of a storage engine, beside `storage.base`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vector_memory.domain import Fingerprint
from vector_memory.storage.records import Embedded, Memory, StoredChunk, StoredPassage

if TYPE_CHECKING:
    from vector_memory.storage.queries.portions import Portions

EXPORT_AND_IMPORT = (
    "Run `vector-memory export` with that version, and `vector-memory import` with this one, into another memory."
)
"""What to do with a memory of a development version."""


class Upkeep(NamedTuple):
    """What maintenance does in the transaction of a reader or writer. `rebuild_words`: of all memories."""

    spare_vectors: "SpareVectors"
    portions: "Portions"
    rebuild_words: Callable[[], None]


class SpareVectors(Protocol):
    """Vectors of another model: filled memory by memory beside the vectors in use, and then swapped with them.

    They are needed from `begin` until `discard` or `swap`; after that `erase_step` removes them. Deleting a memory
    deletes its spare vectors too. What changes anything needs a writer.
    """

    def are_states_missing(self, *, spare: bool = False) -> bool:
        """Return whether a passage of the vectors in use, or of the spare ones, has no token states beside it."""

    def exist(self) -> bool:
        """Return whether there are any, needed or not, or room for them."""

    def needed_for(self) -> Fingerprint | None:
        """Return the fingerprint of the vectors that are being filled in, or None."""

    def begin(self, fingerprint: Fingerprint) -> None:
        """Make room for the vectors of a model. There must be none."""

    def discard(self) -> None:
        """Record that they, if there are any, are no longer needed."""

    def next_missing(self, after_id: int) -> Memory | None:
        """Return the memory with the smallest id above `after_id` that has all vectors in use, but no spare ones."""

    def is_missing(self, memory_id: int) -> bool:
        """Return whether a memory has all vectors in use, but no spare ones."""

    def count_missing(self) -> int:
        """Return the number of memories that have all vectors in use, but no spare ones."""

    def count_recomputed(self) -> int:
        """Return the number of memories that have spare vectors."""

    def add(self, memory: Memory, embedded: Embedded) -> None:
        """Add the spare vectors of a memory that has none."""

    def swap(self) -> None:
        """Put them in use, in a time that does not depend on their number; the old ones are no longer needed.

        Memories without spare vectors now lack vectors, and tags too. Leases end, since they were taken for the old
        vectors. Begins a new epoch.
        """

    def erase_step(self) -> bool:
        """Erase some of what is no longer needed, so little that writers do not wait; False: nothing is left."""


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
        """Return whether it is the same memory, whatever was derived from it, and however often it was read."""
        mine, others = (
            replace(one.memory, accessed_at="", access_count=0, chunk_count=0, updated_at="") for one in (self, other)
        )
        return mine == others

    def places(self) -> list[tuple[object, ...]] | None:
        """Return the passages with the bytes of their vectors, and the states of their tokens."""
        if self.passages is None:
            return None
        return [(*passage[:3], passage.vector.tobytes(), passage.states) for passage in self.passages]


class PlacedLengths(NamedTuple):
    """Where the units of a memory begin in a block of the keyword index, and their lengths: an array of `<u4`."""

    memory_id: int
    first: int
    lengths: bytes


class WordBlock(NamedTuple):
    """A block of the keyword index (`storage.postings`). `postings`: arrays of postings by bucket.

    `rules`: those by which its terms were made.
    """

    id: int
    session_id: str | None
    units: int
    rules: int
    memories: list[PlacedLengths]
    postings: dict[int, bytes]


class LastIds(NamedTuple):
    """The highest ids that were ever given to a memory and to a chunk."""

    memory: int
    chunk: int
