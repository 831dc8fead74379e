"""What maintenance asks of a storage engine, beside `storage.base`."""

from typing import Protocol

from vector_memory.domain import Fingerprint
from vector_memory.storage.records import Embedded, Memory


class SpareVectors(Protocol):
    """Vectors of another model: filled memory by memory beside the vectors in use, and then swapped with them.

    They are `needed` from `begin` until `discard` or `swap`; after that `erase_step` removes them. Deleting a memory
    deletes its spare vectors too. All that changes anything must be called on a writer's.
    """

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

        Memories without spare vectors now lack vectors, and tags too. Begins a new epoch.
        """

    def erase_step(self) -> bool:
        """Erase some of what is no longer needed, so little that writers do not wait; False: nothing is left."""
