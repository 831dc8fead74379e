"""Connections that only read: a pool of them, and one that notices commits."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

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
