"""The clients that can be connected: where each keeps its configuration, and what it asks the user."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import ModuleType

from vector_memory.clients.editing import json_file, toml_file
from vector_memory.domain.user_files import folder_of_user
from vector_memory.errors import ConfigurationError


class InstallScope(StrEnum):
    """Where a client is to know the server: in all projects of the user, or in one."""

    USER = "user"
    PROJECT = "project"


@dataclass(frozen=True)
class Client:
    """A client, and for each scope that it has its file and what the user must do there.

    `section`: the object or table of the file that holds the servers. `reads_comments`: whether the client reads a JSON
    file with comments. `place`: flags of `serve` for the project's memory, where the client does not start the server
    in the project. `shared`: scopes in which the client says nothing about the project, so that all projects have one
    memory. `by_command`: scopes whose file only the client's own command may write, because running sessions write it
    too. `hooks`: the file for hooks in each scope, if they can call tools; `hooks_since`: the first release of the
    `command` in which they can; `silent`: events that do not tell what would be stored; `trust`: what the user must do
    so that they run; `trust_file`: where the client notes that. `instructions`: a file for those of a client without
    hooks.
    """

    title: str
    files: Mapping[InstallScope, Callable[[Path], Path]]
    section: str
    approval: Mapping[InstallScope, str]
    format: ModuleType = json_file
    reads_comments: bool = False
    place: tuple[str, ...] = ()
    shared: frozenset[InstallScope] = frozenset()
    by_command: frozenset[InstallScope] = frozenset()
    names_transport: bool = False
    hooks: Mapping[InstallScope, Callable[[Path], Path]] = field(default_factory=dict)
    command: str = ""
    hooks_since: str = ""
    silent: frozenset[str] = frozenset()
    trust: str = ""
    trust_file: Callable[[], Path] | None = None
    instructions: str = ""
    checked_with: str = ""
    default: InstallScope = InstallScope.USER


def home_of(folder: str, variable: str = "HOME") -> Path:
    """Return the folder that a variable names, or else a folder of the user's home.

    Raises ConfigurationError if the user has no home.
    """
    found = folder_of_user(folder, variable)
    if found is None:
        raise ConfigurationError(
            f"There is no home folder with the client's configuration: set {variable}, or use --project if the "
            "client has projects."
        )
    return found


def application_data(name: str) -> Path:
    """Return the folder where desktop applications of this system keep their configuration."""
    if sys.platform == "darwin":
        return home_of("") / "Library" / "Application Support" / name
    return home_of(".config", "XDG_CONFIG_HOME") / name


def claude_settings(_project: Path) -> Path:
    """Return the settings of Claude Code's user."""
    return home_of(".claude", "CLAUDE_CONFIG_DIR") / "settings.json"


def claude_settings_of(project: Path) -> Path:
    """Return the user's own settings of Claude Code for a project, which are not shared with others."""
    return project / ".claude" / "settings.local.json"


def codex_file(name: str) -> Path:
    """Return a file in the folder of Codex's user."""
    return home_of(".codex", "CODEX_HOME") / name


IN_EDITOR = ("--working-dir", "${workspaceFolder}")
"""Editors start servers in any folder and put the project's path here."""

CLIENTS: dict[str, Client] = {
    "claude": Client(
        title="Claude Code",
        by_command=frozenset({InstallScope.USER}),
        files={
            InstallScope.USER: lambda _: home_of("", "CLAUDE_CONFIG_DIR") / ".claude.json",
            InstallScope.PROJECT: lambda project: project / ".mcp.json",
        },
        section="mcpServers",
        names_transport=True,
        approval={
            InstallScope.USER: "Nothing needs approval: sessions that start from now on are connected.",
            InstallScope.PROJECT: 'Start `claude` in this project and choose "Use this MCP server" when it asks about '
            '.mcp.json; another answer is preselected. Until then the server is "pending approval".',
        },
        hooks={InstallScope.USER: claude_settings, InstallScope.PROJECT: claude_settings_of},
        command="claude",
        hooks_since="2.1.118",
        checked_with="claude mcp list",
    ),
    "codex": Client(
        title="Codex",
        files={
            InstallScope.USER: lambda _project: codex_file("config.toml"),
            InstallScope.PROJECT: lambda project: project / ".codex" / "config.toml",
        },
        hooks={
            InstallScope.USER: lambda _project: codex_file("hooks.json"),
            InstallScope.PROJECT: lambda project: project / ".codex" / "hooks.json",
        },
        command="codex",
        hooks_since="0.148.0",
        silent=frozenset({"PostCompact"}),
        trust='Codex runs no hook that you have not trusted: start `codex`, and when it says "Hooks need review",\n'
        'choose "Trust all and continue". `codex exec` does not ask.',
        trust_file=lambda: codex_file("config.toml"),
        section="mcp_servers",
        format=toml_file,
        approval={
            InstallScope.USER: "Sessions that start from now on are connected.",
            InstallScope.PROJECT: "Start `codex` in this project and trust the folder when it asks: Codex ignores the "
            "configuration of folders that are not trusted.",
        },
        checked_with="codex mcp list",
    ),
    "cursor": Client(
        title="Cursor",
        files={
            InstallScope.USER: lambda _project: home_of("") / ".cursor" / "mcp.json",
            InstallScope.PROJECT: lambda project: project / ".cursor" / "mcp.json",
        },
        section="mcpServers",
        reads_comments=True,
        place=IN_EDITOR,
        instructions="AGENTS.md",
        approval=dict.fromkeys(
            InstallScope, "In Cursor, open Settings, MCP, and switch vector-memory on if it is off."
        ),
    ),
    "vscode": Client(
        title="VS Code",
        files={
            InstallScope.USER: lambda _project: application_data("Code") / "User" / "mcp.json",
            InstallScope.PROJECT: lambda project: project / ".vscode" / "mcp.json",
        },
        section="servers",
        reads_comments=True,
        instructions="AGENTS.md",
        names_transport=True,
        place=IN_EDITOR,
        # VS Code does not fill in ${workspaceFolder} in the user's own file.
        shared=frozenset({InstallScope.USER}),
        default=InstallScope.PROJECT,
        approval=dict.fromkeys(
            InstallScope, 'In VS Code, run "MCP: List Servers", start vector-memory, and confirm that you trust it.'
        ),
    ),
    "desktop": Client(
        title="Claude Desktop",
        files={InstallScope.USER: lambda _project: application_data("Claude") / "claude_desktop_config.json"},
        section="mcpServers",
        shared=frozenset({InstallScope.USER}),
        approval={InstallScope.USER: "Quit Claude Desktop and start it again. It asks before it first uses a tool."},
    ),
}
"""Every client by the name that `install` takes."""
