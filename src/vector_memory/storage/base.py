"""The interface of a storage engine, and what every engine guarantees.

- A `read` block sees one snapshot, even if others commit in the meantime, and never waits for writers.
- A `write` block sees the newest state, commits when it ends, and changes nothing if it raises.
- Ids ascend in the order of commits across all processes, and no id is reused. Cursors depend on this.
- Methods return complete values of `storage.records`, which can be used after the block.
- Every failure is a DatabaseError or a subclass. Invalid contents of the file raise DamagedError.

A reader has a part for each subject: the queries of a module of `queries`, over its connection. What is abstract here
differs between engines. A reader or writer may be used only by one thread and only inside its block.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from vector_memory.domain import Evidence
from vector_memory.storage.queries.deletions import DeletionQueries
from vector_memory.storage.queries.evidence import EvidenceQueries
from vector_memory.storage.queries.filters import UNDELETED
from vector_memory.storage.queries.insert import DuplicateQueries, MemoryInserts
from vector_memory.storage.queries.lifecycle import LaterQueries, LifecycleQueries
from vector_memory.storage.queries.memories import ChunkQueries, MemoryChanges, MemoryQueries, TagChanges, TagQueries
from vector_memory.storage.queries.pending import PendingQueries
from vector_memory.storage.queries.sessions import SessionQueries
from vector_memory.storage.records import Cursor, LastIds, Memory, StoredChunk, StoredPassage

if TYPE_CHECKING:
    from vector_memory.storage.queries.pending import ChangeOfModel
    from vector_memory.storage.queries.portions import Portions


class Reader(DuplicateQueries, ABC):
    """One snapshot of a memory. `reads_ahead`: to wait for an answer takes longer than to read what may be needed."""

    reads_ahead: ClassVar[bool] = False

    def __init__(self, vectors: PendingQueries) -> None:
        super().__init__(vectors.connection)
        self.vectors = vectors
        self.memories = MemoryQueries(vectors)
        self.chunks = ChunkQueries(self.connection)
        self.sessions = SessionQueries(vectors)
        self.lifecycle = LifecycleQueries(self.connection)
        self.links = LaterQueries(self.connection)
        self.deletions = DeletionQueries(self.connection)
        self.evidence = EvidenceQueries(self.connection)
        self.tags = TagQueries(vectors)

    def now(self) -> str:
        """Return the time of this transaction, by the clock that says what has expired."""
        return str(self.connection.fetch_value("select {utc} as now {exempt:the clock}"))

    @property
    def gaps(self) -> Sequence[range]:
        """The ids that were left out, because what had them may be lost."""
        return ()

    def cursor(self) -> Cursor:
        """Return the cursor after everything that was ever committed, including deleted memories.

        If only some sessions may be seen, after what is stored there: else it would tell how much others store, and
        when.
        """
        if self.connection.sessions is None:
            return Cursor(self.last_ids().memory, gaps=self.gaps)
        sql = f"""
            select coalesce(max(case when l.given_at > m.id then l.given_at else m.id end), 0) from session_memories m
            left join memory_lifecycle l on l.memory_id = m.id where {{visible:m}} and {UNDELETED}
        """
        newest = self.connection.fetch_value(sql)
        return Cursor(newest, may_fall=True, gaps=self.gaps)

    @abstractmethod
    def last_ids(self) -> LastIds:
        """Return the highest ids that were ever given."""

    @property
    def upkeep(self) -> "Upkeep":
        """What only maintenance needs, in the same transaction."""
        from vector_memory.storage.queries.pending import ChangeOfModel  # noqa: PLC0415
        from vector_memory.storage.queries.portions import Portions  # noqa: PLC0415

        return Upkeep(ChangeOfModel(self), Portions(self))


class Writer(MemoryChanges, MemoryInserts, TagChanges, Reader):
    """A reader of the newest state that can also change it."""

    vectors: PendingQueries

    def end_copy(self) -> None:
        """Leave the tables as if all that a copy has added had been stored one by one."""


class Database(Protocol):
    """What an engine keeps open: a file, or a schema of a database server."""

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""

    def version(self) -> int:
        """Return a number that changes with every commit of any process."""

    def require_time_to_write(self) -> None:
        """Raise what `write` would raise at once."""

    def close(self) -> None:
        """Close every connection."""


class Storage(ABC):
    """An open memory. Safe to use from several threads and processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def read_only(self) -> bool:
        """Whether `write` is refused: the memory was opened read-only."""
        return self._database.read_only

    @abstractmethod
    def read(self) -> AbstractContextManager[Reader]:
        """Yield a reader of one snapshot. Raises ClosedMemoryError after `close`."""

    @abstractmethod
    def write(self) -> AbstractContextManager[Writer]:
        """Yield a writer inside one transaction.

        Raises DatabaseLockError if others hold the lock for too long, CancelledCallError if the client cancelled the
        call while it waited, ClosedMemoryError after `close`.
        """

    def version(self) -> int:
        """Return a number that changes with every commit of any process."""
        return self._database.version()

    def require_time_to_write(self) -> None:
        """Raise any error that `write` would raise at once. Call this before a long preparation."""
        self._database.require_time_to_write()

    def confirm(self) -> None:  # noqa: B027 - what can be read of a file is safe
        """Wait until committed data is as safe as an acknowledged store.

        If the wait for a standby is interrupted, a change can be read before it is safe. Raises DatabaseError if it
        takes too long.
        """

    @abstractmethod
    def purge_deleted(self) -> bool:
        """Overwrite the bytes of deleted data; False if it is still being read and will be overwritten later."""

    def close(self) -> None:
        """Close after the current transaction. Repeated calls do nothing."""
        self._database.close()


IDENTITY = ("id", "memory_type", "agent_id", "session_id", "session_iter", "task_code", "created_at", "content_hash")
"""What no amendment changes."""

EXPORT_AND_IMPORT = (
    "Run `vector-memory export` with that version, and `vector-memory import` with this one, into another memory."
)
"""What to do with a memory of a development version."""


class Upkeep(NamedTuple):
    """Maintenance operations in a reader's or writer's transaction."""

    change: "ChangeOfModel"
    portions: "Portions"


@dataclass(frozen=True, slots=True)
class WholeMemory:
    """A memory with everything derived from it but its words. `passages`: None if it does not have all its vectors."""

    memory: Memory
    chunks: Sequence[StoredChunk]
    passages: Sequence[StoredPassage] | None
    evidence: Sequence[Evidence] = ()

    def equals(self, other: "WholeMemory") -> bool:
        """Return whether everything is equal, vectors bit by bit."""
        mine, others = ((one.memory, one.chunks, one.places(), one.evidence) for one in (self, other))
        return mine == others

    def is_same(self, other: "WholeMemory") -> bool:
        """Return whether it is the same memory, or an earlier state of it, however often it was read.

        Replacing a later amendment there would lose it.
        """
        mine, others = (attrgetter(*IDENTITY)(one.memory) for one in (self, other))
        return mine == others and other.memory.updated_at <= self.memory.updated_at

    def places(self) -> list[tuple[object, ...]] | None:
        """Return the passages with the bytes of their vectors, and the states of their tokens."""
        if self.passages is None:
            return None
        return [(*passage[:3], passage.vector.tobytes(), passage.states) for passage in self.passages]
