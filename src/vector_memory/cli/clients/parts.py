"""What this server has in the files of a client: an entry that starts it, and hooks that call it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vector_memory.cli.clients import hooks, json_file, launching
from vector_memory.cli.clients.catalogue import Client, Scope
from vector_memory.cli.clients.changes import backup_of, read
from vector_memory.cli.clients.json_file import content_of
from vector_memory.cli.clients.launching import NAME
from vector_memory.errors import ConfigurationError

Held = dict[str, Any]


@dataclass(frozen=True)
class ClientConfiguration:
    """A client's configuration in one scope. `project`: the folder for the scope of a project."""

    client: Client
    scope: Scope
    project: Path

    @property
    def file(self) -> Path:
        """The client's file with its servers."""
        return self.client.files[self.scope](self.project)

    @property
    def hooks_file(self) -> Path | None:
        """The client's file with its hooks; None for a client whose hooks call no tools."""
        named = self.client.hooks.get(self.scope)
        return named(self.project) if named else None


@dataclass(frozen=True)
class Part:
    """What this server has in one file of a client.

    `found` returns it from the file's text, or None. `put` returns the text with it. `remove` returns the text without
    it, and takes the text from before it was added, as far as that is known. `merged` keeps what the user added to an
    old one in a new one. `by_hand` says what to do with a file that cannot be edited. `is_plain`: whether the client
    reads JSON without comments only.
    """

    file: Path
    found: Callable[[str], Held | None]
    put: Callable[[str, Held], str]
    remove: Callable[[str, str], str]
    merged: Callable[[Held, Held], Held]
    by_hand: Callable[[str, Held], str]
    is_plain: bool

    def check(self, text: str) -> None:
        """Raise ConfigurationError if the client cannot read a text that can be edited."""
        if self.is_plain:
            json_file.require_plain(text)


def server_entry(place: ClientConfiguration) -> Part:
    """Return the entry that starts the server."""
    form, section = place.client.format, place.client.section
    return Part(
        place.file,
        found=lambda text: form.entry(text, section, NAME),
        put=lambda text, wanted: form.put(text, section, NAME, wanted),
        remove=lambda text, original: form.remove(text, section, NAME, original),
        merged=launching.merged,
        by_hand=lambda text, wanted: form.by_hand(text, section, NAME, wanted),
        is_plain=form is json_file and not place.client.reads_comments,
    )


def hook_calls(file: Path) -> Part:
    """Return the hooks that call the server's tools."""

    def remove(text: str, original: str) -> str:
        return json_file.rewritten(text, hooks.removed(content_of(text), NAME, content_of(original)))

    return Part(
        file,
        found=lambda text: hooks.found(content_of(text), NAME) or None,
        put=lambda text, wanted: json_file.rewritten(text, hooks.added(content_of(text), NAME, wanted)),
        remove=remove,
        merged=hooks.merged,
        by_hand=lambda _, wanted: f"put this into the file:\n\n{json.dumps(hooks.added({}, NAME, wanted), indent=2)}",
        is_plain=True,
    )


def original_of(part: Part, text: str, there: Held) -> tuple[bool, str | None]:
    """Return whether it is known what the file was before this part was added, and what it was, if it is there."""
    backup = read(backup_of(part.file))
    try:
        if backup is not None and part.found(backup) is not None:
            return False, None
        return part.put(backup or "", there) == text, backup
    except ConfigurationError:
        return False, None


@contextmanager
def explained(part: Part, text: str, wanted: Held | None = None) -> Iterator[None]:
    """Add to an error in a file which file it is, and what the user can do instead."""
    try:
        yield
    except ConfigurationError as error:
        instead = f" To connect the client by hand, {part.by_hand(text, wanted)}" if wanted else ""
        raise ConfigurationError(f"{part.file}, {error}. Nothing was changed.{instead}") from None
