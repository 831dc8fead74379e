"""Keeps the write-ahead log short, and free of deleted bytes.

SQLite reuses the log only when nobody reads from it. With overlapping readers there is never such a moment, so it has
to be forced: a checkpoint that holds the write lock lets the readers of older states finish, while new readers start on
the newest state and do not use the log. Readers never wait for this. Writers wait as long as the slowest reader takes,
within a limit.

The file records whether deleted bytes may remain in it or in its log. A deletion is counted in its own transaction, so
every process that opens the file knows about it, even if the process that deleted was killed. A process that empties
the log then records up to which deletion it did so.
"""

import contextlib
import logging
import time

import apsw

from vector_memory.storage.sqlite.connecting import waiting_at_most

logger = logging.getLogger(__name__)

CHECKPOINT_PAGES = 1_000
"""From this length on, each commit moves the log into the file, as far as no reader needs an older state."""

LONG_PAGES = 2_000
"""From this length on, the committing process empties the log even if there are always readers."""

RECENT = 0.75
"""Writers wait only if every reader uses at least this part of the log. One that began earlier may take minutes."""

SECONDS_PER_PAGE = 0.0005
MAX_WAIT_SECONDS = 3.0
SHORT_WAIT_SECONDS = 0.02
PAUSE_SECONDS = 0.001
"""Seconds for which writers may have to wait so that readers can finish: the longer the log, the more."""


def keep_log_short(writer: apsw.Connection) -> None:
    """Checkpoint after the commits of this connection. A failure loses nothing: the data stays in the log."""
    next_try = LONG_PAGES

    def after_commit(connection: apsw.Connection, database: str, pages: int) -> int:
        nonlocal next_try
        if pages < CHECKPOINT_PAGES:
            next_try = LONG_PAGES
            return apsw.SQLITE_OK
        with contextlib.suppress(apsw.Error):
            length, moved = connection.wal_checkpoint(database, apsw.SQLITE_CHECKPOINT_PASSIVE)
            if length >= next_try and moved >= RECENT * length:
                next_try = 2 * length
                empty(connection, min(length * SECONDS_PER_PAGE, MAX_WAIT_SECONDS))
        return apsw.SQLITE_OK

    writer.set_wal_hook(after_commit)


def empty(connection: apsw.Connection, seconds: float) -> None:
    """Empty the log, and wait for readers while nobody can write. Raises apsw.BusyError.

    SQLite can wait in vain for a read mark that readers of the newest state have taken over, so each wait is short.
    """
    deadline = time.monotonic() + seconds
    with waiting_at_most(connection, SHORT_WAIT_SECONDS):
        while True:
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_SECONDS)
            else:
                return


def erase_if_unread(connection: apsw.Connection) -> bool:
    """Empty the log if it may contain deleted bytes, unless a process is reading from it, and record that.

    False: it was not emptied, and the record that bytes have to be erased stays.
    """
    try:
        with waiting_at_most(connection, 0):
            if (delete := unerased(connection)) is not None:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                note_erased(connection, delete)
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.Error as error:
        logger.info("Deleted bytes remain in the write-ahead log for now: %s", type(error).__name__)
        return False
    return True


def count_delete(connection: apsw.Connection) -> None:
    """Record, in the transaction that deletes, that bytes have to be erased."""
    connection.execute("update erasure set deletes = deletes + 1")


def unerased(connection: apsw.Connection) -> int | None:
    """Return the number of the last deletion if its bytes may remain; None if all are erased."""
    number: int | None = connection.execute("select deletes from erasure where deletes > erased").get
    return number


def note_erased(connection: apsw.Connection, delete: int) -> None:
    """Record that the log was emptied after this deletion. Later ones, by other processes, stay recorded."""
    connection.execute("update erasure set erased = ? where erased < ?", (delete, delete))
