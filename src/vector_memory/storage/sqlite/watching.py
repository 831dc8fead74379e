"""Notices the commits of all processes."""

import threading
from collections.abc import Callable

import apsw

from vector_memory.storage.sqlite.rows import fetch_value


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
