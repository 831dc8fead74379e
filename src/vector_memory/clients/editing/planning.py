"""What this server has in the files of a client, and what has to change to connect the client or disconnect it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vector_memory.clients.client import Client, InstallScope
from vector_memory.clients.editing import hooks, json_file, toml_file
from vector_memory.clients.editing.changes import (
    Backup,
    CommandChange,
    FileChange,
    Plan,
    backup_of,
    is_of_server,
    read_text,
    require_claude,
)
from vector_memory.clients.editing.json_file import content_of
from vector_memory.clients.editing.yaml_file import YamlFile
from vector_memory.domain.user_files import folder_of_user
from vector_memory.errors import ConfigurationError
from vector_memory.settings.locations import repository_of

Held = dict[str, Any]

FORMATS: dict[str, Any] = {
    "json": json_file,
    "toml": toml_file,
    "yaml": YamlFile(is_list=False),
    "yaml list": YamlFile(is_list=True),
}
"""What edits the file of a client."""


@dataclass(frozen=True)
class ClientConfiguration:
    """A client's configuration in one scope. `project`: the folder for the scope of a project."""

    client: Client
    scope: InstallScope
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
    old one in a new one. `is_plain`: whether the client reads JSON without comments only.
    """

    file: Path
    found: Callable[[str], Held | None]
    put: Callable[[str, Held], str]
    remove: Callable[[str, str], str]
    merged: Callable[[Held, Held], Held]
    is_plain: bool


def server_entry(place: ClientConfiguration) -> Part:
    """Return the entry that starts the server."""
    form, section = FORMATS[place.client.format], place.client.section
    return Part(
        place.file,
        found=lambda text: form.entry(text, section, NAME),
        put=lambda text, wanted: form.put(text, section, NAME, wanted),
        remove=lambda text, original: form.remove(text, section, NAME, original),
        merged=merged_entry,
        is_plain=form is json_file and not place.client.reads_comments,
    )


def hook_calls(file: Path) -> Part:
    """Return the hooks that call the server's tools."""
    return Part(
        file,
        found=lambda text: hooks.found(content_of(text), NAME) or None,
        put=lambda text, wanted: json_file.rewritten(text, hooks.added(content_of(text), NAME, wanted)),
        remove=lambda text, original: json_file.rewritten(
            text, hooks.removed(content_of(text), NAME, content_of(original))
        ),
        merged=hooks.merged_hooks,
        is_plain=True,
    )


def both(entry: Part, calls: Part) -> Part:
    """Return the entry and the hooks that are in one file as one part."""

    def found(text: str) -> Held | None:
        there = {"entry": entry.found(text), "hooks": calls.found(text)}
        return there if any(there.values()) else None

    def put(text: str, wanted: Held) -> str:
        text = entry.put(text, wanted["entry"]) if wanted["entry"] else text
        if wanted["hooks"]:
            return calls.put(text, wanted["hooks"])
        return calls.remove(text, "") if calls.found(text) else text

    def merged(old: Held, new: Held) -> Held:
        kept = {name: old[name] and new[name] and part.merged(old[name], new[name]) for name, part in parts.items()}
        return {name: kept[name] or new[name] for name in parts}

    parts = {"entry": entry, "hooks": calls}
    return replace(
        entry,
        found=found,
        put=put,
        remove=lambda text, original: entry.remove(calls.remove(text, original), original),
        merged=merged,
    )


def own_file(file: Path) -> Part:
    """Return a file of hooks that is ours as a whole."""

    def put(text: str, wanted: Held) -> str:
        if text and hooks.OURS not in text:
            raise ConfigurationError("it is another program's")
        return str(wanted["text"])

    return Part(
        file,
        found=lambda text: {"text": text} if hooks.OURS in text else None,
        put=put,
        remove=lambda _text, original: original,
        merged=lambda _, new: new,
        is_plain=False,
    )


def hook_parts(place: ClientConfiguration, called: hooks.Handlers) -> list[tuple[Part, Held]]:
    """Return the parts that hooks have in a client's files, and what is wanted there."""
    commands = place.client.command_hooks
    if not place.hooks_file:
        return []
    if commands is None or commands.texts is None:
        return [(hook_calls(place.hooks_file), called)]
    texts = commands.texts({event: handler["command"] for event, handler in called.items()})
    return [(own_file(place.hooks_file / name), {"text": text}) for name, text in texts.items()]


def shared_part(place: ClientConfiguration) -> Part | None:
    """Return the entry and the hooks if they are in one file."""
    return both(server_entry(place), hook_calls(place.file)) if place.hooks_file == place.file else None


def original_of(part: Part, text: str, there: Held) -> tuple[bool, str | None]:
    """Return whether it is known what the file was before this part was added, and what it was, if it is there."""
    backup = read_text(backup_of(part.file))
    try:
        if backup is not None and (held := part.found(backup)) is not None and is_of_server(held):
            return False, None
        return part.put(backup or "", there) == text, backup
    except ConfigurationError:
        return False, None


@contextmanager
def explained(part: Part, wanted: Held | None = None) -> Iterator[None]:
    """Add to an error in a file which file it is, and what the user can do instead."""
    try:
        yield
    except ConfigurationError as error:
        instead = f" To connect the client by hand, put this into the file:\n\n{part.put('', wanted)}" if wanted else ""
        raise ConfigurationError(f"{part.file}, {error}. Nothing was changed.{instead}".rstrip()) from None


IGNORE_FILE = ".gitignore"
REMARK = "# paths of this machine (vector-memory install)"

Change = FileChange | CommandChange


def installation(place: ClientConfiguration, entry: dict[str, Any], called: hooks.Handlers) -> list[Change]:
    """Return the changes that connect a client; none if it is connected in this way.

    `called`: the hooks with which it stores and recalls without being asked.
    """
    plan, command = Plan(), None
    if shared := shared_part(place):
        _add(plan, place, shared, {"entry": entry, "hooks": called or None})
    elif place.scope in place.client.by_command:
        command = _command(place, entry)
    else:
        _add(plan, place, server_entry(place), entry)
    if called and not shared:
        for part, wanted in hook_parts(place, called):
            _add(plan, place, part, wanted)
    elif not shared:
        _take_out_hooks(plan, place)
    # The rules come first: if this process is killed in between, no file is committed by mistake.
    files = sorted(plan.changes(), key=lambda change: change.path != _rules_file(place))
    return [*([command] if command else []), *files]


def hooks_of(name: str, client: Client, memory: Sequence[str]) -> hooks.Handlers:
    """Return a client's hooks. `memory`: flags that name the memory. Raises ConfigurationError as `require_hooks`."""
    if client.command_hooks:
        return hooks.commands_for(name, client.command_hooks, memory)
    require_hooks(client)
    return hooks.handlers_for(NAME, client.silent)


def removal(place: ClientConfiguration) -> list[Change]:
    """Return the changes that disconnect a client; none if it is not connected."""
    plan, command = Plan(), None
    shared = shared_part(place)
    if not shared:
        _take_out_hooks(plan, place)
    if place.scope in place.client.by_command:
        command = _command(place, None)
    else:
        _take_out(plan, place, shared or server_entry(place))
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
    with explained(part, new):
        there = part.found(text)
        if part.is_plain:
            json_file.require_plain(text)
    if there and not is_of_server(there):  # another server: it comes back when this one is taken out
        there = None
    wanted = part.merged(there, new) if there else new
    if there == wanted:
        return
    is_known, original = original_of(part, text, there) if there else (True, before)
    with explained(part, wanted):
        after = part.put((original or "") if is_known else text, wanted)
    plan.write(part.file, after, Backup.WRITE if there is None or not is_known else Backup.LEAVE)
    _write_rules(plan, place, ignored, part.file if is_known and original is None else backup_of(part.file))


def _take_out(plan: Plan, place: ClientConfiguration, part: Part) -> None:
    text = plan.text(part.file) or ""
    with explained(part):
        there = part.found(text)
    if there is None or not is_of_server(there):
        return
    is_known, original = original_of(part, text, there)
    if is_known:
        after, has_own_folder = original, part.file.parent not in {place.project, folder_of_user("")}
    else:
        with explained(part):
            backup = read_text(backup_of(part.file)) or ""
            after, has_own_folder = part.remove(text, backup), False
            if (other := _other_server(part, backup)) is not None:
                after = part.put(after, other)
    plan.write(part.file, after, Backup.DELETE, has_own_folder=has_own_folder)
    for private in (part.file, backup_of(part.file)):
        _write_rules(plan, place, not_ignored, private)


def _other_server(part: Part, backup: str) -> Held | None:
    """Return the entry of another server that had this server's name before; None if there was none."""
    try:
        held = part.found(backup)
    except ConfigurationError:
        return None
    return held if held and not is_of_server(held) else None


def _take_out_hooks(plan: Plan, place: ClientConfiguration) -> None:
    """Take out the hooks, and what the client has noted about them."""
    commands = place.client.command_hooks
    for part, _ in hook_parts(place, hooks.commands_for("", commands, ()) if commands else {}):
        if trust_file := place.client.trust_file:
            text = plan.text(part.file) or ""
            with explained(part):
                where = hooks.places(json_file.content_of(text), NAME)
            if where and (noted := plan.text(trust_file())):
                plan.write(trust_file(), hooks.without_trust(noted, part.file, where))
        _take_out(plan, place, part)


def _rules_file(place: ClientConfiguration) -> Path:
    return place.project / IGNORE_FILE


def _write_rules(plan: Plan, place: ClientConfiguration, changed: Any, private: Path) -> None:
    """Change the project's .gitignore for a file that is only for this machine."""
    if place.scope is InstallScope.PROJECT and repository_of(place.project) is not None:
        line = f"/{private.relative_to(place.project).as_posix()}"
        plan.write(_rules_file(place), changed(plan.text(_rules_file(place)), line))


def _command(place: ClientConfiguration, entry: Mapping[str, Any] | None) -> CommandChange | None:
    """Return the change of the file that only the client's own command may write; None if it is as it should be."""
    with explained(server_entry(place)):
        there, earlier = (_of_claude(read_text(file) or "") for file in (place.file, backup_of(place.file)))
    ours = there if is_of_server(there) else None
    alone = there if ours is None else None if is_of_server(earlier) else earlier
    wanted = merged_entry(ours, dict(entry)) if entry else alone
    if there == wanted:
        return None
    require_claude()
    return CommandChange(place.file, NAME, there, wanted)


def _of_claude(text: str) -> dict[str, Any] | None:
    """Return the entry in Claude Code's file, which may be too large for an editor of comments."""
    try:
        content = json_file.load_plain(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (RecursionError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise ConfigurationError("the file must hold an object")
    servers = content.get("mcpServers", {})
    found = servers.get(NAME, {}) if isinstance(servers, dict) else None
    if not isinstance(found, dict):
        raise ConfigurationError('"mcpServers" and the servers in it must be objects')
    return dict(found) or None


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


# How a client starts the server: with absolute paths, because it may know neither the user's PATH nor folder.


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
        raise ConfigurationError("No home directory to keep the memory in: name a file with --database-path.")
    return home / ".vector-memory" / "memory.db"


def clone() -> Path | None:
    """Return the clone that this runs in; None if it is installed."""
    folder = Path(__file__).parents[4]
    return folder if (folder / "pyproject.toml").is_file() else None


CALLED = "VECTOR_MEMORY_CALLED_BY_CLONE"
"""Is set for the installed command: it may be a script that calls a clone."""


def installed_elsewhere() -> str | None:
    """Return the installed command, if this runs in a clone, which may move."""
    here = clone()
    if here is None or CALLED in os.environ:
        return None
    found = filter(None, (shutil.which(NAME, path=folder) for folder in os.get_exec_path()))
    mine = here.resolve(), Path(sys.prefix).resolve()
    return next((one for one in found if not any(map(Path(one).resolve().is_relative_to, mine))), None)


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


def command_line(client: Client, scope: InstallScope, flags: list[str], memory: Sequence[str]) -> list[str]:
    """Return the command line with which a client starts the server.

    `flags`: more flags for `serve`. `memory`: the flags that name the memory; none for the project's own, or for the
    shared one where the client has no projects.
    """
    return [*program(), "serve", *flags, *(memory_flags(client, scope, memory) or client.place)]


def memory_flags(client: Client, scope: InstallScope, memory: Sequence[str]) -> Sequence[str]:
    """Return the flags that name the memory of a client: these, or those of the shared one if it has no projects."""
    return memory or (("--database-path", str(shared_memory())) if scope in client.shared else ())


def entry_for(client: Client, words: Sequence[str], *, is_trusted: bool = False) -> dict[str, Any]:
    """Return a client's entry for the server. `is_trusted`: whether the client may call its tools without asking."""
    return {**client.entry(*words), **(client.trusted if is_trusted else {})}


def merged_entry(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Return the new entry with what the user added to the old one, such as variables and permissions of tools."""
    return {**old, **new} if old and {"command", "cmd", "transport"} & old.keys() else new


def require_hooks(client: Client) -> None:
    """Raise ConfigurationError if the client is too old for hooks that call tools: it ignores a file that has some.

    A client that cannot be asked is taken for a recent one.
    """
    version = _version(client.commands[0])
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
