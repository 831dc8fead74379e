"""What has to change to connect a client, or to disconnect it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vector_memory.cli.clients import ignoring
from vector_memory.cli.clients.catalogue import Client, Scope
from vector_memory.cli.clients.changes import FileChange, backup_of, read
from vector_memory.cli.clients.claude_command import CommandChange, require_claude
from vector_memory.cli.clients.launching import NAME, merged
from vector_memory.errors import ConfigurationError

Change = FileChange | CommandChange


@dataclass(frozen=True)
class Place:
    """A client's configuration in one scope. `project`: the folder for the scope of a project."""

    client: Client
    scope: Scope
    project: Path

    @property
    def file(self) -> Path:
        """The client's file."""
        return self.client.files[self.scope](self.project)

    def entry(self, snippet: str = "") -> dict[str, Any] | None:
        """Return the entry of this server; None if there is none.

        Raises ConfigurationError, with the snippet to paste, if the file has a mistake.
        """
        text = read(self.file) or ""
        if self.scope in self.client.by_command:
            return _of_claude(self.file, text)
        with explained(self.file, snippet):
            return self.client.format.entry(text, self.client.section, NAME)  # type: ignore[no-any-return]

    def put(self, text: str, entry: dict[str, Any]) -> str:
        """Return the text of the client's file with this entry."""
        return str(self.client.format.put(text, self.client.section, NAME, entry))


def installation(place: Place, entry: dict[str, Any]) -> list[Change]:
    """Return the changes that connect a client; none if it is connected in this way."""
    snippet = place.client.format.snippet(place.client.section, NAME, entry)
    there = place.entry(snippet)
    wanted = merged(there, entry)
    if there == wanted:
        return []
    if place.scope in place.client.by_command:
        require_claude()
        return [CommandChange(NAME, there, wanted)]
    before = read(place.file)
    is_known, original = _original(place, before, there)
    with explained(place.file, snippet):
        after = place.put((original or "") if is_known else (before or ""), wanted)
    change = FileChange(place.file, before, after, new_backup=not is_known or there is None)
    private = place.file if is_known and original is None else backup_of(place.file)
    # The rules come first: if this process is killed in between, the file is never committed by mistake.
    return [*_rules(place, ignoring.ignored, private), change]


def removal(place: Place) -> list[Change]:
    """Return the changes that disconnect a client; none if it is not connected."""
    there = place.entry()
    if there is None:
        return []
    if place.scope in place.client.by_command:
        require_claude()
        return [CommandChange(NAME, there, None)]
    before = read(place.file)
    is_known, original = _original(place, before, there)
    if is_known:
        is_own_folder = place.file.parent not in {place.project, Path.home()}
        change = FileChange(place.file, before, original, has_own_folder=is_own_folder)
        private = place.file if original is None else backup_of(place.file)
        return [change, *_rules(place, ignoring.not_ignored, private)]
    with explained(place.file):
        after = place.client.format.remove(before or "", place.client.section, NAME)
    return [FileChange(place.file, before, after, new_backup=True)]


def _original(place: Place, text: str | None, there: dict[str, Any] | None) -> tuple[bool, str | None]:
    """Return whether it is known what the file was before this server was added, and what it was."""
    if there is None:
        return True, text
    backup = read(backup_of(place.file))
    try:
        if backup is not None and place.client.format.entry(backup, place.client.section, NAME) is not None:
            return False, None
        return place.put(backup or "", there) == text, backup
    except ConfigurationError:
        return False, None


def _rules(place: Place, changed: Any, private: Path) -> list[FileChange]:
    """Return the change of the project's .gitignore for a file with paths of this machine."""
    if place.scope is not Scope.PROJECT or not ignoring.is_in_repository(place.project):
        return []
    file = place.project / ignoring.NAME
    before = read(file)
    after = changed(before, f"/{private.relative_to(place.project).as_posix()}")
    return [FileChange(file, before, after)] if after != before else []


def _of_claude(file: Path, text: str) -> dict[str, Any] | None:
    try:
        content = json.loads(text if text.strip() else "{}")
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{file}, line {error.lineno}, column {error.colno}: {error.msg}. Nothing was changed."
        ) from None
    except (RecursionError, ValueError):
        raise ConfigurationError(f"{file} cannot be read as JSON. Nothing was changed.") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{file} must hold an object. Nothing was changed.")
    servers = content.get("mcpServers")
    found = servers.get(NAME) if isinstance(servers, dict) else None
    return dict(found) if isinstance(found, dict) else None


@contextmanager
def explained(file: Path, snippet: str = "") -> Iterator[None]:
    """Add to an error in the file which file it is, and what can be pasted instead."""
    try:
        yield
    except ConfigurationError as error:
        paste = f" To connect the client by hand, put this into the file:\n\n{snippet}" if snippet else ""
        raise ConfigurationError(f"{file}, {error}. Nothing was changed.{paste}") from None
