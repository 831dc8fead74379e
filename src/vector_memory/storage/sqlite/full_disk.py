"""A database that can only be read, opened all the same: SQLite cannot make the files it needs beside it.

The disk is full, or this user may not write there.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import log_index_of, log_of
from vector_memory.storage.sqlite.guards import FULL
from vector_memory.storage.sqlite.identity import MOVED, Identity, identity_of

READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI

ROOM_FOR_LOG = 64 * 1024
"""Bytes; the index of a log takes 32 KB at least."""

READING_ONLY = (
    "The disk is full, so the database is open for reading only. Nothing was changed; free some space and repeat the "
    "call."
)


NO_UPGRADE = (
    "The database was written by an earlier release and has to be upgraded first, but you may not write to it: open it "
    "once as a user who may."
)


class FullDiskError(DatabaseError):
    """The database cannot be opened for writing because the disk is full."""


class FullDisk:
    """Reads the database at `path` while there is no space to open it for writing. Safe to use from several threads.

    `extend` loads what the tables need into a connection. `noticed`: the database was opened for reading only.
    """

    def __init__(self, path: Path, extend: Callable[[apsw.Connection], None]) -> None:
        self._path = path
        self._extend = extend
        self._lock = threading.RLock()
        self._identity: Identity | None = None
        self.noticed = False

    def open_to_read(self, is_present: Callable[[apsw.Connection], bool]) -> None:
        """Let the database be read only, because this user may not write to it; `is_present`: it needs no upgrade."""
        self.noticed = True
        with self.reader() as reader:
            if not is_present(reader):
                raise DatabaseError(NO_UPGRADE)

    @contextlib.contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """Give a connection for one transaction, to one thread at a time. Raises DatabaseError if the file has changed.

        Unlike an open file, one that was closed meanwhile may be another one.
        """
        with self._lock, contextlib.closing(connect_to_read(self._path)) as connection:
            self._require_same_file()
            self._extend(connection)
            yield connection

    @contextlib.contextmanager
    def without_readers(self) -> Iterator[None]:
        """Let no connection be open that only reads: one for writing could not write beside it.

        They share what SQLite knows of the log. Raises FullDiskError if one is in use: no writer waits for it.
        """
        if not self._lock.acquire(blocking=False):
            raise FullDiskError(READING_ONLY)
        try:
            self._require_same_file()
            yield
        finally:
            self._lock.release()

    def require_space(self) -> None:
        """Raise a FullDiskError if the database still cannot be written."""
        if self.noticed:
            raise FullDiskError(READING_ONLY)

    def _require_same_file(self) -> None:
        identity = identity_of(str(self._path))
        self._identity = self._identity or identity
        if identity != self._identity:
            raise DatabaseError(MOVED)


@contextlib.contextmanager
def full_disk_noticed(connection: apsw.Connection) -> Iterator[None]:
    """Raise a FullDiskError if the block, which uses the connection, fails because the disk is full."""
    try:
        yield
    except apsw.FullError as error:
        raise FullDiskError(FULL) from error
    except (apsw.IOError, apsw.CantOpenError) as error:
        if connection.system_errno in {errno.ENOSPC, errno.EDQUOT} or is_full(Path(connection.filename).parent):
            raise FullDiskError(FULL) from error
        raise


def is_full(folder: Path) -> bool:
    """Tell whether there is no room for a small file. SQLite does not tell why it could not make one."""
    if not hasattr(os, "statvfs"):
        return False
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize < ROOM_FOR_LOG or (room.f_files > 0 and room.f_favail == 0)


def connect_to_read(path: Path) -> apsw.Connection:
    """Return a connection that reads the database as it is now, with its log, and needs no space on the disk.

    The index of the log is kept in memory if there is none that is in use. A log that is not there cannot be made: the
    database is read without one then. The connection is for one transaction, because a log may come at any time.
    """
    path = Path(os.path.realpath(path))
    log = log_of(path)
    has_log = log.exists() and (log_index_of(path).exists() or log.stat().st_size)
    return apsw.Connection(f"file:{quote(str(path))}?{'readonly_shm=1' if has_log else 'immutable=1'}", flags=READ_ONLY)
