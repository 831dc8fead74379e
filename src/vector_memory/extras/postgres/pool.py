"""The connections of this process to a server, which all its memories in one database share.

psycopg's pool waits for a server that is down, without saying why. This one fails at once, and retries at the next
call. It also accepts a connection whose transaction is still ending.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from vector_memory.errors import ClosedMemoryError, DatabaseLockError
from vector_memory.extras.postgres.connecting import connect, hosts_of
from vector_memory.extras.postgres.connection import Connection
from vector_memory.storage.write_lock import LOCK_TIMEOUT_SECONDS

IDLE_SECONDS = 2.0
"""Connections that were not used for this long are closed, all but one: other processes may need them."""


class ConnectionPool:
    """Lends connections, at most `size` at a time. Safe to use from several threads."""

    _shared: ClassVar[dict[str, "ConnectionPool"]] = {}
    _sharing: ClassVar = threading.Lock()

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self.users = 0
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[tuple[Connection, float]] = []
        self._lock = threading.Lock()
        self._closed = False
        self._tidying: threading.Timer | None = None

    @classmethod
    def of(cls, url: str, size: int) -> "ConnectionPool":
        """Return this process's pool for a database. Each caller closes it once."""
        with cls._sharing:
            pool = cls._shared.setdefault(url, cls(url, size))
            pool.users += 1
            return pool

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield a connection that nobody else uses, outside of a transaction.

        Raises DatabaseLockError if all are in use for too long, and UnreachableError if the server is away.
        """
        if not self._free.acquire(timeout=LOCK_TIMEOUT_SECONDS):
            raise DatabaseLockError(
                f"All {self._size} connections of this process to the database server were in use for too long. Repeat "
                "the call, or allow more with ?connections=N in the database URL."
            )
        try:
            connection = self._idle_connection() or connect(self._url)
            try:
                yield connection
            finally:
                self._take_back(connection)
        finally:
            self._free.release()

    def close(self) -> None:
        """After the last user, close the idle connections now, and each of the others after its use."""
        with self._sharing:
            self.users -= 1
            if self.users:
                return
            del self._shared[self._url]
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            if self._tidying is not None:
                self._tidying.cancel()
        for connection, _ in idle:
            connection.close()

    def _idle_connection(self) -> Connection | None:
        while True:
            with self._lock:
                if self._closed:
                    raise ClosedMemoryError
                if not self._idle:
                    return None
                connection, _ = self._idle.pop()
            if connection.is_usable() and hosts_of(self._url).still_uses(connection):
                return connection
            connection.close()

    def _take_back(self, connection: Connection) -> None:
        with self._lock:
            unused: list[tuple[Connection, float]] = []
            if connection.closed:  # the cause has probably ended its neighbours too, even if nobody has noticed
                unused, self._idle = self._idle, []
            if self._closed or connection.closed:
                unused.append((connection, 0.0))
            else:
                self._idle.append((connection, time.monotonic()))
                self._tidy_later()
        for one, _ in unused:
            one.close()

    def _tidy_later(self) -> None:
        """Close idle connections after a while, if there are any. The lock is held."""
        if len(self._idle) > 1 and self._tidying is None:
            self._tidying = threading.Timer(IDLE_SECONDS, self._tidy)
            self._tidying.daemon = True
            self._tidying.start()

    def _tidy(self) -> None:
        with self._lock:
            since = time.monotonic() - IDLE_SECONDS
            unused = [one for one in self._idle[:-1] if one[1] <= since]
            self._idle = self._idle[len(unused) :]
            self._tidying = None
            if not self._closed:
                self._tidy_later()
        for connection, _ in unused:
            connection.close()
