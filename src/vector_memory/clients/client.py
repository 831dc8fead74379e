"""What a client is: where it keeps its configuration and its sessions, and what it asks the user.

The module of each client has all of it; `registry.py` lists them.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vector_memory.clients.reading.conversation import Transcript
from vector_memory.clients.reading.lines import FormatError
from vector_memory.domain import MemoryKind
from vector_memory.domain.user_files import folder_of_user
from vector_memory.errors import ConfigurationError


class InstallScope(StrEnum):
    """Where a client is to know the server: in all projects of the user, or in one."""

    USER = "user"
    PROJECT = "project"


def context_of_claude(event: str, context: str) -> str:
    """Return context for an agent in the form of Claude Code."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}})


@dataclass(frozen=True)
class CommandHooks:
    """The hooks of a client that run a command, which is `hook.py`.

    `events`: for each event of `hook.py` the client's. `agent`: who answers. `fields`: where the client says what the
    server's hooks read, such as `turn.outputText`; `find` returns more. `clean` returns a prompt without what the
    client adds to it. `answer` returns what the client reads, the context for its agent; None: it reads nothing.
    `more`: what a hook has beside its command. `texts`: the files that the client's folder of hooks gets, from the
    commands of its events; without it, the hooks are in a file of settings.
    """

    agent: str
    events: Mapping[str, str]
    fields: Mapping[str, str]
    find: Callable[[Mapping[str, Any]], dict[str, str]] | None = None
    answer: Callable[[str, str], str] | None = context_of_claude
    clean: Callable[[str], str] = str
    more: Mapping[str, Any] = field(default_factory=dict)
    texts: Callable[[Mapping[str, str]], dict[str, str]] | None = None

    def given(self, reported: Mapping[str, Any]) -> dict[str, str]:
        """Return the fields for the server's hooks."""
        found: dict[str, Any] = {name: value_at(reported, place) for name, place in self.fields.items()}
        given = {name: value for name, value in found.items() if isinstance(value, str)}
        if "prompt" in given:
            given["prompt"] = self.clean(given["prompt"])
        return given | self.find(reported) if self.find else given


def value_at(reported: Any, place: str) -> Any:
    """Return what is at a place of an object, such as `turn.outputText`; None if there is nothing."""
    for name in place.split("."):
        reported = reported.get(name) if isinstance(reported, dict) else None
    return reported


ATTEMPTS, PAUSE_SECONDS = 10, 0.15
"""A client may write its transcript a moment after it has called a hook."""


def last_answer(read: Callable[[Path], Transcript | None], transcript: object) -> dict[str, str]:
    """Return the answer with which a transcript ends, for a client whose hooks do not say it. Waits for it a moment."""
    for _ in range(ATTEMPTS if isinstance(transcript, str) else 0):
        with suppress(OSError, FormatError):
            found = read(Path(str(transcript)))
            said = [one for one in found.said if one.kind is not MemoryKind.REPORT] if found else []
            last = said[-1] if said else None
            if last and last.kind is MemoryKind.WORKING_MEMORY:
                return {"last_assistant_message": last.content}
        time.sleep(PAUSE_SECONDS)
    return {}


FileOf = Callable[[Path], Path]
"""Returns a file of the client for a project."""

Entry = dict[str, Any]


def entry_with(**more: Any) -> Callable[..., Entry]:
    """Return what makes an entry of a command line, with more keys."""
    return lambda command, *words: {**more, "command": command, "args": [*words]}


plain_entry, typed_entry = entry_with(), entry_with(type="stdio")
"""Make the entries of most clients, and of those that need to know how to reach the server."""

CONNECTED = "Sessions that start from now on are connected."


class ClientHome(NamedTuple):
    """A client's folder: `below` the one that a variable names, or else below a `folder` of the user's home."""

    folder: str
    variable: str
    below: str = ""

    def found(self) -> Path | None:
        """Return the folder; None if the user has no home."""
        folder = folder_of_user(self.folder, self.variable)
        return folder and folder / self.below

    def file(self, name: str) -> dict[InstallScope, FileOf]:
        """Return a file in the folder, for all projects of the user."""
        return in_home(self.folder, f"{self.below}/{name}".lstrip("/"), self.variable)


@dataclass(frozen=True)
class Sessions:
    """What a client keeps of its sessions.

    `transcripts`: those of a project and of the folders below it, or all; more than asked for may be among them. Of a
    database, each session is a path below that of the file. `read`: what is worth remembering of one; None if nothing
    was said.
    """

    home: ClientHome
    transcripts: Callable[[Path | None], Iterator[Path]]
    read: Callable[[Path], Transcript | None]


class OwnMemory(NamedTuple):
    """A folder in which a client keeps what it remembers by itself: all its Markdown files, or only `files`.

    `of`: the client's folder or the project, out of which no link may lead. `project`: whether it is about that.
    """

    of: Path
    folder: str
    files: tuple[str, ...] = ()
    project: bool = False

    def is_real(self) -> bool:
        """Return whether no link leads out of `of`."""
        return os.path.realpath(self.of / self.folder) == str(Path(os.path.realpath(self.of)) / self.folder)


@dataclass(frozen=True)
class Client:
    """A client, and for each scope that it has its file and what the user must do there.

    `section`: the object, table or list of the file that holds the servers. `entry`: what the file says of a server
    that a command line starts. `reads_comments`: whether the client reads a JSON file with comments. `place`: flags of
    `serve` for the project's memory, where the client does not start the server in the project. `shared`: scopes in
    which the client says nothing about the project, so that all projects have one memory. `by_command`: scopes whose
    file only the client's own command may write, because running sessions write it too. `trusted`: what an entry needs
    so that the client does not ask before each call, and `untrusted` what it does without.

    `commands`: those that show that the client is on this machine. `inherits`: clients whose servers this one starts,
    too. `hooks`: the file or folder for hooks in each scope; `hooks_since`: the first release in which they can call
    tools; `silent`: events that do not tell what would be stored; `trust`: what the user must do so that they run;
    `trust_file`: where the client notes that. `instructions`: a file for those of a client that does not show the
    server's.

    `command_hooks`: hooks that run a command. `own_memories`: where it keeps what it remembers by itself, of all
    projects and of one. `remembers`: the setting that turns that off, if it is on by default and the model is told to
    prefer it.

    `longest_answer`: how much of an answer reaches the model; `traps`: what else to know. `seen`: the release that the
    tests drive; none if it was never run here.
    """

    title: str
    files: Mapping[InstallScope, FileOf]
    section: str = "mcpServers"
    approval: Mapping[InstallScope, str] = field(default_factory=lambda: dict.fromkeys(InstallScope, CONNECTED))
    format: Literal["json", "toml", "yaml", "yaml list"] = "json"
    entry: Callable[..., Entry] = plain_entry
    reads_comments: bool = False
    place: tuple[str, ...] = ()
    shared: frozenset[InstallScope] = frozenset()
    by_command: frozenset[InstallScope] = frozenset()
    trusted: Mapping[str, Any] = field(default_factory=dict)
    untrusted: str = ""
    commands: tuple[str, ...] = ()
    inherits: tuple[str, ...] = ()
    hooks: Mapping[InstallScope, FileOf] = field(default_factory=dict)
    hooks_since: str = ""
    silent: frozenset[str] = frozenset()
    trust: str = ""
    trust_file: Callable[[], Path] | None = None
    instructions: str = ""
    checked_with: str = ""
    default: InstallScope = InstallScope.USER
    sessions: Sessions | None = None
    command_hooks: CommandHooks | None = None
    own_memories: Callable[[Path], Iterable[OwnMemory]] = lambda _project: ()
    remembers: str = ""
    longest_answer: str = ""
    traps: str = ""
    seen: str = ""

    def trace(self) -> Path | None:
        """Return what shows that the client is on this machine, or was: its command, or its file or folder."""
        home = folder_of_user("")
        file = self.files[InstallScope.USER](Path()) if InstallScope.USER in self.files and home else None
        left = [] if file is None else [file, *([] if file.parent == home else [file.parent])]
        commands = map(Path, filter(None, map(shutil.which, self.commands)))
        return next(chain(commands, filter(Path.exists, left)), None)


def in_home(folder: str, name: str, variable: str = "") -> dict[InstallScope, FileOf]:
    """Return a file in a folder of the user, which a variable may name."""
    return {InstallScope.USER: lambda _project: home_of(folder, variable or "HOME") / name}


def in_configuration(name: str) -> dict[InstallScope, FileOf]:
    """Return a file in the user's folder for configuration."""
    return in_home(".config", name, "XDG_CONFIG_HOME")


def in_project(name: str) -> dict[InstallScope, FileOf]:
    """Return a file in the project."""
    return {InstallScope.PROJECT: lambda project: project / name}


def home_of(folder: str, variable: str = "HOME") -> Path:
    """Return the folder that a variable names, or else a folder of the user's home.

    Raises ConfigurationError if the user has no home.
    """
    found = folder_of_user(folder, "" if variable == "HOME" else variable)
    if found is None:
        raise ConfigurationError(
            f"No home directory with the client's configuration: set {variable}, or use --project if the client has "
            "projects."
        )
    return found


def application_data(name: str) -> Path:
    """Return the folder where desktop applications of this system keep their configuration."""
    if sys.platform == "darwin":
        return home_of("") / "Library" / "Application Support" / name
    return home_of(".config", "XDG_CONFIG_HOME") / name


def sessions_below(home: ClientHome, read: Callable[[Path], Transcript | None], *patterns: str) -> Sessions:
    """Return the sessions in the files of a client with these names, whatever project they are about."""

    def transcripts(_project: Path | None) -> Iterator[Path]:
        folder = home.found()
        for pattern in patterns if folder else ():
            yield from sorted(path for path in Path(folder or "").glob(pattern) if path.is_file())

    return Sessions(home, transcripts, read)
