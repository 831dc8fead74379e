"""What is read and written in one transaction, of any engine.

A reader has a part for each subject: the queries of a module of `queries`, over its connection. What is abstract here
differs between engines, which have a module of the same name.

A reader or writer may be used only by one thread and only inside its block.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from vector_memory.storage.queries.insert import DuplicateQueries, MemoryInserts
from vector_memory.storage.queries.later import LaterQueries
from vector_memory.storage.queries.lifecycle import LifecycleQueries
from vector_memory.storage.queries.memories import ChunkQueries, MemoryChanges, MemoryQueries, TagChanges, TagQueries
from vector_memory.storage.queries.pending import PendingQueries
from vector_memory.storage.queries.sessions import SessionQueries
from vector_memory.storage.queries.traces import TraceQueries
from vector_memory.storage.records import Cursor, LastIds

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    from vector_memory.storage.base import Upkeep


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
        self.traces = TraceQueries(self.connection)
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
        newest = self.connection.fetch_value("select coalesce(max(m.id), 0) from session_memories m where {visible:m}")
        return Cursor(newest, may_fall=True, gaps=self.gaps)

    @abstractmethod
    def last_ids(self) -> LastIds:
        """Return the highest ids that were ever given."""

    @property
    def upkeep(self) -> "Upkeep":
        """What only maintenance needs, in the same transaction."""
        from vector_memory.storage.base import Upkeep  # noqa: PLC0415
        from vector_memory.storage.queries.pending import ChangeOfModel  # noqa: PLC0415
        from vector_memory.storage.queries.portions import Portions  # noqa: PLC0415

        return Upkeep(ChangeOfModel(self), Portions(self))


class Writer(MemoryChanges, MemoryInserts, TagChanges, Reader):
    """A reader of the newest state that can also change it."""

    vectors: PendingQueries

    @abstractmethod
    def raise_last_ids(self, last: LastIds) -> None:
        """Give only ids above these from now on."""

    def end_copy(self) -> None:
        """Leave the tables as if all that a copy has added had been stored one by one."""
