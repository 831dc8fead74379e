"""Keeps the write-ahead log short and free of deleted bytes while other processes read and write.

SQLite reuses the log only when nobody reads from it. Readers that overlap never leave such a moment, so it has to be
made: a checkpoint that holds the write lock lets the readers of older states finish, while new readers start on the
newest state and do not touch the log. Readers never wait for this; writers wait as long as the slowest reader takes.
"""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from vector_memory.storage.disk.filesystem import log_of
from vector_memory.storage.sqlite import erasure
from vector_memory.storage.sqlite.connecting import wait_for_locks

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

    `connect` opens a connection of the thread's own; `require_in_place` raises a DatabaseError if another file has
    taken the place of the database. `read_only`: nothing but the log may be written.
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[[], apsw.Connection],
        require_in_place: Callable[[], None],
        *,
        read_only: bool,
    ) -> None:
        self._log = log_of(path.resolve())  # SQLite keeps it beside the file that a link leads to
        self._connect = connect
        self._require_in_place = require_in_place
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
                    self._require_in_place()
                    remains = self._look(connection, is_long=is_long)
                except Exception as error:  # whatever it is, it may not end the thread
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
        """Empty the log if that is needed; tell whether it has to be looked at again soon."""
        if not self._is_needed(connection, is_long=is_long):
            return self._size_and_age()[0] > IDLE_BYTES
        if not self._older_readers_finish(connection):
            return True
        self._wait_up_to(min(LEAST_PATIENCE + 2 * self._slowest, MOST_PATIENCE))
        # Asked again each time: another process may have been faster.
        while self._is_needed(connection, is_long=is_long) and not self._empties(connection):
            if not self._is_worth_waiting():
                return True
        self._slowest = 0.0
        return False

    def _is_needed(self, connection: apsw.Connection, *, is_long: bool) -> bool:
        """Tell whether the log is too long, or holds deleted bytes. `is_long`: it was, in a commit of this process."""
        size, age = self._size_and_age()
        if size > IDLE_BYTES and (is_long or age > SETTLE_SECONDS):
            return True
        return size > 0 and erasure.unerased(connection) is not None

    def _size_and_age(self) -> tuple[int, float]:
        """Return the bytes of the log's file, and the seconds since it was written."""
        try:
            status = self._log.stat()
        except OSError:
            return 0, 0.0
        return status.st_size, abs(time.time() - status.st_mtime)

    def _older_readers_finish(self, connection: apsw.Connection) -> bool:
        """Wait until all who read an earlier state than the present one have finished; False: they take too long.

        Nobody is held up by this, and it shows how long writers will have to wait for the readers of today.
        """
        began, pause, frames = time.monotonic(), 0.01, sys.maxsize
        while True:
            with contextlib.suppress(apsw.BusyError):  # another connection checkpoints: nothing is known
                length, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                frames = min(frames, length)
                if moved >= frames:
                    self._slowest = max(self._slowest, time.monotonic() - began)
                    return True
            if time.monotonic() > began + MOST_PATIENCE or self._stopping.wait(pause):
                return False
            pause = min(1.5 * pause, 0.25)

    def _empties(self, connection: apsw.Connection) -> bool:
        """Empty the log, and note that deleted bytes are gone; False: readers or another checkpoint prevent it."""
        delete = erasure.unerased(connection)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
        if delete is not None and not self._read_only:
            self._wait_up_to(LEAST_PATIENCE)
            erasure.note_erased(connection, delete)
        return True

    def _wait_up_to(self, seconds: float) -> None:
        """Let the next call on the thread's connection wait for locks for so long in all."""
        self._deadline = time.monotonic() + seconds

    def _is_worth_waiting(self, _calls: int = 0) -> bool:
        """Pause before SQLite asks for a lock again; False: it is to give up."""
        return time.monotonic() < self._deadline and not self._stopping.wait(POLL_SECONDS)


def erase_if_unread(connection: apsw.Connection, *, only_if_needed: bool = False) -> bool:
    """Empty the log, and note that it was done, unless somebody reads from it just now.

    False: it was not done, which loses nothing, because the log is as good as the file.
    """
    connection.set_busy_timeout(0)
    try:
        if not only_if_needed or erasure.unerased(connection) is not None:
            erase_at_once(connection)
    except apsw.Error as error:
        logger.info("Deleted bytes remain in the write-ahead log for now: %s", type(error).__name__)
        return False
    finally:
        wait_for_locks(connection)
    return True


def erase_at_once(connection: apsw.Connection) -> None:
    """Empty the log unless somebody reads from it, and note that it was done. Raises apsw.BusyError."""
    delete = erasure.unerased(connection)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    if delete is not None:
        erasure.note_erased(connection, delete)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
