"""Changes to files of a client or a project: shown first, then made completely or not at all."""

import difflib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path

from vector_memory.domain.user_files import read_file
from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.storage.disk.drafts import Rules, draft_of

SUFFIX = ".before-vector-memory"
"""Ends the name of the copy beside a changed file."""

USUAL_MODE = 0o644


class Backup(Enum):
    """What to do with the copy of a file that is about to change."""

    LEAVE = auto()
    WRITE = auto()
    DELETE = auto()


def read_text(path: Path) -> str | None:
    """Return a file's text with its line ends; None if there is no file."""
    try:
        return read_file(path).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{path} is not UTF-8 (byte {error.start}): nothing was changed. Save it as UTF-8 first."
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{path} could not be read ({error.strerror}): nothing was changed.") from None


def backup_of(path: Path) -> Path:
    """Return the path of the copy of a file as it was before this server was added."""
    return path.with_name(path.name + SUFFIX)


@dataclass(frozen=True)
class FileChange:
    """A file before and after a change; None where it does not exist.

    `has_own_folder`: the folder goes with the file if nothing else is in it.
    """

    path: Path
    before: str | None
    after: str | None
    backup: Backup = Backup.LEAVE
    has_own_folder: bool = False

    def shown(self) -> Iterator[str]:
        """Yield the lines of a diff. It has little context, because entries of other servers may hold secrets."""
        old, new = ((text or "").splitlines() for text in (self.before, self.after))
        was, will_be = (str(self.path) if text is not None else os.devnull for text in (self.before, self.after))
        yield from difflib.unified_diff(old, new, was, will_be, n=1, lineterm="")

    def make(self) -> None:
        """Replace or delete the file. Raises ConfigurationError if it has changed since it was read."""
        if read_text(self.path) != self.before:
            raise ConfigurationError(f"{self.path} was changed by another program: run the command again.")
        if self.after is None:
            self._delete()
        else:
            if self.backup is Backup.WRITE:
                keep_copy(self.path)
            _replace_file(self.path, self.after, _mode(self.path))
        if self.backup is Backup.DELETE:
            backup_of(self.path).unlink(missing_ok=True)

    def reversed(self) -> "FileChange":
        """Return the change that takes this one back."""
        backup = {Backup.WRITE: Backup.DELETE, Backup.DELETE: Backup.WRITE}.get(self.backup, self.backup)
        return FileChange(self.path, self.after, self.before, backup, has_own_folder=self.before is None)

    def _delete(self) -> None:
        Path(os.path.realpath(self.path)).unlink()  # a link stays: it was there before the file
        if self.has_own_folder:
            with suppress(OSError):  # something else is in it
                self.path.parent.rmdir()


class Plan:
    """Changes of files, each of which may be edited in several steps."""

    def __init__(self) -> None:
        self._changes: dict[Path, FileChange] = {}

    def text(self, path: Path) -> str | None:
        """Return a file's text after the steps so far."""
        return self._changes[path].after if path in self._changes else read_text(path)

    def write(
        self, path: Path, text: str | None, backup: Backup = Backup.LEAVE, *, has_own_folder: bool = False
    ) -> None:
        """Let a file have this text; None deletes it."""
        if path not in self._changes:
            before = read_text(path)
            self._changes[path] = FileChange(path, before, before)
        change = self._changes[path]
        self._changes[path] = replace(
            change,
            after=text,
            backup=change.backup if backup is Backup.LEAVE else backup,
            has_own_folder=has_own_folder or change.has_own_folder,
        )

    def changes(self) -> list[FileChange]:
        """Return the changes in the order in which their files were first written to."""
        return [change for change in self._changes.values() if change.after != change.before]


def keep_copy(path: Path) -> None:
    """Copy a file, if there is one, beside it."""
    text = read_text(path)
    if text is not None:
        _replace_file(backup_of(path), text, _mode(path))


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else USUAL_MODE


def _replace_file(path: Path, text: str, mode: int) -> None:
    """Replace a file atomically, even behind a link. Raises ConfigurationError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft_of(path, Rules(overwrite=True)) as draft:
            with draft.open() as stream:
                os.fchmod(stream.fileno(), mode)
                stream.write(text.encode())
            draft.publish()
    except (DatabaseError, OSError) as error:
        reason = error if isinstance(error, OSError) else error.__cause__
        raise ConfigurationError(
            f"{path} could not be written ({getattr(reason, 'strerror', '')}): nothing was changed."
        ) from None
