"""What a client is: where it keeps its configuration and its sessions, and what it asks the user.

The module of each client has all of it; `registry.py` lists them.
"""

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from vector_memory.clients.reading.conversation import Transcript
from vector_memory.domain.user_files import folder_of_user
from vector_memory.errors import ConfigurationError


class InstallScope(StrEnum):
    """Where a client is to know the server: in all projects of the user, or in one."""

    USER = "user"
    PROJECT = "project"


FileOf = Callable[[Path], Path]
"""Returns a file of the client for a project."""

Entry = dict[str, Any]


def entry_with(**more: Any) -> Callable[..., Entry]:
    """Return what makes an entry of a command line, with more keys."""
    return lambda command, *words: {**more, "command": command, "args": [*words]}


plain_entry, typed_entry = entry_with(), entry_with(type="stdio")
"""Make the entries of most clients, and of those that need to know how to reach the server."""

CONNECTED = "Sessions that start from now on are connected."


@dataclass(frozen=True)
class Sessions:
    """What a client keeps of its sessions.

    `home`: its folder; None if the user has no home. `transcripts`: those of a project and of the folders below it, or
    all; more than asked for may be among them. Of a database, each session is a path below that of the file. `read`:
    what is worth remembering of one; None if nothing was said. `variable`: the one that names the folder.
    """

    home: Callable[[], Path | None]
    transcripts: Callable[[Path | None], Iterator[Path]]
    read: Callable[[Path], Transcript | None]
    variable: str = ""


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
    too. `hooks`: the file for hooks in each scope, if they can call tools; `hooks_since`: the first release in which
    they can; `silent`: events that do not tell what would be stored; `trust`: what the user must do so that they run;
    `trust_file`: where the client notes that. `instructions`: a file for those of a client that does not show the
    server's.

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
    longest_answer: str = ""
    traps: str = ""
    seen: str = ""

    def is_here(self) -> bool:
        """Return whether anything shows that the client is on this machine."""
        return self.trace() is not None

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


def sessions_below(
    home: Callable[[], Path | None], variable: str, read: Callable[[Path], Transcript | None], *patterns: str
) -> Sessions:
    """Return the sessions in the files of a client with these names, whatever project they are about."""

    def transcripts(_project: Path | None) -> Iterator[Path]:
        folder = home()
        for pattern in patterns if folder else ():
            yield from sorted(path for path in Path(folder or "").glob(pattern) if path.is_file())

    return Sessions(home, transcripts, read, variable)
