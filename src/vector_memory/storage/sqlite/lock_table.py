"""Finds locked files in Linux's lock table, because opening and closing a file would drop SQLite's locks."""

import os
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import log_index_of, mounts
from vector_memory.storage.disk.protection import JOURNAL_MODE_AT, LOGGED, header_of

TABLE = Path("/proc/locks")
OPEN_FILES = Path("/proc/self/fdinfo")
MOUNT = re.compile(r"^mnt_id:\s*(\d+)$", re.MULTILINE)

IN_USE = range(128, 129)
"""The byte of a log's index that each connection locks as long as it has the index open."""

SHARED = range(0x40000002, 0x40000002 + 510)
"""The bytes of a database that a connection in WAL mode locks before it opens the log's index, until after it closes
it."""

END = 1 << 63

ATTEMPTS = 10
SECONDS_BETWEEN_ATTEMPTS = 0.05
"""A process that is opening or closing a database briefly has only one of the two locks."""

READINGS = 3
"""The table is not read atomically: a reading can miss a lock while other locks come and go."""

OTHER_DATABASE = (
    "A running server still has the file open that was at this path before, and its write-ahead log is here. Using "
    "that log with another file would damage both. Nothing was changed; stop all servers of this database (close the "
    "agents' clients), then start them again."
)


OTHER_NAME = (
    "A running server has this database open under another name (through a hard link, or because the file was moved "
    "and a link left behind), and so with another write-ahead log. Two logs would damage the database. Nothing was "
    "changed; use the same path as that server, or stop it first."
)


class Lock(NamedTuple):
    """A lock on bytes of a file. `device`: as in the table. `shared`: other processes may lock the same bytes."""

    shared: bool
    process: str
    device: str
    inode: int
    first: int
    last: int

    def covers(self, some: range) -> bool:
        """Return whether one of the bytes is locked."""
        return self.first < some.stop and self.last >= some.start


def require_own_log(path: Path) -> None:
    """Raise DatabaseError if the log next to `path` is in use with another database, which was moved or replaced.

    Also if the database is in use with another log. Does nothing on systems without the table, and cannot see processes
    that the table does not show.
    """
    for _ in range(ATTEMPTS):
        error = find_conflict(path)
        if error is None:
            return
        time.sleep(SECONDS_BETWEEN_ATTEMPTS)
    raise DatabaseError(error)


def find_conflict(path: Path) -> str | None:
    """Return an error message if processes use the database, or the log next to it, without the other one."""
    if is_log_of_another(path):
        return OTHER_DATABASE
    return OTHER_NAME if is_open_with_another_log(path) else None


def is_open_with_another_log(path: Path) -> bool:
    """Return whether a process uses the database with a log other than the one next to it."""
    real = Path(os.path.realpath(path))
    locks = locks_held()
    # A process with an exclusive lock needs no log, for example while it restores a backup.
    users = {lock.process for lock in locks_on(real, locks) if lock.shared and lock.covers(SHARED)}
    users -= {lock.process for lock in locks_on(log_index_of(real), locks) if lock.covers(IN_USE)}
    return bool(users) and has_log(real)


def has_log(path: Path) -> bool:
    """Return whether the header of a database says that it is in WAL mode."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        header = header_of(folder, path.name, path.stat())
    finally:
        os.close(folder)
    return header[JOURNAL_MODE_AT : JOURNAL_MODE_AT + len(LOGGED)] == LOGGED


def is_log_of_another(path: Path) -> bool:
    """Return whether a process uses the log next to a database without using the database."""
    real = Path(os.path.realpath(path))
    locks = locks_held()
    devices = {lock.device for lock in locks_on(log_index_of(real), locks) if lock.covers(IN_USE)}
    return bool(devices) and not devices & {lock.device for lock in locks_on(real, locks) if lock.covers(SHARED)}


def locks_on(path: Path, locks: Collection[Lock]) -> list[Lock]:
    """Return those of the locks that are on the file at a path. Equal inodes on two devices are two files."""
    try:
        inode = path.stat().st_ino
    except OSError:
        return []
    found = [lock for lock in locks if lock.inode == inode]
    device = device_of(path) if found else None
    return [lock for lock in found if device in (None, lock.device)]


def device_of(path: Path) -> str | None:
    """Return the device of a file, as the table names it; None: it is not known.

    That is the device of its mount. On some file systems, such as btrfs, `stat` reports another one.
    """
    try:
        descriptor = os.open(path, os.O_PATH)  # closing it drops no locks
        try:
            facts = (OPEN_FILES / str(descriptor)).read_text(encoding="ascii")
        finally:
            os.close(descriptor)
    except OSError:
        return None
    number = MOUNT.search(facts)
    device = next((mount.device for mount in mounts() if number is not None and mount.number == number[1]), None)
    return None if device is None else ":".join(f"{int(part):02x}" for part in device.split(":"))


def locks_held() -> set[Lock]:
    """Return the locks on files that processes hold."""
    return {lock for _ in range(READINGS) for lock in read_table()}


def read_table() -> Iterator[Lock]:
    """Yield the locks in the table, read once."""
    try:
        lines = TABLE.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        match line.split():
            case [_, "POSIX", _, mode, process, file, first, last]:
                device, _, inode = file.rpartition(":")
                yield Lock(mode == "READ", process, device, int(inode), int(first), END if last == "EOF" else int(last))
