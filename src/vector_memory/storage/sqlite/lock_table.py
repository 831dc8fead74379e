"""Finds locked files in Linux's lock table, because opening and closing a file would drop SQLite's locks."""

import os
import re
import time
from pathlib import Path

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
    # A process with an exclusive lock needs no log, for example while it restores a backup.
    return bool(holders(real, SHARED, "READ") - holders(log_index_of(real), IN_USE)) and has_log(real)


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
    return bool(holders(log_index_of(real), IN_USE)) and not holders(real, SHARED)


def holders(path: Path, some: range, *modes: str) -> set[str]:
    """Return the processes that have locked one of these bytes of a file, in one of these modes if there are any."""
    try:
        inode = path.stat().st_ino
        lines = [line for _ in range(READINGS) for line in TABLE.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError):
        return set()
    found = []
    for line in lines:
        match line.split():
            case [_, "POSIX", _, mode, process, file, first, last] if not modes or mode in modes:
                device, _, number = file.rpartition(":")
                ends_before = last != "EOF" and int(last) < some.start
                if int(number) == inode and int(first) < some.stop and not ends_before:
                    found.append((device, process))
    own = device_of(path) if found else None
    return {process for device, process in found if own in (None, device)}


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
