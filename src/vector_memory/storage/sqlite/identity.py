"""Checks whether an open database is still the one at its path, with the log that belongs to it.

SQLite keeps using files that were moved or deleted, so new memories would go to a file without a name, or to one that
nobody looks for. Only `os.stat` is used: closing another descriptor of a file drops SQLite's locks on it.
"""

import os
import time
from pathlib import Path

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import log_index_of, log_of, mount_of

MOVED = (
    "The database file was moved, deleted or replaced after this server opened it. Nothing was changed. Put the file "
    "back and repeat the call, or restart this server to use the file that is there now."
)
LOG_MOVED = (
    "The write-ahead log of the database (the files ending in -wal and -shm) was moved, deleted or replaced while it "
    "is in use. Nothing was changed. Put it back and repeat the call; if it is lost, stop all servers that use this "
    "database, then start them again."
)
LOG_WITHOUT_DATABASE = (
    "There is no database at this path, but its write-ahead log (the file ending in -wal) exists and may contain "
    "memories that are nowhere else. Put the database back next to it, or move the log away to start an empty memory."
)

Identity = tuple[int, int]
"""Device and inode. No other file can have them while this one is open."""


class OpenFiles:
    """The files of an open database: `path`, and the log and its index, which exist as long as it is open.

    Create it after the connection has read something. A check takes one `stat` per file and one more for the name, a
    few microseconds in all. The name matters: if a file was moved and a link left behind, it is the same file, but a
    process that opens the link looks for another log.
    """

    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self._path = str(path)
        self._named = identity_of(self._path, follow_links=False)
        # SQLite puts the log next to the file that a symbolic link points to.
        real = Path(connection.filename)
        self._log = str(log_of(real))
        self._identity = identity_of(self._path)
        self._beside = {name: identity_of(name) for name in (self._log, str(log_index_of(real)))}

    def require_in_place(self) -> None:
        """Raise DatabaseError if one of the files is not the one that was opened."""
        named = identity_of(self._path, follow_links=False)
        if named != self._named or identity_of(self._path) != self._identity:
            raise DatabaseError(MOVED)
        if any(identity_of(name) != identity for name, identity in self._beside.items()):
            raise DatabaseError(LOG_MOVED)

    def are_in_place(self) -> bool:
        """Return whether all files are the ones that were opened."""
        try:
            self.require_in_place()
        except DatabaseError:
            return False
        return True

    def left_log_behind(self) -> bool:
        """Return whether the database was moved from its path without its log."""
        return identity_of(self._path) != self._identity and identity_of(self._log) == self._beside[self._log]


def identity_of(name: str, *, follow_links: bool = True) -> Identity | None:
    """Return the identity of the file that has this name now; None if there is none."""
    try:
        # Takes half as long as Path.stat, and runs before each read and write.
        status = os.stat(name, follow_symlinks=follow_links)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino


def require_no_orphaned_log(path: Path) -> None:
    """Raise DatabaseError if there is a log without its database: SQLite would delete it with a new database."""
    # In this order: a process that creates a database creates the file before the log.
    log = log_of(Path(os.path.realpath(path)))
    if log.exists() and not path.exists() and log.exists() and log.stat().st_size:
        raise DatabaseError(LOG_WITHOUT_DATABASE)


def checkpoint_moved_database(connection: apsw.Connection) -> None:
    """Move the log into a database that was moved without it, and delete it, unless another process has it open.

    Otherwise the database would lack the latest memories, and the log would be used with the next file at the path.
    SQLite does not checkpoint a moved database when it closes it.
    """
    connection.set_busy_timeout(0)
    connection.pragma("journal_mode", "delete")


# Finds locked files in Linux's lock table, because opening and closing a file would drop SQLite's locks.

TABLE = Path("/proc/locks")

IN_USE = range(128, 129)
"""The byte of a log's index that each connection locks as long as it has the index open."""

SHARED = range(0x40000002, 0x40000002 + 510)
"""The bytes of a database that a connection in WAL mode locks before it opens the log's index, until after it closes
it."""

ATTEMPTS = 30
SECONDS_BETWEEN_ATTEMPTS = 0.05
"""A process that is opening or closing a database briefly has only one of the two locks."""

READINGS = 3
"""The table is not read atomically: a reading can miss a lock while other locks come and go."""

OTHER_DATABASE = (
    "A running server still has the file open that was at this path before, and its write-ahead log is here. Using "
    "that log with another file would damage both. Nothing was changed; stop all servers of this database (close the "
    "agents' clients), then start them again."
)


def require_own_log(path: Path) -> None:
    """Raise DatabaseError if the log next to `path` is in use with another database, which was moved or replaced.

    Does nothing on systems without the table, and cannot see processes that the table does not show.
    """
    real = Path(os.path.realpath(path))
    for _ in range(ATTEMPTS):
        if not is_locked(log_index_of(real), IN_USE) or is_locked(real, SHARED):
            return
        time.sleep(SECONDS_BETWEEN_ATTEMPTS)
    raise DatabaseError(OTHER_DATABASE)


def is_locked(path: Path, some: range) -> bool:
    """Return whether a process has locked one of these bytes of a file."""
    try:
        inode = path.stat().st_ino
        lines = [line for _ in range(READINGS) for line in TABLE.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError):
        return False
    devices = set()
    for line in lines:
        match line.split():
            case [_, "POSIX", _, _, _, file, first, last]:
                device, _, number = file.rpartition(":")
                ends_before = last != "EOF" and int(last) < some.start
                if int(number) == inode and int(first) < some.stop and not ends_before:
                    devices.add(device)
    return bool(devices) and device_of(path) in {None, *devices}


def device_of(path: Path) -> str | None:
    """Return the device of a file, as the table names it; None: it is not known.

    That is the device of its mount. On some file systems, such as btrfs, `stat` reports another one.
    """
    mount = mount_of(path)
    return None if mount is None else ":".join(f"{int(part):02x}" for part in mount.device.split(":"))
