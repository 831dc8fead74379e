"""What a connection needs where SQLite cannot create the files next to a database: no space, or no permission."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import log_index_of, log_of
from vector_memory.storage.sqlite.identity import MOVED, identity_of
from vector_memory.storage.sqlite.time_limit import FULL

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
