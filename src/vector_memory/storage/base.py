"""The interface of a storage engine, and what every engine guarantees.

- A `read` block sees one snapshot, even if others commit in the meantime, and never waits for writers.
- A `write` block sees the newest state, commits when it ends, and changes nothing if it raises.
- Ids ascend in the order of commits across all processes, and no id is reused. Cursors depend on this.
- Methods return complete values of `storage.records`, which can be used after the block.
- Every failure is a DatabaseError or a subclass. Invalid contents of the file raise DamagedError.

A reader or writer may be used only by one thread and only inside its block.
"""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Protocol

from vector_memory.storage.transactions import Reader as Reader  # noqa: PLC0414 - also for others
from vector_memory.storage.transactions import Writer as Writer  # noqa: PLC0414


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
        """Return once all that can be read is as safe as a store that was acknowledged.

        What waits for a standby can be read before it is safe, if the wait is interrupted. Raises DatabaseError if it
        takes too long.
        """

    @abstractmethod
    def purge_deleted(self) -> bool:
        """Overwrite the bytes of deleted data; False if it is still being read and will be overwritten later."""

    def close(self) -> None:
        """Close after the current transaction. Repeated calls do nothing."""
        self._database.close()
