"""Which files are locked, read from the table of Linux: opening and closing a file would drop the locks of SQLite."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vector_memory.errors import DatabaseError
from vector_memory.storage.sqlite.filesystem import log_index_of

TABLE = Path("/proc/locks")

IN_USE = range(128, 129)
"""The byte of a log's index that each connection locks as long as it has the index open."""

SHARED = range(0x40000002, 0x40000002 + 510)
"""The bytes of a database that a connection with a log keeps locked, from before it opens the index until after."""

END = 1 << 63

LOOKS = 3
SECONDS_BETWEEN_LOOKS = 0.05
"""The table is not read in one piece: what comes and goes meanwhile can be missed."""

OTHER_DATABASE = (
    "A running server still has the file open that was at this path before, and its write-ahead log is here: using it "
    "with another file would damage both. Nothing was changed; stop all servers of this database (close the "
    "agents' clients), then start them again."
)


class Lock(NamedTuple):
    """A lock on some bytes of a file. `device` is as the table writes it."""

    device: str
    inode: int
    first: int
    last: int

    def covers(self, some: range) -> bool:
        """Tell whether one of the bytes is locked."""
        return self.first < some.stop and self.last >= some.start


def require_own_log(path: Path) -> None:
    """Raise a DatabaseError if the log beside `path` is in use with another database, which was moved or replaced.

    Nothing is found out on systems without the table, or about processes that it does not show.
    """
    for _ in range(LOOKS):
        if not is_log_of_another(path):
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)
    raise DatabaseError(OTHER_DATABASE)


def is_log_of_another(path: Path) -> bool:
    """Tell whether a process uses the log beside a database without using the database."""
    real = Path(os.path.realpath(path))
    try:
        index = log_index_of(real).stat().st_ino
    except OSError:
        return False
    locks = list(held())
    devices = {lock.device for lock in locks if lock.inode == index and lock.covers(IN_USE)}
    if not devices:
        return False
    database = real.stat().st_ino if real.exists() else None
    return not any(lock.inode == database and lock.device in devices and lock.covers(SHARED) for lock in locks)


def held() -> Iterator[Lock]:
    """Yield the locks on files that processes hold."""
    try:
        lines = TABLE.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        match line.split():
            case [_, "POSIX", _, _, _, file, first, last]:
                device, _, inode = file.rpartition(":")
                yield Lock(device, int(inode), int(first), END if last == "EOF" else int(last))
