"""How a connection to a database is set up, and what has to be there before."""

import contextlib
import errno
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.settings import DATABASE_NAME, MEMORY_FOLDER
from vector_memory.storage.disk.filesystem import make_private_folders, require_local
from vector_memory.storage.sqlite.identity import require_no_orphaned_log
from vector_memory.storage.sqlite.lock_table import require_own_log

CANNOT_CREATE = "The database cannot be created ({}): choose another --database-path."

LOCK_TIMEOUT_SECONDS = 30.0
"""Counted from the arrival of the client's call, or for other writers from when they begin to wait."""

PAGES_IN_MEMORY = 4_096
"""Of one transaction: 16 MB, what the longest report takes."""

SAFE_SQLITE = (3, 51, 3)
"""Older releases can corrupt a WAL file that several processes share."""


@contextlib.contextmanager
def closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    """Close `connection` when the block fails, so that a refused file is not kept open."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def require_safe_sqlite() -> None:
    """Refuse an SQLite that can damage a file which several processes write."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SAFE_SQLITE:
        raise ConfigurationError(
            f"The installed apsw includes SQLite {apsw.sqlite_lib_version()}, which can damage a database that several "
            "processes share: install apsw 3.54 or newer."
        )


def create_private_file(path: Path) -> bool:
    """Create the file for its owner only; False: there is one now, which is not touched.

    Opening and closing an existing file would drop SQLite's locks.
    """
    try:
        make_private_folders(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise DatabaseError(CANNOT_CREATE.format(error.strerror)) from None
    ignore_in_git(path)
    return True


def ignore_in_git(path: Path) -> None:
    """Keep a database in the `memory` folder of a project out of its repository, unless the folder has its own rules.

    Markdown files beside it may be committed.
    """
    if path.parts[-2:] == (MEMORY_FOLDER, DATABASE_NAME):
        with contextlib.suppress(OSError), (path.parent / ".gitignore").open("x", encoding="utf-8") as rules:
            rules.write(f"# The memory of your agents: personal, and it changes all the time.\n{path.name}*\n")


@contextlib.contextmanager
def noting(path: Path) -> Iterator[None]:
    """Give a DatabaseError a note that names the file. Messages do not: they may reach others than its owner."""
    try:
        yield
    except DatabaseError as error:
        error.add_note(f"The file is {path}.")
        raise


def require_creatable(path: Path) -> None:
    """Raise DatabaseError if the file could not be created now, as far as the permissions tell."""
    folder = next(place for place in path.parents if place.exists())
    if not folder.is_dir():
        raise DatabaseError(CANNOT_CREATE.format(os.strerror(errno.ENOTDIR)))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DatabaseError(CANNOT_CREATE.format(os.strerror(errno.EACCES)))


def is_there(path: Path) -> bool:
    """Tell whether there is a file, which may be opened. Raises DatabaseError for what must not be used as a database.

    That is a folder or another thing that is no file, a place on a network, and a log that belongs to another file.
    """
    require_local(path)
    require_own_log(path)
    require_no_orphaned_log(path)
    if os.path.lexists(path) and not path.is_file():
        raise DatabaseError("The database path is not a file: choose another --database-path.")
    return path.is_file()


def is_writable(path: Path) -> bool:
    """Tell whether this user may write to a database and make the files beside it that SQLite needs for writing."""
    real = Path(os.path.realpath(path))
    return os.access(real, os.W_OK) and os.access(real.parent, os.W_OK | os.X_OK)


def use_write_ahead_log(connection: apsw.Connection) -> None:
    """Let readers and a writer work side by side. SQLite does not wait for this lock by itself, so repeat."""
    patiently(lambda: connection.pragma("journal_mode", "wal"))


def wait_for_locks(connection: apsw.Connection) -> None:
    """Let SQLite wait for other processes instead of failing at once."""
    connection.set_busy_timeout(int(LOCK_TIMEOUT_SECONDS * 1000))


def overwrite_deleted_bytes(connection: apsw.Connection) -> None:
    """Fill the place of deleted content with zeros: deleted means gone."""
    connection.pragma("secure_delete", True)


def keep_transaction_in_memory(connection: apsw.Connection) -> None:
    """Write the pages of most transactions once, at the commit; afterwards SQLite frees what its cache cannot hold.

    Otherwise it writes, and reads again, whatever is more than its cache of 2 MB: a tenth of the time in the lock.
    """
    connection.pragma("cache_spill", PAGES_IN_MEMORY)


def set_up(connection: apsw.Connection, synchronous: str) -> None:
    """Let chunks and passages go with their memory, erase what is deleted, and make commits durable.

    `synchronous` FULL: a commit is on the disk when it returns. NORMAL may lose the last commits in a power cut.
    """
    connection.pragma("foreign_keys", True)
    overwrite_deleted_bytes(connection)
    connection.pragma("synchronous", synchronous)
    keep_transaction_in_memory(connection)


def forbid_writes(connection: apsw.Connection) -> None:
    """Make a connection unable to write by mistake."""
    connection.pragma("query_only", True)


def patiently(action: Callable[[], object]) -> None:
    """Repeat `action` while the file is locked, with growing pauses, up to the lock time-out."""
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
