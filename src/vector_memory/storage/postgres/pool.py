"""Connections that are not in use, and their number. A connection that was lost is replaced when it is needed.

The pool of psycopg waits for a server that is down, with growing pauses. This one says so at once, and tries again at
the next call. It also takes back a connection whose transaction is still ending.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vector_memory.errors import ClosedMemoryError, DatabaseLockError
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.refusals import UNREACHABLE, UnreachableError
from vector_memory.storage.write_lock import LOCK_TIMEOUT_SECONDS

IDLE_SECONDS = 300.0
"""A connection that was not used for this long is closed when another one is returned."""

LONG_SECONDS = 1.0
"""A server that refuses connections does so at once; one that takes longer than this is not heard at all."""

SILENT_SECONDS = 1.0
"""For this long it is not asked again."""


class ConnectionPool:
    """Lends connections, at most `size` at a time. Safe to use from several threads."""

    def __init__(self, connect: Callable[[], Connection], size: int) -> None:
        self._connect = connect
        self._size = size
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[tuple[Connection, float]] = []
        self._lock = threading.Lock()
        self._closed = False
        self._silent_until = 0.0

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield a connection that nobody else uses, outside of a transaction.

        Raises DatabaseLockError if all are in use for too long, and UnreachableError if the server is away.
        """
        if not self._free.acquire(timeout=LOCK_TIMEOUT_SECONDS):
            raise DatabaseLockError(
                f"All {self._size} connections to the database server were in use for too long. Repeat the call."
            )
        try:
            connection = self._idle_connection() or self._new_connection()
            try:
                yield connection
            finally:
                self._take_back(connection)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the idle connections now, and each of the others after its use."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _new_connection(self) -> Connection:
        """Connect. After an attempt that a server has left unanswered, the next callers do not wait as long again."""
        began = time.monotonic()
        if began < self._silent_until:
            raise UnreachableError(UNREACHABLE)
        try:
            return self._connect()
        except UnreachableError:
            if time.monotonic() - began > LONG_SECONDS:
                self._silent_until = time.monotonic() + SILENT_SECONDS
            raise

    def _idle_connection(self) -> Connection | None:
        while True:
            with self._lock:
                if self._closed:
                    raise ClosedMemoryError
                if not self._idle:
                    return None
                connection, _ = self._idle.pop()
            if connection.is_usable():
                return connection
            self._note_silence(connection)
            connection.close()

    def _take_back(self, connection: Connection) -> None:
        now = time.monotonic()
        self._note_silence(connection)
        with self._lock:
            # What ended one connection has probably ended those beside it, even if nobody has noticed.
            kept = 0.0 if connection.closed else IDLE_SECONDS
            unused = [one for one, since in self._idle if now - since >= kept]
            self._idle = self._idle[len(unused) :]
            if self._closed or connection.closed:
                unused.append(connection)
            else:
                self._idle.append((connection, now))
        for one in unused:
            one.close()

    def _note_silence(self, connection: Connection) -> None:
        if connection.is_silent:
            self._silent_until = time.monotonic() + SILENT_SECONDS
