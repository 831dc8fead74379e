"""Recognizes the files of a database, so that nothing else is ever written over them.

Closing any descriptor of a file drops all POSIX locks that the process holds on it, including SQLite's. A file that
this process has open is therefore recognized by device and inode, and read through the open descriptor; only other
files are opened.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

OPEN_FILES = Path("/dev/fd")
"""Where Linux and macOS list the descriptors of a process."""

HEADER_BYTES = 100
DATABASE = b"SQLite format 3\0"
COMPANION_NAME = re.compile(r".+(-wal|-shm|-journal|\.(words|vectors)\.lock)", re.IGNORECASE | re.DOTALL)
"""The names of the files that SQLite and the file index keep next to a database."""

ENDINGS_IN_USE = ("-wal", "-shm", "-journal")

JOURNAL_MODE_AT = 18
ROLLBACK = b"\1\1"
LOGGED = b"\2\2"
APPLICATION_AT = 68
BACKUP = b"VMbk"
"""The application id that `backup` writes into the header of a copy."""


class Target(NamedTuple):
    """A file to write, which need not exist: its name in an open folder, and its path.

    `shown`: the file as messages name it.
    """

    folder: int
    name: str
    path: Path
    shown: str


def why_protected(target: Target, databases: Sequence[Path], *, except_backups: bool = False) -> str | None:
    """Return why only a database may be written to the target; None if any file may.

    `databases`: the configured databases, which need not exist. `except_backups`: a copy that `backup` made and no
    process has opened since may be replaced. Raises OSError if the file cannot be read.
    """
    if any(is_at(target, database) for database in databases):
        return "is the memory itself"
    if COMPANION_NAME.fullmatch(target.name):
        return "has a name that is reserved for a database"
    if any(os.access(target.name + ending, os.F_OK, dir_fd=target.folder) for ending in ENDINGS_IN_USE):
        return "is a database in use"
    header = header_of(target.folder, target.name)
    is_replaceable = except_backups and is_unused_backup(header)
    return "is a database, which is never replaced" if header.startswith(DATABASE) and not is_replaceable else None


def why_path_protected(path: Path, databases: Sequence[Path]) -> str | None:
    """Return the same for the file that a path leads to, also through links."""
    real = Path(os.path.realpath(path))
    folder = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return why_protected(Target(folder, real.name, real, str(path)), databases)
    finally:
        os.close(folder)


def is_database(folder: int, name: str) -> bool:
    """Whether a file is a database. Never opens a file that this process has open."""
    return header_of(folder, name).startswith(DATABASE)


def is_at(target: Target, database: Path) -> bool:
    """Whether the target is the database, by its path, or by inode through other names and mounts."""
    if os.path.realpath(target.path).casefold() == os.path.realpath(database).casefold():
        return True
    with suppress(OSError):
        return os.path.samestat(os.stat(target.name, dir_fd=target.folder), database.stat())
    return False


def is_being_written(status: os.stat_result) -> bool:
    """Whether this process has a file open for writing in any way, for example as its log file."""
    return any(access != os.O_RDONLY for _, access in descriptors_of(status))


def is_open(path: Path) -> bool:
    """Whether this process has a file open in any way."""
    return any(descriptors_of(path.stat()))


def header_of(folder: int, name: str) -> bytes:
    """Return the first 100 bytes of a regular file, without a new descriptor if this process has it open.

    Nothing if there is no such file. Raises OSError if it cannot be read.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return b""
    if not stat.S_ISREG(status.st_mode):
        return b""
    for descriptor, access in descriptors_of(status):
        with suppress(OSError):  # another thread has just closed it
            if access != os.O_WRONLY:
                return os.pread(descriptor, HEADER_BYTES, 0)
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        return os.pread(descriptor, HEADER_BYTES, 0)
    finally:
        os.close(descriptor)


def descriptors_of(status: os.stat_result) -> Iterator[tuple[int, int]]:
    """Yield this process's descriptors of a file, and the access mode of each."""
    import fcntl  # noqa: PLC0415 - not available on every system

    for number in [int(entry.name) for entry in OPEN_FILES.iterdir()]:
        with suppress(OSError):  # the descriptor of the listing is closed, and other threads close theirs
            if os.path.samestat(os.fstat(number), status):
                yield number, fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE


def is_unused_backup(header: bytes) -> bool:
    """Whether a copy is as `backup` left it. Opening a copy for use switches it to a write-ahead log."""
    journal_mode = header[JOURNAL_MODE_AT : JOURNAL_MODE_AT + len(ROLLBACK)]
    return journal_mode == ROLLBACK and header[APPLICATION_AT : APPLICATION_AT + len(BACKUP)] == BACKUP
