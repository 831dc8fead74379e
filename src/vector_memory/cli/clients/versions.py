"""Which release of a client is installed."""

import re
import shutil
import subprocess

from vector_memory.cli.clients.catalogue import Client
from vector_memory.errors import ConfigurationError

PATIENCE = 30
"""Seconds; a client takes a tenth of one."""


def require_hooks(client: Client) -> None:
    """Raise ConfigurationError if the client is too old for hooks that call tools: it ignores a file that has some.

    A client that cannot be asked is taken for a recent one.
    """
    version = _version(client.command)
    if version and _numbers(version) < _numbers(client.hooks_since):
        raise ConfigurationError(
            f"{client.title} {version} knows no hooks that call tools, and ignores a file that has some: update it to "
            f"{client.hooks_since} or later, or add --tools-only."
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


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
