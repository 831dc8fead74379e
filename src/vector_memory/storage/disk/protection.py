"""Which files belong to a database, so that nothing else is ever written over them.

Closing any descriptor of a file drops all POSIX locks that the process holds on it, SQLite's among them. A file that
this process has open is therefore recognised by device and inode and read through the descriptor that is open; only
other files are opened.
"""

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

OPEN_FILES = Path("/dev/fd")
"""Where Linux and macOS list the descriptors of a process."""

HEADER_BYTES = 100
DATABASE = b"SQLite format 3\0"
BESIDE_DATABASE = (
    b"\x37\x7f\x06\x82",  # a log
    b"\x37\x7f\x06\x83",
    (3_007_000).to_bytes(4, sys.byteorder),  # the shared index of a log
    b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7",  # a rollback journal
)
"""How the files that SQLite makes beside a database begin."""

NAME_BESIDE_DATABASE = re.compile(r".+(-wal|-shm|-journal|\.(words|vectors)\.lock)", re.IGNORECASE | re.DOTALL)
"""The names that SQLite and the file index give to the files beside a database."""

IN_USE = ("-wal", "-shm", "-journal")

JOURNAL_MODE_AT = 18
ROLLBACK = b"\1\1"
LOGGED = b"\2\2"
APPLICATION_AT = 68
BACKUP = b"VMbk"
"""What `backup` writes where an SQLite header names its application."""


class Place(NamedTuple):
    """Where a file is, or is going to be: its name in an open folder. `path`: the same place for those who open paths.

    `shown`: what callers call it.
    """

    folder: int
    name: str
    path: Path
    shown: str


def why_protected(place: Place, databases: Sequence[Path], *, except_backups: bool = False) -> str | None:
    """Say what makes a place one that nothing but a database may be written to; None: it may be written to.

    `databases`: the paths that are configured, whether there is a file or not. `except_backups`: a copy that `backup`
    has made and nobody has opened since may be written over. Raises OSError if the file cannot be read.
    """
    if any(is_at(place, database) for database in databases):
        return "is the memory itself"
    if NAME_BESIDE_DATABASE.fullmatch(place.name):
        return "has a name that is reserved for a database"
    if any(is_there(place.folder, place.name + ending) for ending in IN_USE):
        return "is a database in use"
    return why_content_protected(place.folder, place.name, except_backups=except_backups)


def why_path_protected(path: Path, databases: Sequence[Path]) -> str | None:
    """Say the same of where a path leads, also through links."""
    real = Path(os.path.realpath(path))
    folder = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return why_protected(Place(folder, real.name, real, str(path)), databases)
    finally:
        os.close(folder)


def why_content_protected(folder: int, name: str, *, except_backups: bool = False) -> str | None:
    """Say what a file belongs to, by its content and by how this process has it open; None: to no database."""
    status = status_of(folder, name)
    if status is None:
        return None
    header = header_of(folder, name, status)
    if is_open_for_writing(status):
        return "is a database in use"
    if header.startswith(DATABASE) and not (except_backups and is_unused_backup(header)):
        return "is a database, which is never replaced"
    return "belongs to a database, which is never replaced" if header.startswith(BESIDE_DATABASE) else None


def is_database(folder: int, name: str) -> bool:
    """Whether a file is a database or what SQLite keeps beside one. Never opens one that this process has open."""
    status = status_of(folder, name)
    return status is not None and header_of(folder, name, status).startswith((DATABASE, *BESIDE_DATABASE))


def status_of(folder: int, name: str) -> os.stat_result | None:
    """Return the state of a file; None if there is nothing, or something else."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def is_at(place: Place, database: Path) -> bool:
    """Whether a place is that of a database, by name or, through other names and mounts, by inode."""
    for path in {database, Path(os.path.realpath(database))}:
        with suppress(OSError):
            same_folder = os.path.samestat(os.fstat(place.folder), path.parent.stat())
            if same_folder and path.name.casefold() == place.name.casefold():
                return True
    with suppress(OSError):
        return os.path.samestat(os.stat(place.name, dir_fd=place.folder), database.stat())
    return False


def is_there(folder: int, name: str) -> bool:
    """Whether anything has the name in the folder."""
    with suppress(OSError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def is_open_for_writing(status: os.stat_result) -> bool:
    """Whether this process has a file open as SQLite opens those that it writes."""
    return any(access == os.O_RDWR for _, access in descriptors_of(status))


def is_being_written(status: os.stat_result) -> bool:
    """Whether this process has a file open for writing in any way, as its log."""
    return any(access != os.O_RDONLY for _, access in descriptors_of(status))


def is_open(path: Path) -> bool:
    """Whether this process has a file open in any way."""
    return any(descriptors_of(path.stat()))


def header_of(folder: int, name: str, status: os.stat_result) -> bytes:
    """Return the first bytes of a file, without a new descriptor if this process has it open."""
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
    """Yield the descriptors that this process has of a file, and whether they can read, write, or do both."""
    import fcntl  # noqa: PLC0415 - not on every system

    for number in [int(entry.name) for entry in OPEN_FILES.iterdir()]:
        with suppress(OSError):  # one is that of the listing, and other threads close theirs
            if os.path.samestat(os.fstat(number), status):
                yield number, fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE


def is_unused_backup(header: bytes) -> bool:
    """Whether a copy is as `backup` has left it: whoever opens it for use switches to a write-ahead log."""
    journal_mode = header[JOURNAL_MODE_AT : JOURNAL_MODE_AT + len(ROLLBACK)]
    return journal_mode == ROLLBACK and header[APPLICATION_AT : APPLICATION_AT + len(BACKUP)] == BACKUP
