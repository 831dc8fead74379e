"""Changes of files that belong to a client or a project: shown first, then made whole or not at all."""

import difflib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vector_memory.errors import ConfigurationError
from vector_memory.storage.disk.drafts import Rules, draft_of

BACKUP = ".before-vector-memory"
"""Ends the name of the copy beside a changed file."""

USUAL_MODE = 0o644


def read(path: Path) -> str | None:
    """Return a file's text with its line ends; None if there is no file."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ConfigurationError(f"{path} is not a file: nothing was changed.")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{path} is not UTF-8 (byte {error.start}): nothing was changed. Save it as UTF-8 first."
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{path} could not be read ({error.strerror}): nothing was changed.") from None


def backup_of(path: Path) -> Path:
    """Return the path of the copy of a file as it was before its last change."""
    return path.with_name(path.name + BACKUP)


@dataclass(frozen=True)
class FileChange:
    """A file before and after a change; None where it does not exist.

    `new_backup`: copy the old file first. `has_own_folder`: the folder goes with the file if nothing else is in it.
    """

    path: Path
    before: str | None
    after: str | None
    new_backup: bool = False
    has_own_folder: bool = False

    def shown(self) -> Iterator[str]:
        """Yield the lines of a diff. It has little context, because entries of other servers may hold secrets."""
        old, new = ((text or "").splitlines() for text in (self.before, self.after))
        was, will_be = (str(self.path) if text is not None else os.devnull for text in (self.before, self.after))
        yield from difflib.unified_diff(old, new, was, will_be, n=1, lineterm="")

    def make(self) -> None:
        """Write the file whole, or delete it. Raises ConfigurationError if it has changed since it was read."""
        if read(self.path) != self.before:
            raise ConfigurationError(f"{self.path} was changed by another program: run the command again.")
        if self.after is None:
            self._delete()
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(self.path.stat().st_mode) if self.before is not None else USUAL_MODE
        backup = backup_of(self.path)
        if self.new_backup and self.before is not None:
            _write(backup, self.before, mode)
        _write(self.path, self.after, mode)
        if backup.is_file() and read(backup) == self.after:
            backup.unlink()

    def _delete(self) -> None:
        self.path.unlink()
        if self.has_own_folder:
            with suppress(OSError):  # something else is in it
                self.path.parent.rmdir()


def _write(path: Path, text: str, mode: int) -> None:
    """Replace a file whole, also behind a link, or leave it as it was."""
    with draft_of(path, Rules(overwrite=True)) as draft:
        with draft.open() as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text.encode())
        draft.publish()
