"""Keeps the write-ahead log short and free of deleted bytes while other processes read and write.

SQLite reuses the log only when nobody reads from it. With overlapping readers there is never such a moment, so it has
to be forced: a checkpoint that holds the write lock lets the readers of older states finish, while new readers start on
the newest state and do not use the log. Readers never wait for this. Writers wait as long as the slowest reader takes.

The file records whether deleted bytes may remain in it or in its log. A deletion is counted in its own transaction, so
every process that opens the file knows about it, even if the process that deleted was killed. A process that empties
the log then records up to which deletion it did so.
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
from vector_memory.storage.sqlite.connecting import wait_for_locks
from vector_memory.storage.sqlite.rows import fetch_value

logger = logging.getLogger(__name__)

CHECKPOINT_PAGES = 1_000
"""From this length on, each commit moves the log into the file, as far as no reader needs an older state."""

LONG_PAGES = 2_000
"""From this length on, the committing process empties the log even if there are always readers."""

IDLE_BYTES = 3_000_000
"""A log that is no longer written to is truncated if its file is larger than this."""

SETTLE_SECONDS = 1.0
"""A log is idle if nobody has written to it for this long. It is checked this long after reads and commits."""

MIN_WAIT_SECONDS = 0.25
MAX_WAIT_SECONDS = 3.0
"""Seconds for which writers may have to wait so that readers can finish."""

POLL_SECONDS = 0.002


class LogKeeper:
    """Maintains the log of one database in a separate thread, which sleeps while the database is not used.

    `connect` opens a connection for the thread. `require_in_place` raises DatabaseError if another file is in place of
    the database. `read_only`: write nothing but the log.
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[[], apsw.Connection],
        require_in_place: Callable[[], None],
        *,
        read_only: bool,
    ) -> None:
        self._log = log_of(path.resolve())  # SQLite keeps it next to the file that a link points to
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

    def note_use(self) -> None:
        """Note that the database was used, so that the log is checked soon. Returns at once."""
        if not self._used.is_set():
            self._used.set()
            self._start()

    def close(self) -> None:
        """Stop the thread. It stops waiting for readers, so this takes no longer than a checkpoint."""
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
        """Move what can be moved at once. A failure loses nothing: the data stays in the log."""
        if pages >= CHECKPOINT_PAGES:
            with contextlib.suppress(apsw.Error):
                connection.wal_checkpoint(database, apsw.SQLITE_CHECKPOINT_PASSIVE)
        if pages >= LONG_PAGES:
            self._long.set()
        return apsw.SQLITE_OK

    def _run(self) -> None:
        with contextlib.ExitStack() as closing:
            connection: apsw.Connection | None = None
            while (is_long := self._next_check()) is not None:
                try:
                    if connection is None:
                        connection = closing.enter_context(contextlib.closing(self._connect()))
                        connection.set_busy_handler(self._may_wait)
                    self._require_in_place()
                    remains = self._check(connection, is_long=is_long)
                except Exception as error:  # no error may end the thread
                    logger.info("The log could not be shortened: %s", type(error).__name__)
                    # After any other failure, the next use of the database leads to another check.
                    remains = isinstance(error, apsw.BusyError)
                if remains:
                    self._used.set()

    def _next_check(self) -> bool | None:
        """Wait until the database was used; return whether its log has grown long since, or None when stopping."""
        self._used.wait()
        is_long = self._long.wait(SETTLE_SECONDS)
        self._used.clear()
        self._long.clear()
        return None if self._stopping.is_set() else is_long

    def _check(self, connection: apsw.Connection, *, is_long: bool) -> bool:
        """Empty the log if necessary; return whether it has to be checked again soon."""
        if not self._is_needed(connection, is_long=is_long):
            return self._size_and_age()[0] > IDLE_BYTES
        if not self._wait_for_older_readers(connection):
            return True
        self._wait_up_to(min(MIN_WAIT_SECONDS + 2 * self._slowest, MAX_WAIT_SECONDS))
        # Checked each time: another process may have emptied it.
        while self._is_needed(connection, is_long=is_long) and not self._try_to_empty(connection):
            if not self._may_wait():
                return True
        self._slowest = 0.0
        return False

    def _is_needed(self, connection: apsw.Connection, *, is_long: bool) -> bool:
        """Return whether the log is too long, or contains deleted bytes.

        `is_long`: a commit of this process found it too long.
        """
        size, age = self._size_and_age()
        if size > IDLE_BYTES and (is_long or age > SETTLE_SECONDS):
            return True
        return size > 0 and unerased(connection) is not None

    def _size_and_age(self) -> tuple[int, float]:
        """Return the size of the log's file in bytes, and the seconds since the last write."""
        try:
            status = self._log.stat()
        except OSError:
            return 0, 0.0
        return status.st_size, abs(time.time() - status.st_mtime)

    def _wait_for_older_readers(self, connection: apsw.Connection) -> bool:
        """Wait until all readers of earlier states have finished; False: they take too long.

        This blocks nobody, and measures how long writers will have to wait for the current readers.
        """
        began, pause, frames = time.monotonic(), 0.01, sys.maxsize
        while True:
            with contextlib.suppress(apsw.BusyError):  # another connection is checkpointing: nothing is known
                length, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                frames = min(frames, length)
                if moved >= frames:
                    self._slowest = max(self._slowest, time.monotonic() - began)
                    return True
            if time.monotonic() > began + MAX_WAIT_SECONDS or self._stopping.wait(pause):
                return False
            pause = min(1.5 * pause, 0.25)

    def _try_to_empty(self, connection: apsw.Connection) -> bool:
        """Empty the log, and record that deleted bytes are erased; False: readers or another checkpoint prevent it."""
        delete = unerased(connection)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
        if delete is not None and not self._read_only:
            self._wait_up_to(MIN_WAIT_SECONDS)
            note_erased(connection, delete)
        return True

    def _wait_up_to(self, seconds: float) -> None:
        """Let the next call on the thread's connection wait for locks for this many seconds in all."""
        self._deadline = time.monotonic() + seconds

    def _may_wait(self, _calls: int = 0) -> bool:
        """Pause before SQLite tries a lock again; False: it should stop trying."""
        return time.monotonic() < self._deadline and not self._stopping.wait(POLL_SECONDS)


def erase_if_unread(connection: apsw.Connection, *, only_if_needed: bool = False) -> bool:
    """Empty the log unless a process is reading from it, and record that.

    False: the log was not emptied, which loses nothing, because the data stays in it.
    """
    connection.set_busy_timeout(0)
    try:
        if not only_if_needed or unerased(connection) is not None:
            erase_at_once(connection)
    except apsw.Error as error:
        logger.info("Deleted bytes remain in the write-ahead log for now: %s", type(error).__name__)
        return False
    finally:
        wait_for_locks(connection)
    return True


def erase_at_once(connection: apsw.Connection) -> None:
    """Empty the log unless a process is reading from it, and record that. Raises apsw.BusyError."""
    delete = unerased(connection)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    if delete is not None:
        note_erased(connection, delete)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def count_delete(connection: apsw.Connection) -> None:
    """Record, in the transaction that deletes, that bytes have to be erased."""
    connection.execute("update erasure set deletes = deletes + 1")


def unerased(connection: apsw.Connection) -> int | None:
    """Return the number of the last deletion if its bytes may remain; None if all are erased."""
    number: int | None = fetch_value(connection, "select deletes from erasure where deletes > erased")
    return number


def note_erased(connection: apsw.Connection, delete: int) -> None:
    """Record that the log was emptied after this deletion. Later ones, by other processes, stay recorded."""
    connection.execute("update erasure set erased = ? where erased < ?", (delete, delete))
