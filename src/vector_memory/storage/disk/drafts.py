"""The only way to write a file: a draft next to it, renamed when it is complete. It never replaces a database."""

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from vector_memory.errors import DatabaseError, ValidationError
from vector_memory.storage.disk.filesystem import flush_to_disk

# Recognizes the files of a database, so that nothing else is ever written over them.
#
# Closing any descriptor of a file drops all POSIX locks that the process holds on it, including SQLite's. A file that
# this process has open is therefore recognized by device and inode, and read through the open descriptor; only other
# files are opened.

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
    """Whether a copy is unchanged since `backup`. Opening one for use switches it to a write-ahead log."""
    journal_mode = header[JOURNAL_MODE_AT : JOURNAL_MODE_AT + len(ROLLBACK)]
    return journal_mode == ROLLBACK and header[APPLICATION_AT : APPLICATION_AT + len(BACKUP)] == BACKUP


DRAFT = re.compile(r"\.vector-memory-[0-9a-f]{16}\.partial")

ABANDONED_SECONDS = 24 * 3_600

NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}
"""Errors of file systems without hard links."""


@dataclass(frozen=True)
class Rules:
    """What a new file may replace.

    `overwrite`: an ordinary file. `over_backups`: with `overwrite`, also a copy that `backup` made and no process has
    opened since. `databases`: the configured databases, which need not exist. `is_database`: the new file is a memory
    or belongs to one, so it may have the name of one; it replaces nothing.
    """

    overwrite: bool = False
    over_backups: bool = False
    databases: Sequence[Path] = ()
    is_database: bool = False

    def check(self, target: Target) -> None:
        """Raise ValidationError, FileExistsError or IsADirectoryError unless the target may be written."""
        if DRAFT.fullmatch(target.name):
            raise ValidationError(f"{target.shown} is a name reserved for unfinished files: choose another file.")
        if not self.is_database:
            reason = why_protected(target, self.databases, except_backups=self.over_backups)
            if reason is not None:
                raise ValidationError(f"{target.shown} {reason}: choose another file.")
        try:
            status = os.stat(target.name, dir_fd=target.folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "It is not a file")
        if not self.overwrite or self.is_database:
            raise FileExistsError(errno.EEXIST, "File exists")
        if any(access != os.O_RDONLY for _, access in descriptors_of(status)):  # for example as the log file
            raise ValidationError(f"{target.shown} is in use: choose another file.")


@dataclass(frozen=True)
class Draft:
    """A file that is being written, readable by its owner only. `descriptor`: open for reading."""

    target: Target
    name: str
    descriptor: int
    rules: Rules

    @property
    def path(self) -> Path:
        """The draft's path, for SQLite."""
        return self.target.path.with_name(self.name)

    def open(self) -> IO[bytes]:
        """Open the draft for writing."""
        return os.fdopen(os.open(self.name, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=self.target.folder), "wb")

    def header(self) -> bytes:
        """Return the first 100 bytes of the draft."""
        return os.pread(self.descriptor, HEADER_BYTES, 0)

    def patch(self, data: bytes, offset: int) -> None:
        """Overwrite bytes of the draft at an offset."""
        descriptor = os.open(self.name, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=self.target.folder)
        try:
            os.pwrite(descriptor, data, offset)
        finally:
            os.close(descriptor)

    def publish(self) -> None:
        """Sync the draft to disk and rename it: readers see the old file or the new one, never a partial one.

        The rules are checked again right before. Raises like `Rules.check`.
        """
        flush_to_disk(self.descriptor)
        self.rules.check(self.target)
        folder, name = self.target.folder, self.target.name
        publish = os.rename if self.rules.overwrite else os.link  # a link never replaces a file that has just appeared
        try:
            publish(self.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            os.rename(self.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        flush_to_disk(folder)


@contextmanager
def draft_at(target: Target, rules: Rules) -> Iterator[Draft]:
    """Yield a draft, which is deleted after the block unless it was published.

    Raises like `Rules.check` at once, and OSError. Old drafts that killed processes left in the folder are removed.
    """
    rules.check(target)
    remove_abandoned(target.folder)
    name = f".vector-memory-{secrets.token_hex(8)}.partial"
    descriptor = os.open(name, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=target.folder)
    try:
        yield Draft(target, name, descriptor, rules)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=target.folder)
        os.close(descriptor)


@contextmanager
def draft_of(path: Path, rules: Rules) -> Iterator[Draft]:
    """Yield a draft of the file that a path leads to, also through links.

    Raises ValidationError if the file must not be written, DatabaseError if writing fails.
    """
    real = Path(os.path.realpath(path))
    try:
        folder = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with draft_at(Target(folder, real.name, real, str(path)), rules) as draft:
                yield draft
        finally:
            os.close(folder)
    except FileExistsError:
        raise ValidationError(
            f"{path} already exists: choose another file, or add --overwrite to replace it."
        ) from None
    except IsADirectoryError:
        raise ValidationError(f"{path} is not a file: choose another path.") from None
    except OSError as error:
        raise DatabaseError(
            f"{path} could not be written ({error.strerror}): nothing was changed. Choose another path."
        ) from error


def remove_abandoned(folder: int) -> None:
    """Remove drafts in a folder that were written to a day ago or earlier: their processes have ended."""
    with suppress(OSError):  # a folder may be writable without being readable
        for name in filter(DRAFT.fullmatch, os.listdir(folder)):
            with suppress(FileNotFoundError):
                if time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > ABANDONED_SECONDS:
                    os.unlink(name, dir_fd=folder)
