"""Reads a database when SQLite cannot create the files that it needs next to it.

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
from vector_memory.storage.sqlite.identity import MOVED, Identity, identity_of
from vector_memory.storage.sqlite.time_limit import FULL

READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI

ROOM_FOR_LOG = 64 * 1024
"""Bytes. The index of a log takes at least 32 KB."""

READING_ONLY = (
    "The disk is full, so the database is open for reading only. Nothing was changed; free some space and repeat the "
    "call."
)

READERS_SECONDS = 5.0
"""How long a writer waits for those who read, one after the other: each opens the file anew."""

NO_UPGRADE = (
    "The database was written by an earlier release and must be upgraded first, but you have no permission to write to "
    "it: open it once as a user who has."
)


class FullDiskError(DatabaseError):
    """The database cannot be opened for writing because the disk is full."""


class ReadOnlyFallback:
    """Reads the database at `path` while there is no space to open it for writing. Safe to use from several threads.

    `extend`: prepares a connection for the tables of the file. `reading_only`: the database was opened for reading
    only.
    """

    def __init__(self, path: Path, extend: Callable[[apsw.Connection], None]) -> None:
        self._path = path
        self._extend = extend
        self._lock = threading.RLock()
        self._no_writer_waits = threading.Event()
        self._no_writer_waits.set()
        self._identity: Identity | None = None
        self.reading_only = False

    def open_to_read(self, is_present: Callable[[apsw.Connection], bool]) -> None:
        """Open the database read-only, because this user may not write to it. `is_present`: it needs no upgrade."""
        self.reading_only = True
        with self.reader() as reader:
            if not is_present(reader):
                raise DatabaseError(NO_UPGRADE)

    @contextlib.contextmanager
    def reader(self) -> Iterator[apsw.Connection]:
        """Yield a connection for one transaction, to one thread at a time.

        Raises DatabaseError if the file was replaced: it is not kept open between calls, so another file can take its
        place.
        """
        with self._behind_writers(), contextlib.closing(connect_to_read(self._path)) as connection:
            self._require_same_file()
            self._extend(connection)
            yield connection

    @contextlib.contextmanager
    def _behind_writers(self) -> Iterator[None]:
        """Hold the lock, but let a writer that waits for it go first: there may be many readers before it."""
        while True:
            self._no_writer_waits.wait()
            with self._lock:
                if self._no_writer_waits.is_set():
                    yield
                    return

    def version(self) -> int:
        """Return a number that changes with every commit: no connection is kept open that could be asked for one."""
        self._require_same_file()
        statuses = [path.stat() for path in (self._path, log_of(self._path)) if path.exists()]
        return hash(tuple((status.st_size, status.st_mtime_ns) for status in statuses))

    @contextlib.contextmanager
    def without_readers(self) -> Iterator[None]:
        """Keep read-only connections closed during the block: a connection for writing could not write beside them.

        They share SQLite's knowledge of the log. Waits for those in use; raises FullDiskError if that takes too long.
        """
        self._no_writer_waits.clear()
        try:
            if not self._lock.acquire(timeout=READERS_SECONDS):
                raise FullDiskError(READING_ONLY)
        finally:
            self._no_writer_waits.set()
        try:
            self._require_same_file()
            yield
        finally:
            self._lock.release()

    def require_space(self) -> None:
        """Raise FullDiskError if the database still cannot be written."""
        if self.reading_only:
            raise FullDiskError(READING_ONLY)

    def _require_same_file(self) -> None:
        identity = identity_of(str(self._path))
        self._identity = self._identity or identity
        if identity != self._identity:
            raise DatabaseError(MOVED)


@contextlib.contextmanager
def full_disk_detected(connection: apsw.Connection) -> Iterator[None]:
    """Raise FullDiskError if the block, which uses the connection, fails because the disk is full."""
    try:
        yield
    except apsw.FullError as error:
        raise FullDiskError(FULL) from error
    except (apsw.IOError, apsw.CantOpenError) as error:
        if connection.system_errno in {errno.ENOSPC, errno.EDQUOT} or is_full(Path(connection.filename).parent):
            raise FullDiskError(FULL) from error
        raise


def is_full(folder: Path) -> bool:
    """Return whether there is no space for a small file. SQLite does not report why it could not create one."""
    if not hasattr(os, "statvfs"):
        return False
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize < ROOM_FOR_LOG or (room.f_files > 0 and room.f_favail == 0)


def connect_to_read(path: Path) -> apsw.Connection:
    """Return a connection that reads the database and its log as they are now and needs no disk space.

    The index of the log is kept in memory unless one is in use. If there is no log, it cannot be created, and the
    database is read without one. Use the connection for one transaction only, because a log can appear at any time.
    """
    path = Path(os.path.realpath(path))
    log = log_of(path)
    has_log = log.exists() and (log_index_of(path).exists() or log.stat().st_size)
    return apsw.Connection(f"file:{quote(str(path))}?{'readonly_shm=1' if has_log else 'immutable=1'}", flags=READ_ONLY)
