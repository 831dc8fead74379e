"""How a connection to a database is set up, and what is checked first."""

import contextlib
import errno
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.storage.disk.filesystem import make_private_folders, require_local
from vector_memory.storage.disk.ignoring import keep_out_of_git
from vector_memory.storage.sqlite.identity import require_no_orphaned_log, require_own_log
from vector_memory.storage.write_lock import LOCK_TIMEOUT_SECONDS

CANNOT_CREATE = "The database cannot be created ({}): choose another --database-path."

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


def create_private_file(path: Path) -> bool:
    """Create the file for its owner only; False: it exists by now and is not touched.

    Opening and closing an existing file would drop SQLite's locks.
    """
    try:
        make_private_folders(path.parent)
        keep_out_of_git(path)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise DatabaseError(CANNOT_CREATE.format(error.strerror)) from None
    return True


@contextlib.contextmanager
def noting(path: Path) -> Iterator[None]:
    """Add a note with the file's path to a DatabaseError. Messages do not contain it, since others may see them."""
    try:
        yield
    except DatabaseError as error:
        error.add_note(f"The file is {path}.")
        raise


def require_creatable(path: Path) -> None:
    """Raise DatabaseError if the permissions do not allow creating the file."""
    folder = next(place for place in path.parents if place.exists())
    if not folder.is_dir():
        raise DatabaseError(CANNOT_CREATE.format(os.strerror(errno.ENOTDIR)))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DatabaseError(CANNOT_CREATE.format(os.strerror(errno.EACCES)))


INACCESSIBLE = "The database cannot be opened: check the permissions of its file and folders."


def is_there(path: Path) -> bool:
    """Return whether the file exists and may be opened. Raises DatabaseError if it must not be used as a database.

    That is a folder or anything else that is not a file, a file on a network, or a log that belongs to another file.
    """
    try:
        require_local(path)
        require_own_log(path)
        require_no_orphaned_log(path)
        if os.path.lexists(path) and not path.is_file():
            raise DatabaseError("The database path is not a file: choose another --database-path.")
        return path.is_file()
    except PermissionError as error:
        raise DatabaseError(INACCESSIBLE) from error


def is_writable(path: Path) -> bool:
    """Return whether this user may write to a database and create the files next to it that SQLite needs."""
    real = Path(os.path.realpath(path))
    return os.access(real, os.W_OK) and os.access(real.parent, os.W_OK | os.X_OK)


def use_write_ahead_log(connection: apsw.Connection) -> None:
    """Switch to WAL mode, in which readers and a writer do not block each other.

    SQLite does not wait for this lock, so the statement is repeated.
    """
    retry_while_locked(lambda: connection.pragma("journal_mode", "wal"))


def wait_for_locks(connection: apsw.Connection) -> None:
    """Let SQLite wait for other processes instead of failing at once."""
    connection.set_busy_timeout(int(LOCK_TIMEOUT_SECONDS * 1000))


@contextlib.contextmanager
def waiting_at_most(connection: apsw.Connection, seconds: float) -> Iterator[None]:
    """Let SQLite wait for other processes for another time than `wait_for_locks` sets."""
    connection.set_busy_timeout(int(seconds * 1000))
    try:
        yield
    finally:
        wait_for_locks(connection)


def overwrite_deleted_bytes(connection: apsw.Connection) -> None:
    """Overwrite deleted content with zeros."""
    connection.pragma("secure_delete", True)


def keep_transaction_in_memory(connection: apsw.Connection) -> None:
    """Write the pages of most transactions only once, at the commit.

    Otherwise SQLite writes all pages beyond its cache of 2 MB early and reads them again, which is a tenth of the time
    in the lock. After the commit, it frees what is beyond its cache.
    """
    connection.pragma("cache_spill", PAGES_IN_MEMORY)


def flush_the_disk_too(connection: apsw.Connection) -> None:
    """Let a commit on macOS reach the disk itself: fsync leaves it in the disk's cache. Elsewhere nothing changes."""
    connection.pragma("fullfsync", True)
    connection.pragma("checkpoint_fullfsync", True)


def set_up(connection: apsw.Connection, synchronous: str) -> None:
    """Enforce foreign keys, so that chunks and passages are deleted with their memory; erase deleted bytes.

    `synchronous` FULL: a commit is on disk when it returns. NORMAL: a power failure can lose the last commits.
    """
    connection.pragma("foreign_keys", True)
    overwrite_deleted_bytes(connection)
    connection.pragma("synchronous", synchronous)
    flush_the_disk_too(connection)
    keep_transaction_in_memory(connection)


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
