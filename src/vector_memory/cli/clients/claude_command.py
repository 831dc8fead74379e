"""Changes Claude Code's file of the user through `claude mcp`: running sessions write that file too."""

import difflib
import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vector_memory.errors import ConfigurationError

PATIENCE = 60
"""Seconds for one command; it takes half a second."""


@dataclass(frozen=True)
class CommandChange:
    """An entry before and after a change; None where there is none."""

    name: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    def shown(self) -> Iterator[str]:
        """Yield the lines of a diff of the entry, and the commands that make the change."""
        old, new = (_rendered(self.name, entry) for entry in (self.before, self.after))
        yield from difflib.unified_diff(old, new, "before", "after", lineterm="")
        yield ""
        yield from (f"$ {shlex.join(words)}" for words in self.commands())

    def commands(self) -> list[list[str]]:
        """Return the command lines. An entry is replaced by removing it first, as Claude Code wants it."""
        remove = ["claude", "mcp", "remove", "--scope", "user", self.name]
        return [*([remove] if self.before else []), *([self._adding(self.after)] if self.after else [])]

    def make(self) -> None:
        """Run the commands. Raises ConfigurationError if one fails; what was removed before is then added again."""
        for number, words in enumerate(self.commands()):
            try:
                _run(words)
            except ConfigurationError:
                if number and self.before:
                    _run(self._adding(self.before))
                raise

    def _adding(self, entry: Mapping[str, Any]) -> list[str]:
        return ["claude", "mcp", "add-json", "--scope", "user", self.name, json.dumps(entry, ensure_ascii=False)]


def require_claude() -> None:
    """Raise ConfigurationError unless the command is there."""
    if shutil.which("claude") is None:
        raise ConfigurationError(
            "The command `claude` was not found: install Claude Code or add it to PATH, or use --project, which needs "
            "no command."
        )


def has_plugin(settings: str | None, name: str) -> bool:
    """Return whether Claude Code's settings enable a plugin of this name. Settings that are not JSON enable nothing."""
    try:
        enabled = json.loads(settings or "{}").get("enabledPlugins", {})
        return any(plugin.split("@")[0] == name for plugin, is_enabled in enabled.items() if is_enabled)
    except (ValueError, AttributeError):
        return False


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


def _rendered(name: str, entry: Mapping[str, Any] | None) -> list[str]:
    return json.dumps({name: entry}, indent=2, ensure_ascii=False).splitlines() if entry else []
