"""Finds locked files in Linux's lock table, because opening and closing a file would drop SQLite's locks."""

import os
import re
import time
from pathlib import Path

from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import log_index_of, mounts

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
