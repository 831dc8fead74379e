"""Reads a memory whose file does not exist yet: empty tables in RAM."""

import contextlib
import threading
from collections.abc import Callable, Iterator

import apsw

from vector_memory.storage.sqlite import migrations
from vector_memory.storage.sqlite.connecting import closed_on_error, forbid_writes


class EmptyMemory:
    """The tables of a new file, in RAM. Safe to use from several threads.

    `extend`: prepares a connection for the tables.
    """

    def __init__(self, dimensions: int, extend: Callable[[apsw.Connection], None]) -> None:
        self._dimensions = dimensions
        self._extend = extend
        self._lock = threading.Lock()
        self._image: bytes | None = None

    @contextlib.contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """Yield a connection to the empty tables."""
        with self._lock:
            self._image = self._image or self._new_file()
        with contextlib.closing(self._connected()) as connection:
            connection.deserialize("main", self._image)
            forbid_writes(connection)
            yield connection

    def _new_file(self) -> bytes:
        """Return the bytes of a new file."""
        with contextlib.closing(self._connected()) as connection:
            migrations.migrate(connection, self._dimensions)
            return connection.serialize("main")

    def _connected(self) -> apsw.Connection:
        connection = apsw.Connection(":memory:")
        with closed_on_error(connection):
            self._extend(connection)
        return connection
