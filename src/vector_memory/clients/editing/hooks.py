"""The hooks in a client's settings: they call the running server, which stores and recalls without being asked.

When its user trusts hooks, Codex notes that in its configuration: a table for each, named by the hook's place.
"""

import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from vector_memory.clients import hook
from vector_memory.clients.client import CommandHooks
from vector_memory.clients.editing import toml_file
from vector_memory.clients.events import EVENTS, HOOKS
from vector_memory.errors import ConfigurationError

OURS = "vector_memory/clients/hook.py"
"""What every command of ours has."""

TRUST = ("hooks", "state")

UPPER = re.compile(r"\B(?=[A-Z])")

Handlers = dict[str, dict[str, Any]]
"""A hook for each event."""


class HookPosition(NamedTuple):
    """Where a hook is: in a group of an event."""

    event: str
    group: int
    number: int


def handlers_for(server: str, silent: Collection[str] = ()) -> Handlers:
    """Return the hooks that call the tools of a server. `silent`: events that the client does not describe fully."""
    return {
        name: {
            "type": "mcp_tool",
            "server": server,
            "tool": event.tool,
            "input": {field: f"${{{field}}}" for field in event.fields},
            "timeout": event.timeout,
        }
        for name, event in EVENTS.items()
        if name not in silent
    }


def commands_for(client: str, hooks: CommandHooks, memory: Sequence[str]) -> Handlers:
    """Return the hooks that run a command. `memory`: the flags that name the memory."""
    return {
        theirs: {"type": "command", "command": command_of(client, event, memory), **hooks.more}
        for event, theirs in hooks.events.items()
    }


def command_of(client: str, event: str, memory: Sequence[str]) -> str:
    """Return what a shell runs for an event. It succeeds silently even if this installation is gone."""
    words = [sys.executable, "-I", "-S", hook.__file__, client, event, *memory]
    return f"{shlex.join(words)} 2>/dev/null || true"


def found(content: Mapping[str, Any], server: str) -> Handlers:
    """Return the hooks of a server that are in a client's settings."""
    return {place.event: handler for place, handler in _ours(content, server)}


def places(content: Mapping[str, Any], server: str) -> list[HookPosition]:
    """Return where the hooks of a server are in a client's settings."""
    return [place for place, _ in _ours(content, server)]


def merged_hooks(old: Handlers, new: Handlers) -> Handlers:
    """Return the new hooks with what the user changed in the old ones, such as the timeout."""
    ours = ("input", "command")
    return {
        event: handler | old.get(event, {}) | {name: handler[name] for name in ours if name in handler}
        for event, handler in new.items()
    }


def added(content: Mapping[str, Any], server: str, handlers: Handlers) -> dict[str, Any]:
    """Return the settings with these hooks, each in place of the one that is there or in a group of its own."""
    changed = deepcopy(dict(content))
    there = {place.event: place for place in places(content, server)}
    hooks = changed.setdefault("hooks", {})
    for event, handler in handlers.items():
        if event in there:
            hooks[event][there[event].group]["hooks"][there[event].number] = handler
        else:
            hooks.setdefault(event, []).append({"hooks": [handler]})
    return changed


def removed(content: Mapping[str, Any], server: str, original: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without the hooks of a server, and without the lists that are empty now and were not there.

    `original`: the settings before the hooks were added.
    """
    changed = deepcopy(dict(content))
    hooks = _hooks(changed)
    for event, group, number in reversed(places(content, server)):
        del hooks[event][group]["hooks"][number]
        if not hooks[event][group]["hooks"]:
            del hooks[event][group]
        if not hooks[event] and event not in _hooks(original):
            del hooks[event]
    if not hooks and "hooks" not in original:
        changed.pop("hooks", None)
    return changed


def _ours(content: Mapping[str, Any], server: str) -> Iterator[tuple[HookPosition, dict[str, Any]]]:
    for event, groups in _hooks(content).items():
        if not isinstance(groups, list):
            if event in EVENTS:
                raise ConfigurationError(f'"hooks.{event}" must be a list')
            continue  # a setting of the client
        for group_number, group in enumerate(groups):
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for number, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                if isinstance(handler, dict) and _is_ours(handler, server):
                    yield HookPosition(event, group_number, number), handler


def _is_ours(handler: Mapping[str, Any], server: str) -> bool:
    if handler.get("type") == "command":
        return OURS in str(handler.get("command"))
    return (handler.get("type"), handler.get("server")) == ("mcp_tool", server) and handler.get("tool") in HOOKS


def _hooks(content: Mapping[str, Any]) -> dict[str, Any]:
    hooks = content.get("hooks", {})
    if not isinstance(hooks, dict):
        raise ConfigurationError('"hooks" must be an object')
    return hooks


def without_trust(text: str, hooks_file: Path, there: Sequence[HookPosition]) -> str:
    """Return Codex's configuration without what it notes about the hooks at these places.

    What cannot be taken out alone stays: Codex asks again when another hook has this place.
    """
    ends = {f":{UPPER.sub(r'_', event).lower()}:{group}:{number}" for event, group, number in there}
    noted = _noted(text)
    with suppress(ConfigurationError):
        for key in noted or ():
            file, *_ = key.rsplit(":", 3)
            if key.removeprefix(file) in ends and Path(file).resolve() == hooks_file.resolve():
                text = toml_file.without_table(text, *TRUST, key)
        if noted and not _noted(text):
            text = toml_file.without_table(text, *TRUST)
    return text


def _noted(text: str) -> dict[str, Any] | None:
    """Return the tables; None for a configuration without them, or with mistakes: Codex does not read that either."""
    try:
        return toml_file.entry(text, *TRUST)
    except ConfigurationError:
        return None
