"""Keeps the write-ahead log short and free of deleted bytes while other processes read and write.

SQLite reuses the log only when nobody reads from it. Readers that overlap never leave such a moment, so it has to be
made: a checkpoint that holds the write lock lets the readers of older states finish, while new readers start on the
newest state and do not touch the log. Readers never wait for this; writers wait as long as the slowest reader takes.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.storage import erasure
from vector_memory.storage.filesystem import log_of

logger = logging.getLogger(__name__)

CHECKPOINT_PAGES = 1_000
"""From this length on, each commit moves the log into the file as far as no reader needs the older state."""

LONG_PAGES = 2_000
"""From this length on, the process that commits empties the log even if others read all the time."""

IDLE_BYTES = 3_000_000
"""The file of a log that nobody writes to any more is shortened if it is longer than this."""

SETTLE_SECONDS = 1.0
"""A log that was not written to for so long is idle; reads and commits are followed by a look after this time."""

LEAST_PATIENCE = 0.25
MOST_PATIENCE = 3.0
"""Seconds for which writers may be kept waiting so that the readers can finish."""

POLL_SECONDS = 0.002


class LogKeeper:
    """Watches the log of one database from a thread of its own, which sleeps while the database is not used.

    `connect` opens a connection of the thread's own. `read_only`: nothing but the log may be written.
    """

    def __init__(self, path: Path, connect: Callable[[], apsw.Connection], *, read_only: bool) -> None:
        self._log = log_of(path)
        self._connect = connect
        self._read_only = read_only
        self._used = threading.Event()
        self._long = threading.Event()
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._deadline = 0.0
        self._slowest = 0.0
        """Seconds that readers took to finish since the log was last emptied."""

    def follow(self, writer: apsw.Connection) -> None:
        """Checkpoint the commits of this connection."""
        writer.set_wal_hook(self._after_commit)

    def notice(self) -> None:
        """Note that the database was used, so that the log is looked at soon. Returns at once."""
        if not self._used.is_set():
            self._used.set()
            self._start()

    def close(self) -> None:
        """Stop the thread. It gives up waiting for readers, so this takes no longer than a checkpoint."""
        with self._starting:
            self._stopping.set()
        self._used.set()
        self._long.set()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="log-keeper", daemon=True)
                self._thread.start()

    def _after_commit(self, connection: apsw.Connection, database: str, pages: int) -> int:
        """Move what can be moved at once. A failure loses nothing: the log is as good as the file."""
        if pages >= CHECKPOINT_PAGES:
            with contextlib.suppress(apsw.Error):
                connection.wal_checkpoint(database, apsw.SQLITE_CHECKPOINT_PASSIVE)
        if pages >= LONG_PAGES:
            self._long.set()
        return apsw.SQLITE_OK

    def _run(self) -> None:
        with contextlib.ExitStack() as closing:
            connection: apsw.Connection | None = None
            while (is_long := self._next_look()) is not None:
                try:
                    if connection is None:
                        connection = closing.enter_context(contextlib.closing(self._connect()))
                        connection.set_busy_handler(self._is_worth_waiting)
                    remains = self._look(connection, is_long=is_long)
                except (apsw.Error, DatabaseError) as error:
                    logger.info("The log could not be shortened: %s", type(error).__name__)
                    # After any other failure the next use of the database leads to another look.
                    remains = isinstance(error, apsw.BusyError)
                if remains:
                    self._used.set()

    def _next_look(self) -> bool | None:
        """Wait until the database was used; return whether its log has become long meanwhile, None at the end."""
        self._used.wait()
        is_long = self._long.wait(SETTLE_SECONDS)
        self._used.clear()
        self._long.clear()
        return None if self._stopping.is_set() else is_long

    def _look(self, connection: apsw.Connection, *, is_long: bool) -> bool:
        """Empty the log if it is long, or holds deleted bytes; tell whether it has to be looked at again soon."""
        size, age = self._size_and_age()
        if not size:
            return False
        delete = erasure.unerased(connection)
        is_too_large = size > IDLE_BYTES
        if delete is None and not is_long and not (is_too_large and age > SETTLE_SECONDS):
            return is_too_large
        if not self._empty_beside_readers(connection):
            return True
        if delete is not None and not self._read_only:
            self._wait_up_to(LEAST_PATIENCE)
            erasure.note_erased(connection, delete)
        return False

    def _size_and_age(self) -> tuple[int, float]:
        """Return the bytes of the log's file, and the seconds since it was written."""
        try:
            status = self._log.stat()
        except OSError:
            return 0, 0.0
        return status.st_size, abs(time.time() - status.st_mtime)

    def _empty_beside_readers(self, connection: apsw.Connection) -> bool:
        """Empty the log; False: a reader holds it back.

        Raises apsw.BusyError if another process is just doing the same.

        First only watch until all readers of earlier states have finished, which holds nobody up. They give the measure
        of how long writers have to wait for the rest; a reader that takes longer than MOST_PATIENCE stops no writer.
        """
        began, pause = time.monotonic(), 0.01
        frames, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        while moved < frames:
            if time.monotonic() > began + MOST_PATIENCE or self._stopping.wait(pause):
                return False
            pause = min(1.5 * pause, 0.25)
            length, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            frames = min(frames, length)
        self._slowest = max(self._slowest, time.monotonic() - began)
        self._wait_up_to(min(LEAST_PATIENCE + 2 * self._slowest, MOST_PATIENCE))
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
        self._slowest = 0.0
        return True

    def _wait_up_to(self, seconds: float) -> None:
        """Let the next call on the thread's connection wait for locks for so long in all."""
        self._deadline = time.monotonic() + seconds

    def _is_worth_waiting(self, _calls: int) -> bool:
        """Pause before SQLite asks for a lock again; False: it is to give up."""
        return time.monotonic() < self._deadline and not self._stopping.wait(POLL_SECONDS)


def erase_at_once(connection: apsw.Connection) -> None:
    """Empty the log unless somebody reads from it, and note that it was done. Raises apsw.BusyError."""
    delete = erasure.unerased(connection)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    if delete is not None:
        erasure.note_erased(connection, delete)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
