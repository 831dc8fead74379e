"""Checks whether an open database is still the one at its path, with the log that belongs to it.

SQLite keeps using files that were moved or deleted, so new memories would go to a file without a name, or to one that
nobody looks for. Only `os.stat` is used: closing another descriptor of a file drops SQLite's locks on it.
"""

import os
from pathlib import Path

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import log_index_of, log_of

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
