"""How a connection to a database is set up, and what is checked first."""

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.storage.disk.filesystem import make_private_folders

LOCK_TIMEOUT_SECONDS = 30.0
"""Counted from the arrival of the client's call; for other writers, from the start of the wait."""

PAGES_IN_MEMORY = 4_096
"""Pages of one transaction kept in memory: 16 MB, enough for the longest report."""

SAFE_SQLITE = (3, 51, 3)
"""Older releases can corrupt a WAL file that several processes share."""


@contextlib.contextmanager
def closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    """Close `connection` if the block fails, so that a rejected file does not stay open."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def require_safe_sqlite() -> None:
    """Raise ConfigurationError for an SQLite release that can damage a file that several processes write to."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SAFE_SQLITE:
        raise ConfigurationError(
            f"The installed apsw includes SQLite {apsw.sqlite_lib_version()}, which can damage a database that several "
            "processes share: install apsw 3.54 or newer."
        )


def create_private_file(path: Path) -> None:
    """Create the file for its owner only. An existing file is not opened: closing it would drop SQLite's locks."""
    try:
        make_private_folders(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise DatabaseError("The database path is not a file: choose another --database-path.") from None
    except OSError as error:
        raise DatabaseError(f"The database cannot be created ({error.strerror}): choose another path.") from None


def use_write_ahead_log(connection: apsw.Connection) -> None:
    """Switch to WAL mode, in which readers and a writer do not block each other.

    SQLite does not wait for this lock, so the statement is repeated.
    """
    retry_while_locked(lambda: connection.pragma("journal_mode", "wal"))


def enforce_foreign_keys(connection: apsw.Connection) -> None:
    """Delete chunks and passages together with their memory."""
    connection.pragma("foreign_keys", True)


def overwrite_deleted_bytes(connection: apsw.Connection) -> None:
    """Overwrite deleted content with zeros."""
    connection.pragma("secure_delete", True)


def keep_transaction_in_memory(connection: apsw.Connection) -> None:
    """Write the pages of most transactions only once, at the commit.

    Otherwise SQLite writes all pages beyond its cache of 2 MB early and reads them again, which is a tenth of the time
    in the lock. After the commit, it frees what is beyond its cache.
    """
    connection.pragma("cache_spill", PAGES_IN_MEMORY)


def set_durability(connection: apsw.Connection, synchronous: str) -> None:
    """FULL: a commit is on disk when it returns. NORMAL: a power failure can lose the last commits."""
    connection.pragma("synchronous", synchronous)


def forbid_writes(connection: apsw.Connection) -> None:
    """Make the connection read-only."""
    connection.pragma("query_only", True)


def retry_while_locked(action: Callable[[], object]) -> None:
    """Repeat `action` while the file is locked, with growing pauses, up to LOCK_TIMEOUT_SECONDS."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    pause = 0.005
    while True:
        try:
            action()
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads processes out, protects nothing
            pause = min(pause * 2, 0.25)
        else:
            return
