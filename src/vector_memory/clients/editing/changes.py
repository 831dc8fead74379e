"""Changes to files of a client or a project: shown first, then made completely or not at all."""

import difflib
import json
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Any

from vector_memory.clients.editing.json_file import load_plain
from vector_memory.domain.user_files import read_file
from vector_memory.errors import ConfigurationError, DatabaseError, ValidationError
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
    except (DatabaseError, ValidationError, OSError) as error:
        reason = error if isinstance(error, OSError) else error.__cause__
        raise ConfigurationError(
            f"{path} could not be written ({getattr(reason, 'strerror', '') or error}): nothing was changed."
        ) from None


# Changes Claude Code's file of the user through `claude mcp`: running sessions write that file too.

PATIENCE = 60
"""Seconds for one command; it takes half a second."""


OWN_WORDS = ("vector-memory", "vector_memory", "main.py")
"""One of them is in every command line that starts this server."""


def is_of_server(entry: Mapping[str, Any] | None) -> bool:
    """Return whether an entry of this server's name starts this server, as far as its words tell."""
    said = json.dumps({key: value for key, value in (entry or {}).items() if key != "name"}, default=str)
    return any(word in said for word in OWN_WORDS)


@dataclass(frozen=True)
class CommandChange:
    """An entry of Claude Code's file before and after a change; None where there is none."""

    path: Path
    name: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    def shown(self) -> Iterator[str]:
        """Yield the lines of a diff of the entry, and the commands that make the change."""
        old, new = (
            json.dumps({self.name: entry}, indent=2, ensure_ascii=False).splitlines() if entry else []
            for entry in (self.before, self.after)
        )
        yield from difflib.unified_diff(old, new, str(self.path), str(self.path), lineterm="")
        yield ""
        yield from (f"$ {shlex.join(words)}" for words in self.commands())

    def commands(self) -> list[list[str]]:
        """Return the command lines. An entry is replaced by removing it first, as Claude Code wants it."""
        remove = ["claude", "mcp", "remove", "--scope", "user", self.name]
        return [*([remove] if self.before else []), *([self._adding(self.after)] if self.after else [])]

    def make(self) -> None:
        """Run the commands. Raises ConfigurationError if one fails; what was removed before is then added again."""
        if not is_of_server(self.before):
            keep_copy(self.path)
        for number, words in enumerate(self.commands()):
            try:
                _run(words)
            except ConfigurationError:
                if number and self.before:
                    _run(self._adding(self.before))
                if not is_of_server(self.before):
                    backup_of(self.path).unlink(missing_ok=True)
                raise
        if not is_of_server(self.after):
            self._restore()

    def reversed(self) -> "CommandChange":
        """Return the change that takes this one back."""
        return CommandChange(self.path, self.name, self.after, self.before)

    def _restore(self) -> None:
        """Write the file as it was before the entry was added, unless more than the entry has changed since."""
        backup, text = read_text(backup_of(self.path)), read_text(self.path)
        with suppress(ValueError, TypeError):
            if backup is not None and text and load_plain(text) == {"mcpServers": {}} | load_plain(backup):
                FileChange(self.path, text, backup).make()
        backup_of(self.path).unlink(missing_ok=True)

    def _adding(self, entry: Mapping[str, Any]) -> list[str]:
        return ["claude", "mcp", "add-json", "--scope", "user", self.name, json.dumps(entry, ensure_ascii=False)]


def require_claude() -> None:
    """Raise ConfigurationError unless the command is there."""
    if shutil.which("claude") is None:
        raise ConfigurationError(
            "The command `claude` was not found: install Claude Code or add it to PATH, or use --project, which needs "
            "no command."
        )


def plugin_in(settings: Iterable[str | None], name: str) -> str | None:
    """Return the enabled plugin of this name, with its catalog; None if there is none.

    `settings`: those that decide last come last. Settings that are not JSON enable nothing.
    """
    enabled: dict[str, Any] = {}
    for text in settings:
        with suppress(ValueError, AttributeError, TypeError):
            enabled |= json.loads(text or "{}").get("enabledPlugins", {})
    return next((plugin for plugin in enabled if enabled[plugin] and plugin.split("@")[0] == name), None)


def _run(words: list[str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - the words are this program's own
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(
            f"`{shlex.join(words[:3])}` failed ({type(error).__name__}): run it by hand."
        ) from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise ConfigurationError(f"`{shlex.join(words[:3])}` failed: {said}")
