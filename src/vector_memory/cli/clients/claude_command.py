"""Changes Claude Code's file of the user through `claude mcp`: running sessions write that file too."""

import difflib
import json
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vector_memory.cli.clients.changes import FileChange, backup_of, keep_copy, read_text
from vector_memory.cli.clients.json_file import load_plain
from vector_memory.errors import ConfigurationError

PATIENCE = 60
"""Seconds for one command; it takes half a second."""


@dataclass(frozen=True)
class CommandChange:
    """An entry of Claude Code's file before and after a change; None where there is none."""

    file: Path
    name: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    def shown(self) -> Iterator[str]:
        """Yield the lines of a diff of the entry, and the commands that make the change."""
        old, new = (_entry_lines(self.name, entry) for entry in (self.before, self.after))
        yield from difflib.unified_diff(old, new, str(self.file), str(self.file), lineterm="")
        yield ""
        yield from (f"$ {shlex.join(words)}" for words in self.commands())

    def commands(self) -> list[list[str]]:
        """Return the command lines. An entry is replaced by removing it first, as Claude Code wants it."""
        remove = ["claude", "mcp", "remove", "--scope", "user", self.name]
        return [*([remove] if self.before else []), *([self._adding(self.after)] if self.after else [])]

    def make(self) -> None:
        """Run the commands. Raises ConfigurationError if one fails; what was removed before is then added again."""
        if self.before is None:
            keep_copy(self.file)
        for number, words in enumerate(self.commands()):
            try:
                _run(words)
            except ConfigurationError:
                if number and self.before:
                    _run(self._adding(self.before))
                raise
        if self.after is None:
            self._restore()

    def reversed(self) -> "CommandChange":
        """Return the change that takes this one back."""
        return CommandChange(self.file, self.name, self.after, self.before)

    def _restore(self) -> None:
        """Write the file as it was before the entry was added, unless more than the entry has changed since."""
        backup, text = read_text(backup_of(self.file)), read_text(self.file)
        with suppress(ValueError, TypeError):
            if backup is not None and text and load_plain(text) == {"mcpServers": {}} | load_plain(backup):
                FileChange(self.file, text, backup).make()
        backup_of(self.file).unlink(missing_ok=True)

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


def _entry_lines(name: str, entry: Mapping[str, Any] | None) -> list[str]:
    return json.dumps({name: entry}, indent=2, ensure_ascii=False).splitlines() if entry else []
