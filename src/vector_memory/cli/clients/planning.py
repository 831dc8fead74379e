"""What has to change to connect a client, or to disconnect it."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vector_memory.cli.clients import hooks, json_file
from vector_memory.cli.clients.catalogue import Scope
from vector_memory.cli.clients.changes import Backup, FileChange, Plan, backup_of, read
from vector_memory.cli.clients.claude_command import CommandChange, require_claude
from vector_memory.cli.clients.launching import NAME, merged
from vector_memory.cli.clients.parts import (
    ClientConfiguration,
    Held,
    Part,
    explained,
    hook_calls,
    original_of,
    server_entry,
)
from vector_memory.errors import ConfigurationError
from vector_memory.settings.repository import repository_of

IGNORE_FILE = ".gitignore"
REMARK = "# paths of this machine (vector-memory install)"

Change = FileChange | CommandChange


def installation(place: ClientConfiguration, entry: dict[str, Any], *, with_hooks: bool) -> list[Change]:
    """Return the changes that connect a client; none if it is connected in this way.

    `with_hooks`: whether the client, if its hooks can, is to store and recall without being asked.
    """
    plan, command = Plan(), None
    if place.scope in place.client.by_command:
        command = _command(place, entry)
    else:
        _add(plan, place, server_entry(place), entry)
    if place.hooks_file and with_hooks:
        _add(plan, place, hook_calls(place.hooks_file), hooks.handlers_for(NAME, place.client.silent))
    elif place.hooks_file:
        _take_out_hooks(plan, place, place.hooks_file)
    # The rules come first: if this process is killed in between, no file is committed by mistake.
    files = sorted(plan.changes(), key=lambda change: change.path != _rules_file(place))
    return [*([command] if command else []), *files]


def removal(place: ClientConfiguration) -> list[Change]:
    """Return the changes that disconnect a client; none if it is not connected."""
    plan, command = Plan(), None
    if place.hooks_file:
        _take_out_hooks(plan, place, place.hooks_file)
    if place.scope in place.client.by_command:
        command = _command(place, None)
    else:
        _take_out(plan, place, server_entry(place))
    files = sorted(plan.changes(), key=lambda change: change.path == _rules_file(place))
    return [*files, *([command] if command else [])]


def make(changes: Sequence[Change]) -> None:
    """Make all changes, or none: if one fails, those before it are taken back. Raises ConfigurationError."""
    made: list[Change] = []
    try:
        for change in changes:
            change.make()
            made.append(change)
    except ConfigurationError:
        for change in reversed(made):
            with suppress(ConfigurationError):  # the first error is the one to report
                change.reversed().make()
        raise


def _add(plan: Plan, place: ClientConfiguration, part: Part, new: Held) -> None:
    before = plan.text(part.file)
    text = before or ""
    with explained(part, text, new):
        there = part.found(text)
        part.check(text)
    wanted = part.merged(there, new) if there else new
    if there == wanted:
        return
    is_known, original = original_of(part, text, there) if there else (True, before)
    with explained(part, text, wanted):
        after = part.put((original or "") if is_known else text, wanted)
    plan.write(part.file, after, Backup.WRITE if there is None or not is_known else Backup.LEAVE)
    _write_rules(plan, place, ignored, part.file if is_known and original is None else backup_of(part.file))


def _take_out(plan: Plan, place: ClientConfiguration, part: Part) -> None:
    text = plan.text(part.file) or ""
    with explained(part, text):
        there = part.found(text)
    if there is None:
        return
    is_known, original = original_of(part, text, there)
    if is_known:
        after, has_own_folder = original, part.file.parent not in {place.project, Path.home()}
    else:
        with explained(part, text):
            after, has_own_folder = part.remove(text, read(backup_of(part.file)) or ""), False
    plan.write(part.file, after, Backup.DELETE, has_own_folder=has_own_folder)
    for private in (part.file, backup_of(part.file)):
        _write_rules(plan, place, not_ignored, private)


def _take_out_hooks(plan: Plan, place: ClientConfiguration, file: Path) -> None:
    """Take out the hooks, and what the client has noted about them."""
    part = hook_calls(file)
    text = plan.text(file) or ""
    with explained(part, text):
        where = hooks.places(json_file.content_of(text), NAME)
    if where and (trust_file := place.client.trust_file) and (noted := plan.text(trust_file())):
        plan.write(trust_file(), hooks.without_trust(noted, file, where))
    _take_out(plan, place, part)


def _rules_file(place: ClientConfiguration) -> Path:
    return place.project / IGNORE_FILE


def _write_rules(plan: Plan, place: ClientConfiguration, changed: Any, private: Path) -> None:
    """Change the project's .gitignore for a file that is only for this machine."""
    if place.scope is Scope.PROJECT and repository_of(place.project) is not None:
        line = f"/{private.relative_to(place.project).as_posix()}"
        plan.write(_rules_file(place), changed(plan.text(_rules_file(place)), line))


def _command(place: ClientConfiguration, entry: Mapping[str, Any] | None) -> CommandChange | None:
    """Return the change of the file that only the client's own command may write; None if it is as it should be."""
    there = _of_claude(place.file, read(place.file) or "")
    wanted = merged(there, dict(entry)) if entry else None
    if there == wanted:
        return None
    require_claude()
    return CommandChange(place.file, NAME, there, wanted)


def _of_claude(file: Path, text: str) -> dict[str, Any] | None:
    try:
        content = json_file.load_plain(text)
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


def ignored(text: str | None, line: str) -> str | None:
    """Return the rules with this line added, unless it is there."""
    lines = (text or "").split("\n")
    if line in lines:
        return text
    end = len(lines) - 1 if lines[-1] == "" else len(lines)
    return "\n".join([*lines[:end], REMARK, line, *(lines[end:] or ([] if text else [""]))])


def not_ignored(text: str | None, line: str) -> str | None:
    """Return the rules without this line, if `ignored` added it; None if nothing is left."""
    lines = (text or "").split("\n")
    for number in range(1, len(lines)):
        if lines[number - 1 : number + 1] == [REMARK, line]:
            return "\n".join([*lines[: number - 1], *lines[number + 1 :]]) or None
    return text
