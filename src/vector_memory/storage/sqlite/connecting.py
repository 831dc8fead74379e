"""How a connection to a database is set up, and what is checked first."""

import contextlib
import errno
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import apsw

from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.storage.cancellation import require_wanted
from vector_memory.storage.disk.filesystem import log_index_of, log_of, make_private_folders, require_local
from vector_memory.storage.disk.ignoring import keep_out_of_git
from vector_memory.storage.sqlite.identity import MOVED, identity_of, require_no_orphaned_log, require_own_log
from vector_memory.storage.sqlite.rows import FULL
from vector_memory.storage.write_lock import LOCK_TIMEOUT_SECONDS

CANNOT_CREATE = "The database cannot be created ({}): choose another --database-path."

PAGES_IN_MEMORY = 4_096
"""Pages of one transaction kept in memory: 16 MB, enough for the longest report."""

STEPS_PER_CHECK = 200_000
"""Instructions of SQLite's virtual machine between two checks whether a result is wanted: a few milliseconds."""

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


CREATING = threading.Lock()
"""Held until a new file is closed: closing it would drop the locks of a connection that another thread has opened."""


def create_private_file(path: Path) -> bool:
    """Create the file for its owner only; False: it exists by now and is not touched.

    Opening and closing an existing file would drop SQLite's locks.
    """
    try:
        make_private_folders(path.parent)
        keep_out_of_git(path)
        with CREATING:
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
        with CREATING:
            return path.is_file()
    except PermissionError as error:
        raise DatabaseError(INACCESSIBLE) from error


def is_writable(path: Path) -> bool:
    """Return whether this user may write to a database and create the files next to it that SQLite needs."""
    real = Path(os.path.realpath(path))
    return os.access(real, os.W_OK) and os.access(real.parent, os.W_OK | os.X_OK)


def load_vector_search(connection: apsw.Connection) -> None:
    """Load sqlite-vec, and then disable the loading of extensions through SQL."""
    connection.enable_load_extension(True)
    connection.load_extension(vector_search_library())
    connection.enable_load_extension(False)


@cache
def vector_search_library() -> str:
    """Return the path of the sqlite-vec library without importing its module, which imports numpy.

    That import would take a fifth of a command's start.
    """
    module = find_spec("sqlite_vec")
    if module is None or module.origin is None:
        raise ConfigurationError("sqlite-vec is not installed: install vector-memory with its dependencies.")
    return str(Path(module.origin).with_name("vec0"))


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
    """Change how long SQLite waits for other processes from what `wait_for_locks` sets."""
    connection.set_busy_timeout(int(seconds * 1000))
    try:
        yield
    finally:
        wait_for_locks(connection)


def flush_the_disk_too(connection: apsw.Connection) -> None:
    """Make a commit on macOS reach the disk itself: fsync leaves it in the disk's cache. No effect elsewhere."""
    connection.pragma("fullfsync", True)
    connection.pragma("checkpoint_fullfsync", True)


def set_up(connection: apsw.Connection, synchronous: str) -> None:
    """Enforce foreign keys, so that chunks and passages are deleted with their memory; erase deleted bytes.

    `synchronous` FULL: a commit is on disk when it returns. NORMAL: a power failure can lose the last commits.
    """
    connection.pragma("foreign_keys", True)
    connection.pragma("secure_delete", True)
    connection.pragma("synchronous", synchronous)
    flush_the_disk_too(connection)
    # Otherwise SQLite writes all pages beyond its cache of 2 MB early and reads them again, a tenth of the time in the
    # lock. After the commit, it frees what is beyond its cache.
    connection.pragma("cache_spill", PAGES_IN_MEMORY)


def stop_when_unwanted(connection: apsw.Connection) -> None:
    """Stop a statement whose result nobody wants any more. It raises CancelledCallError."""

    def check() -> bool:
        require_wanted()
        return False

    connection.set_progress_handler(check, STEPS_PER_CHECK)


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


# Connects where SQLite cannot create the files next to a database: no space, or no permission.

READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI

ROOM_FOR_LOG = 64 * 1024
"""Bytes. The index of a log takes at least 32 KB."""


class UnwritableFile:
    """A database that this user may not write to, opened anew for each transaction."""

    def __init__(self, path: Path, extend: Callable[[apsw.Connection], None]) -> None:
        """`extend` prepares a connection for the tables of the file."""
        self._path = path
        self._extend = extend
        self._identity = identity_of(str(path))

    @contextlib.contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """Yield a connection for one transaction. Raises DatabaseError if the file was replaced."""
        with contextlib.closing(connect_to_read(self._path)) as connection:
            self._require_same_file()
            self._extend(connection)
            yield connection

    def version(self) -> int:
        """Return a number that changes with every commit: no connection is kept open that could be asked for one."""
        self._require_same_file()
        statuses = [path.stat() for path in (self._path, log_of(self._path)) if path.exists()]
        return hash(tuple((status.st_size, status.st_mtime_ns) for status in statuses))

    def _require_same_file(self) -> None:
        if identity_of(str(self._path)) != self._identity:
            raise DatabaseError(MOVED)


@contextlib.contextmanager
def full_disk_detected(connection: apsw.Connection) -> Iterator[None]:
    """Raise DatabaseError if the block, which uses the connection, fails because the disk is full."""
    try:
        yield
    except (apsw.IOError, apsw.CantOpenError) as error:
        if connection.system_errno in {errno.ENOSPC, errno.EDQUOT} or is_full(Path(connection.filename).parent):
            raise DatabaseError(FULL) from error
        raise


def is_full(folder: Path) -> bool:
    """Return whether there is no space for a small file. SQLite does not report why it could not create one."""
    if not hasattr(os, "statvfs"):
        return False
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize < ROOM_FOR_LOG or (room.f_files > 0 and room.f_favail == 0)


def connect_to_read(path: Path) -> apsw.Connection:
    """Return a connection that reads the database and its log as they are now and creates no files.

    The index of the log is kept in memory unless one is in use. If there is no log, it cannot be created, and the
    database is read without one. Use the connection for one transaction only, because a log can appear at any time.
    """
    path = Path(os.path.realpath(path))
    log = log_of(path)
    has_log = log.exists() and (log_index_of(path).exists() or log.stat().st_size)
    return apsw.Connection(f"file:{quote(str(path))}?{'readonly_shm=1' if has_log else 'immutable=1'}", flags=READ_ONLY)


logger = logging.getLogger(__name__)

# Keeps the write-ahead log short, and free of deleted bytes.
#
# SQLite reuses the log only when nobody reads from it. With overlapping readers that never happens, so it has to be
# forced: while a checkpoint holds the write lock, readers of older states finish, and new readers start on the newest
# state and do not use the log. Readers never wait for this. Writers wait for the slowest reader, within a limit.
#
# The file records whether deleted bytes may remain in it or in its log. A deletion is counted in its own transaction,
# so every process that opens the file knows about it, even if the process that deleted was killed. A process that
# empties the log then records up to which deletion it did so.

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
    """Record in the deleting transaction that bytes have to be erased."""
    connection.execute("update erasure set deletes = deletes + 1")


def unerased(connection: apsw.Connection) -> int | None:
    """Return the number of the last deletion if its bytes may remain; None if all are erased."""
    number: int | None = connection.execute("select deletes from erasure where deletes > erased").get
    return number


def note_erased(connection: apsw.Connection, delete: int) -> None:
    """Record that the log was emptied after this deletion. Later ones, by other processes, stay recorded."""
    connection.execute("update erasure set erased = ? where erased < ?", (delete, delete))
