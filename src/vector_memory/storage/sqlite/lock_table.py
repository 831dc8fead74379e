"""Which files are locked, read from the table of Linux: opening and closing a file would drop the locks of SQLite."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import log_index_of
from vector_memory.storage.disk.protection import JOURNAL_MODE_AT, LOGGED, header_of

TABLE = Path("/proc/locks")

IN_USE = range(128, 129)
"""The byte of a log's index that each connection locks as long as it has the index open."""

SHARED = range(0x40000002, 0x40000002 + 510)
"""The bytes of a database that a connection with a log keeps locked, from before it opens the index until after."""

END = 1 << 63

LOOKS = 10
SECONDS_BETWEEN_LOOKS = 0.05
"""Who is just opening or closing a database has one lock and not yet, or no longer, the other one."""

READINGS = 3
"""The table is not read in one piece: a lock that stays can be missed when others come and go meanwhile."""

OTHER_DATABASE = (
    "A running server still has the file open that was at this path before, and its write-ahead log is here: using it "
    "with another file would damage both. Nothing was changed; stop all servers of this database (close the "
    "agents' clients), then start them again."
)


OTHER_NAME = (
    "A server that is still running has this database open under another name (through a hard link, or moved with a "
    "link left behind), with another write-ahead log: both together would damage the database. Nothing was changed; "
    "use the same path as that server, or end it first."
)


class Lock(NamedTuple):
    """A lock on some bytes of a file. `device` is as the table writes it. `shared`: others may lock the same bytes."""

    shared: bool
    process: str
    device: str
    inode: int
    first: int
    last: int

    def covers(self, some: range) -> bool:
        """Tell whether one of the bytes is locked."""
        return self.first < some.stop and self.last >= some.start


def require_own_log(path: Path) -> None:
    """Raise a DatabaseError if the log beside `path` is in use with another database, which was moved or replaced.

    And if the database is in use with another log. Nothing is found out on systems without the table, or about
    processes that it does not show.
    """
    for _ in range(LOOKS):
        error = mixed_up(path)
        if error is None:
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)
    raise DatabaseError(error)


def mixed_up(path: Path) -> str | None:
    """Say what is wrong if processes use the database, or the log beside it, without the other one."""
    if is_log_of_another(path):
        return OTHER_DATABASE
    return OTHER_NAME if is_open_with_another_log(path) else None


def is_open_with_another_log(path: Path) -> bool:
    """Tell whether a process uses a database with a log that is not the one beside it."""
    real = Path(os.path.realpath(path))
    try:
        database = real.stat()
    except OSError:
        return False
    index = log_index_of(real).stat().st_ino if log_index_of(real).exists() else None
    locks = held()
    # A lock that is not shared is that of a process which needs no log, such as one that restores a backup.
    users = {lock.process for lock in locks if lock.inode == database.st_ino and lock.shared and lock.covers(SHARED)}
    return bool(users - {lock.process for lock in locks if lock.inode == index and lock.covers(IN_USE)}) and has_log(
        real, database
    )


def has_log(path: Path, status: os.stat_result) -> bool:
    """Tell whether a database uses a write-ahead log at all, by its header."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        header = header_of(folder, path.name, status)
    finally:
        os.close(folder)
    return header[JOURNAL_MODE_AT : JOURNAL_MODE_AT + len(LOGGED)] == LOGGED


def is_log_of_another(path: Path) -> bool:
    """Tell whether a process uses the log beside a database without using the database."""
    real = Path(os.path.realpath(path))
    try:
        index = log_index_of(real).stat().st_ino
    except OSError:
        return False
    locks = held()
    devices = {lock.device for lock in locks if lock.inode == index and lock.covers(IN_USE)}
    if not devices:
        return False
    database = real.stat().st_ino if real.exists() else None
    return not any(lock.inode == database and lock.device in devices and lock.covers(SHARED) for lock in locks)


def held() -> set[Lock]:
    """Return the locks on files that processes hold."""
    return {lock for _ in range(READINGS) for lock in read_table()}


def read_table() -> Iterator[Lock]:
    """Yield the locks that are in the table at one reading."""
    try:
        lines = TABLE.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        match line.split():
            case [_, "POSIX", _, mode, process, file, first, last]:
                device, _, inode = file.rpartition(":")
                yield Lock(mode == "READ", process, device, int(inode), int(first), END if last == "EOF" else int(last))
