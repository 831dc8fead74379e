"""Connections that only read: a pool of them, one that notices commits, and those to a file that does not exist yet."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import apsw

from vector_memory.storage.sqlite import migrations
from vector_memory.storage.sqlite.connecting import closed_on_error, forbid_writes
from vector_memory.storage.sqlite.rows import fetch_value

MAX_IDLE = 8


class ReaderPool:
    """Lends connections, and keeps a few that are not in use. Safe to use from several threads."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        """`connect` opens a connection that only reads."""
        self._connect = connect
        self._idle: list[apsw.Connection] = []
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[apsw.Connection]:
        """Yield a connection that nobody else uses."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            if self._closed or len(self._idle) >= MAX_IDLE:
                connection.close()
            else:
                self._idle.append(connection)

    def close(self) -> None:
        """Close the idle connections now, and each of the others after its use."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()


class CommitWatch:
    """Looks at a file through a connection of its own, which SQLite tells of the commits of all others."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        """`connect` opens a connection that only reads."""
        self._connect = connect
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None

    def version(self) -> int:
        """Return a number that changes with every commit. This takes microseconds, and no lock."""
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
            return int(fetch_value(self._connection, "pragma data_version"))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()


class EmptyMemory:
    """The tables of a new file, in RAM. Safe to use from several threads.

    `extend`: prepares a connection for the tables.
    """

    def __init__(self, dimensions: int, extend: Callable[[apsw.Connection], None]) -> None:
        self._dimensions = dimensions
        self._extend = extend
        self._lock = threading.Lock()
        self._image: bytes | None = None

    @contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """Yield a connection to the empty tables."""
        with self._lock:
            self._image = self._image or self._new_file()
        with closing(self._connected()) as connection:
            connection.deserialize("main", self._image)
            forbid_writes(connection)
            yield connection

    def _new_file(self) -> bytes:
        """Return the bytes of a new file."""
        with closing(self._connected()) as connection:
            migrations.migrate(connection, self._dimensions)
            return connection.serialize("main")

    def _connected(self) -> apsw.Connection:
        connection = apsw.Connection(":memory:")
        with closed_on_error(connection):
            self._extend(connection)
        return connection
