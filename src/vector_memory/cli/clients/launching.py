"""How a client starts the server: with absolute paths, because it may know neither the user's PATH nor folder."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vector_memory.cli.clients.catalogue import Client, InstallScope
from vector_memory.domain.user_files import folder_of_user
from vector_memory.errors import ConfigurationError

NAME = "vector-memory"
"""The name of the server in every client's configuration."""

OF_CACHE = ("archive-v", "builds-v", "environments-v")
"""Beginnings of the names of the folders in which uv keeps environments that it may delete."""


PATIENCE = 30
"""Seconds for a client to say its version; it takes a tenth of one."""


def shared_memory() -> Path:
    """Return the memory for clients that have no projects. Raises ConfigurationError if the user has no home."""
    home = folder_of_user("")
    if home is None:
        raise ConfigurationError("There is no home folder for the memory: name a file with --database-path.")
    return home / ".vector-memory" / "memory.db"


def program() -> list[str]:
    """Return the command of this installation. Raises ConfigurationError if it may vanish."""
    if any(part.startswith(OF_CACHE) for part in Path(sys.prefix).parts):
        raise ConfigurationError(
            "This copy of vector-memory is in the cache of uv and may vanish: install it first, for example with "
            "`uv tool install`."
        )
    script = Path(sys.executable).absolute().with_name(NAME)
    if not script.is_file():
        return [sys.executable, "-P", "-m", "vector_memory"]
    known = shutil.which(NAME)
    return [str(Path(known).absolute() if known and Path(known).samefile(script) else script)]


def entry_for(client: Client, scope: InstallScope, flags: list[str], memory: Sequence[str]) -> dict[str, Any]:
    """Return a client's entry for the server.

    `flags`: more flags for `serve`. `memory`: the flags that name the memory; none for the project's own, or for the
    shared one where the client has no projects.
    """
    place = memory or client.place
    if not memory and scope in client.shared:
        place = ("--database-path", str(shared_memory()))
    command, *words = program()
    transport = {"type": "stdio"} if client.names_transport else {}
    return {**transport, "command": command, "args": [*words, "serve", *flags, *place]}


def merged_entry(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Return the new entry with what the user added to the old one, such as variables and permissions of tools."""
    return {**old, **new} if old and "command" in old else new


def require_hooks(client: Client) -> None:
    """Raise ConfigurationError if the client is too old for hooks that call tools: it ignores a file that has some.

    A client that cannot be asked is taken for a recent one.
    """
    version = _version(client.command)
    if version and _parts_of_version(version) < _parts_of_version(client.hooks_since):
        raise ConfigurationError(
            f"{client.title} {version} does not support hooks that call tools, and ignores files with such hooks: "
            f"update it to {client.hooks_since} or later, or add --tools-only."
        )


def _version(command: str) -> str | None:
    if shutil.which(command) is None:
        return None
    try:
        said = subprocess.run(  # noqa: S603 - the words are this program's own
            [command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+\.\d+\.\d+", said)
    return found[0] if found else None


def _parts_of_version(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
