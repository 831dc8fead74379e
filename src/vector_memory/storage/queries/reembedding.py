"""A second set of the tables of vectors: filled with another model's vectors, then swapped with the one in use."""

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import cast

from vector_memory.domain import Fingerprint
from vector_memory.errors import DatabaseError
from vector_memory.storage.connection import Queries
from vector_memory.storage.queries.insert import stored_passages
from vector_memory.storage.queries.memories import COLUMNS, IS_INDEXED, memory_from_row
from vector_memory.storage.queries.passages import PassageChanges, PassageQueries
from vector_memory.storage.queries.pending import PendingChanges
from vector_memory.storage.queries.tags import TagChanges
from vector_memory.storage.records import Embedded, Memory

SPARE = "spare_"
"""The prefix of the names of the second set."""

FINGERPRINT = "model, dimensions, precision, engine"

MISSING = f"{IS_INDEXED} and not exists (select 1 from spare_memory_passages where memory_id = m.id)"


class SpareVectors(Queries, ABC):
    """Vectors of another model: filled memory by memory beside the vectors in use, and then swapped with them.

    They are needed from `begin` until `discard` or `swap`; after that `erase_step` removes them. Deleting a memory
    deletes its spare vectors too. What changes anything needs a writer. A row in `spare_embedding_models` says whose
    vectors they are; without that row they are no longer needed. What is abstract, each engine does in its own way.
    """

    def __init__(self, reader: PassageQueries) -> None:
        super().__init__(reader.connection)
        self._writer = cast("PassageChanges", reader)

    @abstractmethod
    def are_states_missing(self, *, spare: bool = False) -> bool:
        """Return whether a passage of the vectors in use, or of the spare ones, has no token states beside it."""

    @abstractmethod
    def exist(self) -> bool:
        """Return whether there are any, needed or not, or room for them."""

    @abstractmethod
    def make_room(self, dimensions: int) -> None:
        """Create the tables. There must be none."""

    @abstractmethod
    def swap_tables(self, new: Fingerprint) -> None:
        """Swap the spare tables, which have vectors of this fingerprint, with those in use."""

    @abstractmethod
    def erase_some(self) -> None:
        """Erase some of the tables, which are not needed, so little that writers do not wait."""

    def needed_for(self) -> Fingerprint | None:
        """Return the fingerprint of the vectors that are being filled in, or None."""
        if not self.exist():
            return None
        return self.connection.fetch_one(Fingerprint, f"select {FINGERPRINT} from spare_embedding_models")

    def begin(self, fingerprint: Fingerprint) -> None:
        """Make room for the vectors of a model. There must be none."""
        self.make_room(fingerprint.dimensions)
        sql = "insert into spare_embedding_models values (%(model)s, %(dimensions)s, %(precision)s, %(engine)s)"
        self.connection.later(sql, asdict(fingerprint))

    def discard(self) -> None:
        """Record that they, if there are any, are no longer needed."""
        if self.exist():
            self.connection.later("delete from spare_embedding_models")

    def next_missing(self, after_id: int) -> Memory | None:
        """Return the memory with the smallest id above `after_id` that has all vectors in use, but no spare ones."""
        sql = f"select {COLUMNS} from session_memories m where {MISSING} and m.id > %(after)s order by m.id limit 1"
        return self.connection.fetch_one(memory_from_row, sql, {"after": after_id})

    def is_missing(self, memory_id: int) -> bool:
        """Return whether a memory has all vectors in use, but no spare ones."""
        sql = f"select 1 from session_memories m where {MISSING} and m.id = %(id)s"
        return self.connection.fetch_value(sql, {"id": memory_id}) is not None

    def count_missing(self) -> int:
        """Return the number of memories that have all vectors in use, but no spare ones."""
        return int(self.connection.fetch_value(f"select count(*) from session_memories m where {MISSING}"))

    def count_recomputed(self) -> int:
        """Return the number of memories that have spare vectors."""
        return int(self.connection.fetch_value("select count(distinct memory_id) from spare_memory_passages"))

    def add(self, memory: Memory, embedded: Embedded) -> None:
        """Add the spare vectors of a memory that has none."""
        sql = "select id from memory_chunks where parent_id = %(id)s order by chunk_index"
        chunk_ids = self.connection.fetch_column(sql, {"id": memory.id})
        passages = stored_passages(memory, chunk_ids, embedded)
        self._writer.add_passages(memory, passages, embedded.vectors, embedded.states, prefix=SPARE)

    def forget(self, memory_id: int) -> None:
        """Delete the spare vectors of a memory, if it has any."""
        if self.exist():
            self.connection.later("delete from spare_memory_passages where memory_id = %(id)s", {"id": memory_id})

    def swap(self) -> None:
        """Put them in use, in a time that does not depend on their number; the old ones are no longer needed.

        Memories without spare vectors now lack vectors, and tags too. Leases end, since they were taken for the old
        vectors. Raises DatabaseError if there are none.
        """
        if (new := self.needed_for()) is None:
            raise DatabaseError("The vectors of the new model are gone: run `vector-memory reembed` again.")
        self.swap_tables(new)
        sql = f"""
            insert into embedding_models (id, {FINGERPRINT})
            values (
                coalesce((select id from embedding_models), 1),
                %(model)s, %(dimensions)s, %(precision)s, %(engine)s
            )
            on conflict (id) do update set ({FINGERPRINT})
                = (excluded.model, excluded.dimensions, excluded.precision, excluded.engine)
        """
        self.connection.later(sql, asdict(new))
        TagChanges(self.connection).clear_tag_vectors()
        PendingChanges(self.connection).end_leases()
        self.discard()

    def erase_step(self) -> bool:
        """Erase some of what is no longer needed, so little that writers do not wait; False: nothing is left."""
        if not self.exist() or self.needed_for() is not None:
            return False
        self.erase_some()
        return True


def other_name(name: str) -> str:
    """Return the name of the same table, index or trigger in the other set."""
    return name.removeprefix(SPARE) if name.startswith(SPARE) else SPARE + name
