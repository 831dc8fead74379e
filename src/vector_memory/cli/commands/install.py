# ruff: noqa: PLR0913 - a command's parameters are its flags
"""The commands that connect a client to this server, and disconnect it."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from vector_memory.cli.flags import Switch, given_path, require_folder
from vector_memory.cli.terminal import agreed, say
from vector_memory.clients.client import InstallScope
from vector_memory.clients.registry import CLIENTS
from vector_memory.domain.text import counted
from vector_memory.domain.user_files import folder_of_user
from vector_memory.errors import ConfigurationError
from vector_memory.settings import Answers, DatabaseUrl, Profile, ServerOptions, Toolset, has_password

if TYPE_CHECKING:
    from vector_memory.clients.editing.planning import Change, ClientConfiguration

    ClientName = str
    ProfileName = str
else:  # cyclopts would offer an enumeration's names, not its values
    ClientName = Literal[tuple(CLIENTS)]
    ProfileName = Literal[tuple(profile.value for profile in Profile)]

Name = Annotated[ClientName, Parameter(name="CLIENT", help="Client to disconnect.")]
NameOrAll = Annotated[
    ClientName | None, Parameter(name="CLIENT", help="Client to connect; default: every one found on this machine.")
]


@dataclass(frozen=True)
class How:
    """Where to make the change, and whether to ask."""

    user: Annotated[bool, Switch(help="For all your projects (default, except for vscode).")] = False
    project: Annotated[bool, Switch(help="Only for the project in the current folder.")] = False
    diff: Annotated[bool, Switch(help="Show the lines that change.")] = False
    dry_run: Annotated[bool, Switch(help="Only show what would change.")] = False
    yes: Annotated[bool, Switch(alias="-y", help="Do not ask.")] = False

    def place(self, name: str) -> "ClientConfiguration":
        """Return the place that is to change. Raises ConfigurationError for a scope that the client does not have."""
        from vector_memory.clients.editing.planning import ClientConfiguration

        if self.user and self.project:
            raise ConfigurationError("Use either --user or --project, not both.")
        client = CLIENTS[name]
        scope = InstallScope.USER if self.user else InstallScope.PROJECT if self.project else client.default
        if scope not in client.files:
            raise ConfigurationError(f"{client.title} has no projects: omit --project.")
        return ClientConfiguration(client, scope, _current_folder())


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigurationError("The current folder was deleted: change to another one first.") from None


PLUGIN_IS_THERE = """\
Claude Code has the plugin {plugin}, with the same tools and hooks: nothing was changed. With both, two servers would
start, and both would store everything. To use this installation instead, first run:

  claude plugin disable {plugin}

If this installation is older than the plugin: `vector-memory uninstall claude` removes it."""

HowFlags = Annotated[How, Parameter(name="*")]

HOOKS = """\
Prompts, long answers and reports of sub-agents are stored, without secrets, and a session starts with a recap of the
last one. --tools-only leaves this out."""

INSTRUCTIONS = """\
## Memory

Before you begin a task, search the memory (vector-memory) for what was found before.
When you finish, store what you found with store_report: what, why, where, and what is still open.
"""


@dataclass(frozen=True)
class Installation:
    """A client that is to be connected. `words`: the command line of its server. `is_trusted`: without asking.

    `name`: of the client. `memory`: the flags of the server that name the memory.
    """

    name: str
    place: "ClientConfiguration"
    words: list[str]
    memory: Sequence[str]
    with_hooks: bool
    is_trusted: bool

    def changes(self) -> "list[Change]":
        """Return what has to change. Raises ConfigurationError if the client cannot be connected in this way."""
        from vector_memory.clients.editing.planning import entry_for, hooks_of, installation

        called = hooks_of(self.name, self.place.client, self.memory) if self.with_hooks else {}
        entry = entry_for(self.place.client, self.words, is_trusted=self.is_trusted)
        return installation(self.place, entry, called)

    def make(self, changes: "Sequence[Change]") -> None:
        """Make the changes, and say what follows."""
        from vector_memory.clients.editing.planning import make, shared_memory
        from vector_memory.storage.disk.filesystem import make_private_folders

        if str(shared_memory()) in self.words:
            try:
                make_private_folders(shared_memory().parent)
            except OSError as error:
                raise ConfigurationError(
                    f"The folder {shared_memory().parent} cannot be made ({error.strerror}): name a file elsewhere "
                    "with --database-path."
                ) from None
        make(changes)
        _say_what_follows(self)


def install(
    client: NameOrAll = None,
    /,
    *,
    database_path: Annotated[
        Path | None, Parameter(help="Memory for all projects; default: each project has its own.")
    ] = None,
    database_url: Annotated[str | None, Parameter(help="Memory in this PostgreSQL database, for all projects.")] = None,
    database_password_file: Annotated[Path | None, Parameter(help="File with the password for the database.")] = None,
    profile: Annotated[
        ProfileName | None,
        Parameter(help="core: eight session tools (default); full: all of the toolsets."),
    ] = None,
    toolsets: Annotated[
        str, Parameter(help="Groups of tools, as for `serve`; all except session require --profile full.")
    ] = Toolset.SESSION.value,
    read_only: Annotated[bool, Switch(help="Offer only the tools that read.")] = False,
    http: Annotated[str | None, Parameter(help="Use the shared memory at this URL; requires --token-file.")] = None,
    token_file: Annotated[Path | None, Parameter(help="File with the token for the shared memory.")] = None,
    tools_only: Annotated[bool, Switch(help="Add no hooks: only calls of tools store and recall.")] = False,
    trust: Annotated[bool, Switch(help="Let Gemini CLI call every tool without asking, deletions too.")] = False,
    how: HowFlags = How(),
) -> int:
    """Connect a coding agent: adds the tools, and hooks that store and recall on their own. Asks before any change."""
    from vector_memory.clients.editing.planning import CALLED, command_line, installed_elsewhere, memory_flags

    if command := installed_elsewhere():
        say(f"Connecting {command}, which is installed, and not this clone, which may move.\n")
        return subprocess.call([command, *sys.argv[1:]], env={**os.environ, CALLED: "1"})  # noqa: S603 - the user's own
    if database_path is not None and database_url is not None:
        raise ConfigurationError("Name one memory: --database-path or --database-url.")
    here = _file(database_path) or _database(database_url, database_password_file)
    memory = _remote(http, token_file) or here
    flags = _flags(profile, toolsets, read_only=read_only)

    def planned(name: str) -> Installation:
        place = how.place(name)
        words = command_line(place.client, place.scope, flags, memory)
        named = memory_flags(place.client, place.scope, memory)
        calls = place.hooks_file and not tools_only and not (http and place.client.command_hooks)
        return Installation(name, place, words, named, bool(calls), trust)

    if client is None:
        return _install_all(how, planned)
    if client == "claude" and (plugin := _plugin(how.place(client).project)):
        say(PLUGIN_IS_THERE.format(plugin=plugin))
        return 0
    one = planned(client)
    changes = one.changes()
    if changes and not trust and _is_trusted(one.place, how):
        one = replace(one, is_trusted=True)
        changes = one.changes()
    if not changes:
        say(f"{one.place.client.title} is already connected in this way: nothing to change.")
        _say_trust(one)
        return 0
    if not _is_agreed(one.place, changes, how):
        return 0 if how.dry_run else 1
    one.make(changes)
    return 0


def _is_trusted(place: "ClientConfiguration", how: How) -> bool:
    """Ask whether a client may call the tools without asking, if it would not offer them otherwise."""
    if not place.client.trusted or how.yes or how.dry_run:
        return False
    return agreed(f"May {place.client.title} call every tool without asking, those that delete too?", "")


def _install_all(how: How, planned: Callable[[str], Installation]) -> int:
    """Connect all clients on this machine after one question. Return 1 if one cannot be connected."""
    traces = {name: trace for name, client in CLIENTS.items() if (trace := client.trace())}
    ready, failed = [], False
    for name, trace in traces.items():
        client = CLIENTS[name]
        try:
            if has_them := _has_the_tools(name, [*traces], how):
                say(f"{client.title} {has_them}: nothing to change.")
                continue
            one = planned(name)
            changes = one.changes()
        except ConfigurationError as error:
            failed = True
            say(f"{client.title} is left out: {error}")
            continue
        say(_summary_of(one.place, changes) if changes else f"{client.title} is already connected: nothing to change.")
        if changes and trace.name not in client.commands:
            missing = f", but no command `{client.commands[0]}`" if client.commands else ""
            say(f"  Found {trace}{missing}.")
        _show(changes, how)
        ready += [(one, changes)] if changes else []
    if not traces:
        say("Found no known client on this machine.")
    if how.dry_run or not ready:
        return int(failed)
    if not how.yes and not agreed(f"Connect {counted(len(ready), 'client')}?", "Nothing was changed."):
        return 1
    for one, changes in ready:
        say("")
        one.make(changes)
    return int(failed)


def _has_the_tools(name: str, names: Sequence[str], how: How) -> str:
    """Return why a client needs no entry of its own; empty if it needs one."""
    if source := next((CLIENTS[one].title for one in CLIENTS[name].inherits if one in names), ""):
        return f"also starts the servers of {source}"
    plugin = _plugin(how.place(name).project) if name == "claude" else None
    return f"has the plugin {plugin}, with the same tools" if plugin else ""


def uninstall(client: Name, /, *, how: HowFlags = How()) -> int:
    """Disconnect a client: remove this server and its hooks. Keeps all memories. Asks before any change."""
    from vector_memory.clients.editing.planning import make, removal

    place = how.place(client)
    changes = removal(place)
    if not changes:
        say(f"{place.client.title} is not connected {_where(place)}: nothing to change.")
        return 0
    if not _is_agreed(place, changes, how):
        return 0 if how.dry_run else 1
    make(changes)
    say(f"Disconnected {place.client.title}. No memory was deleted.")
    return 0


def _plugin(project: Path) -> str | None:
    """Return the plugin that has the tools and hooks already; None if Claude Code has none in this project."""
    from vector_memory.clients.claude import settings_of
    from vector_memory.clients.editing.changes import plugin_in, read_text
    from vector_memory.clients.editing.planning import NAME

    folders = filter(None, (folder_of_user(".claude", "CLAUDE_CONFIG_DIR"), project / ".claude"))
    files = [*(folder / "settings.json" for folder in folders), settings_of(project)]
    return plugin_in(map(read_text, files), NAME)


def _file(database: Path | None) -> list[str]:
    """Return the flags for a memory in a file. Raises ConfigurationError if a server could not create it there."""
    if database is None:
        return []
    path = given_path(database)
    require_folder(path.parent)
    return ["--database-path", str(path)]


def _database(url: str | None, password_file: Path | None) -> list[str]:
    """Return the flags for a memory in PostgreSQL. Raises ConfigurationError if a server could not use them."""
    if url is None:
        return []
    if has_password(url):
        raise ConfigurationError(
            "The client's configuration would show the password in the URL: keep it in ~/.pgpass, or in a file that "
            "--database-password-file names."
        )
    DatabaseUrl.parse(url)
    of_password = [] if password_file is None else ["--database-password-file", str(given_path(password_file))]
    return ["--database-url", url, *of_password]


def _remote(url: str | None, token_file: Path | None) -> list[str]:
    """Return the flags for a shared memory and its token. Raises ConfigurationError unless both can be used."""
    if url is None and token_file is None:
        return []
    if url is None or token_file is None:
        raise ConfigurationError("A shared memory needs both: --http URL and --token-file FILE.")
    from vector_memory.server.http.relay import read_token

    path = given_path(token_file)
    read_token(path)
    return ["--remote", url, "--token-file", str(path)]


def _flags(profile: str | None, toolsets: str, *, read_only: bool) -> list[str]:
    """Return flags for `serve`. Raises ConfigurationError for what `serve` would refuse."""
    chosen = Profile(profile or (Profile.CORE if toolsets == Toolset.SESSION else Profile.FULL))
    try:
        ServerOptions(toolsets=toolsets, profile=chosen, read_only=read_only)
    except ValueError:
        raise ConfigurationError(
            f'--toolsets is "{toolsets}"; accepted: {", ".join(Toolset)}, separated by commas, or all; with --profile '
            "core only session."
        ) from None
    flags = ["--profile", chosen.value] if chosen is Profile.CORE else ["--answers", Answers.LEAN.value]
    flags += ["--toolsets", toolsets] if toolsets != Toolset.SESSION else []
    return [*flags, "--read-only"] if read_only else flags


def _is_agreed(place: "ClientConfiguration", changes: "Sequence[Change]", how: How) -> bool:
    """Say what changes and ask whether to make it. Raises ConfigurationError without a terminal."""
    say(_summary_of(place, changes))
    _show(changes, how)
    if how.dry_run or how.yes:
        return not how.dry_run
    return agreed("Make this change?", "Nothing was changed.")


def _summary_of(place: "ClientConfiguration", changes: "Sequence[Change]") -> str:
    files = " and ".join(str(change.path) for change in changes)
    return f"{place.client.title}, {_where(place)}: changes {files}."


def _show(changes: "Sequence[Change]", how: How) -> None:
    for change in changes if how.diff else ():
        say("\n" + "\n".join(change.shown()) + "\n")


def _where(place: "ClientConfiguration") -> str:
    return "for all your projects" if place.scope is InstallScope.USER else f"for the project {place.project}"


def _say_what_follows(one: Installation) -> None:
    from vector_memory.clients.editing.planning import clone

    client = one.place.client
    say(f"Connected {client.title}. {client.approval[one.place.scope]}")
    if client.untrusted and not one.is_trusted:
        say(client.untrusted)
    _say_trust(one)
    if one.with_hooks:
        say(HOOKS)
    say(f"The memory is {_memory(one.place, one.words)}.")
    if folder := clone():
        say(f"It starts from the clone {folder}: after moving that, run this again.")
    if client.checked_with:
        say(f"To check: `{client.checked_with}`.")
    if client.instructions:
        say(f"\nTo make sure that agents use it, paste this into {client.instructions}:\n\n{INSTRUCTIONS}")


def _say_trust(one: Installation) -> None:
    if one.with_hooks and one.place.client.trust:
        say(one.place.client.trust)


def _memory(place: "ClientConfiguration", words: list[str]) -> str:
    """Return which memory the flags of a server name."""
    if "--remote" in words:
        return f"the shared one at {words[words.index('--remote') + 1]}"
    for flag in ("--database-path", "--database-url"):
        if flag in words:
            return f"{words[words.index(flag) + 1]}, for all projects"
    whose = "each project" if place.scope is InstallScope.USER else "this project"
    return f"memory/agent_session_memory.db in {whose}"
