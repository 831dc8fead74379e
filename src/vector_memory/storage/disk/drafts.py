"""The one way to write a file: a draft beside it, which gets its name at once and never takes that of a database."""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vector_memory.errors import DatabaseError, ValidationError
from vector_memory.storage.disk.locking import lock_if_free
from vector_memory.storage.disk.protection import HEADER_BYTES, Place, is_being_written, why_protected

DRAFT = re.compile(r"\.vector-memory-[0-9a-f]{16}\.partial")

NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}
"""What a file system without hard links answers."""


@dataclass(frozen=True)
class Rules:
    """What a file may replace.

    `overwrite`: an ordinary file. `over_backups`: then also a copy that `backup` has made and nobody has opened since.
    `databases`: the paths that are configured, whether there is a file or not. `is_database`: what is written is a
    database of ours or belongs to one, so it may have such a name; it replaces nothing.
    """

    overwrite: bool = False
    over_backups: bool = False
    databases: Sequence[Path] = ()
    is_database: bool = False

    def check(self, place: Place) -> None:
        """Raise ValidationError, FileExistsError or IsADirectoryError unless a file may be written there."""
        if DRAFT.fullmatch(place.name):
            raise ValidationError(f"{place.shown} has a name that only unfinished files have: name another file.")
        if not self.is_database:
            reason = why_protected(place, self.databases, except_backups=self.over_backups)
            if reason is not None:
                raise ValidationError(f"{place.shown} {reason}: choose another file.")
        try:
            status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "It is not a file")
        if not self.overwrite or self.is_database:
            raise FileExistsError(errno.EEXIST, "File exists")
        if is_being_written(status):
            raise ValidationError(f"{place.shown} is in use: choose another file.")


@dataclass(frozen=True)
class Draft:
    """A file that is being written, readable by its owner only.

    `descriptor` holds the lock that tells other processes that somebody is still writing.
    """

    place: Place
    name: str
    descriptor: int
    rules: Rules

    @property
    def path(self) -> Path:
        """Where it is, for SQLite."""
        return self.place.path.with_name(self.name)

    def open(self) -> IO[bytes]:
        """Open it for writing."""
        return os.fdopen(os.open(self.name, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=self.place.folder), "wb")

    def header(self) -> bytes:
        """Return its first bytes."""
        return os.pread(self.descriptor, HEADER_BYTES, 0)

    def patch(self, data: bytes, offset: int) -> None:
        """Write over bytes of it."""
        descriptor = os.open(self.name, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=self.place.folder)
        try:
            os.pwrite(descriptor, data, offset)
        finally:
            os.close(descriptor)

    def publish(self) -> None:
        """Give it its name when it is on the disk: readers see the old file or the new one, never a part.

        The rules are checked once more, right before. Raises as `Rules.check`.
        """
        os.fsync(self.descriptor)
        self.rules.check(self.place)
        if self.rules.overwrite:
            self._rename()
        else:
            self._link()
        os.fsync(self.place.folder)

    def _rename(self) -> None:
        folder = self.place.folder
        os.rename(self.name, self.place.name, src_dir_fd=folder, dst_dir_fd=folder)

    def _link(self) -> None:
        """Take a name that nothing has; FileExistsError if something got it a moment ago."""
        folder = self.place.folder
        try:
            os.link(self.name, self.place.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            self._rename()


@contextmanager
def draft_at(place: Place, rules: Rules) -> Iterator[Draft]:
    """Give a draft that is gone after the block, unless it was published.

    Raises as `Rules.check` at once, and OSError. Drafts that killed processes have left in the folder are removed.
    """
    rules.check(place)
    remove_abandoned(place.folder)
    name, descriptor = locked_draft(place.folder)
    try:
        yield Draft(place, name, descriptor, rules)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=place.folder)
        os.close(descriptor)


@contextmanager
def draft_of(target: Path, rules: Rules) -> Iterator[Draft]:
    """Give a draft of the file that a path leads to, also through links.

    Raises ValidationError if it may not be written, DatabaseError if the disk refuses.
    """
    real = Path(os.path.realpath(target))
    try:
        folder = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with draft_at(Place(folder, real.name, real, str(target)), rules) as draft:
                yield draft
        finally:
            os.close(folder)
    except FileExistsError:
        raise ValidationError(
            f"{target} already exists: choose another file, or add --overwrite to replace it."
        ) from None
    except IsADirectoryError:
        raise ValidationError(f"{target} is not a file: choose another path.") from None
    except OSError as error:
        raise DatabaseError(
            f"{target} could not be written ({error.strerror}): nothing was changed. Choose another path."
        ) from error


def locked_draft(folder: int) -> tuple[str, int]:
    """Make a draft and lock it; return its name and a descriptor for reading."""
    while True:
        name = f".vector-memory-{secrets.token_hex(8)}.partial"
        descriptor = os.open(name, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
        if lock_if_free(descriptor):
            with suppress(FileNotFoundError):
                os.stat(name, dir_fd=folder)
                return name, descriptor
        os.close(descriptor)  # another process took it for an abandoned one before it was locked


def remove_abandoned(folder: int) -> None:
    """Remove drafts in a folder whose processes have ended."""
    with suppress(OSError):  # a folder may be written and not listed
        for name in filter(DRAFT.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                remove_if_abandoned(folder, name)


def remove_if_abandoned(folder: int, name: str) -> None:
    """Remove a draft that nobody has locked."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        if lock_if_free(descriptor):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(descriptor)
