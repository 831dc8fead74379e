"""Clients of which only the documents are known here: none of them runs without a screen or an account."""

from vector_memory.clients.client import (
    CONNECTED,
    Client,
    Entry,
    InstallScope,
    application_data,
    home_of,
    in_home,
    in_project,
    typed_entry,
)

IN_EDITOR = ("--working-dir", "${workspaceFolder}")
"""Editors start servers in any folder and put the project's path here."""

FOR_USER = {InstallScope.USER: CONNECTED}
SHARED = frozenset({InstallScope.USER})


def goose_entry(command: str, *words: str) -> Entry:
    """Return what Goose calls an extension."""
    return {
        "name": "vector-memory",
        "type": "stdio",
        "enabled": True,
        "timeout": 300,
        "cmd": command,
        "args": list(words),
    }


CLIENTS = {
    "cursor": Client(
        title="Cursor",
        files={**in_home(".cursor", "mcp.json"), **in_project(".cursor/mcp.json")},
        section="mcpServers",
        reads_comments=True,
        place=IN_EDITOR,
        commands=("cursor", "cursor-agent"),
        instructions="AGENTS.md",
        approval=dict.fromkeys(
            InstallScope, "In Cursor, open Settings, MCP, and switch vector-memory on if it is off."
        ),
    ),
    "vscode": Client(
        title="VS Code",
        files={
            InstallScope.USER: lambda _project: application_data("Code") / "User" / "mcp.json",
            **in_project(".vscode/mcp.json"),
        },
        section="servers",
        reads_comments=True,
        instructions="AGENTS.md",
        entry=typed_entry,
        place=IN_EDITOR,
        # VS Code does not fill in ${workspaceFolder} in the user's own file.
        shared=SHARED,
        default=InstallScope.PROJECT,
        commands=("code",),
        approval=dict.fromkeys(
            InstallScope, 'In VS Code, run "MCP: List Servers", start vector-memory, and confirm that you trust it.'
        ),
    ),
    "desktop": Client(
        title="Claude Desktop",
        files={InstallScope.USER: lambda _project: application_data("Claude") / "claude_desktop_config.json"},
        section="mcpServers",
        shared=SHARED,
        approval={InstallScope.USER: "Quit Claude Desktop and start it again. It asks before it first uses a tool."},
    ),
    "antigravity": Client(
        title="Antigravity",
        files=in_home(".gemini/config", "mcp_config.json"),
        section="mcpServers",
        shared=SHARED,
        commands=("antigravity", "agy"),
        approval={InstallScope.USER: "In Antigravity, open Manage MCP Servers and refresh the list."},
    ),
    "kiro": Client(
        title="Kiro",
        files={**in_home(".kiro/settings", "mcp.json"), **in_project(".kiro/settings/mcp.json")},
        section="mcpServers",
        shared=frozenset(InstallScope),
        commands=("kiro", "kiro-cli"),
        approval=dict.fromkeys(InstallScope, CONNECTED),
    ),
    "zed": Client(
        title="Zed",
        files={
            InstallScope.USER: lambda _project: home_of(".config", "XDG_CONFIG_HOME") / "zed" / "settings.json",
            **in_project(".zed/settings.json"),
        },
        section="context_servers",
        reads_comments=True,
        shared=frozenset(InstallScope),
        commands=("zed", "zeditor"),
        approval=dict.fromkeys(InstallScope, "In Zed, the agent panel's settings show whether the server is on."),
    ),
    "goose": Client(
        title="Goose",
        files={InstallScope.USER: lambda _project: home_of(".config", "XDG_CONFIG_HOME") / "goose" / "config.yaml"},
        section="extensions",
        format="yaml",
        entry=goose_entry,
        commands=("goose",),
        approval=FOR_USER,
    ),
    "devin": Client(
        title="Devin",
        files={InstallScope.USER: lambda _project: home_of(".config", "XDG_CONFIG_HOME") / "devin" / "config.json"},
        section="mcpServers",
        commands=("devin",),
        approval=FOR_USER,
    ),
    "droid": Client(
        title="Droid",
        files={**in_home(".factory", "mcp.json"), **in_project(".factory/mcp.json")},
        section="mcpServers",
        entry=typed_entry,
        commands=("droid",),
        approval=dict.fromkeys(InstallScope, CONNECTED),
    ),
    "auggie": Client(
        title="Auggie",
        files=in_home(".augment", "settings.json"),
        section="mcpServers",
        commands=("auggie",),
        approval=FOR_USER,
    ),
    "amp": Client(
        title="Amp",
        files={InstallScope.USER: lambda _project: home_of(".config", "XDG_CONFIG_HOME") / "amp" / "settings.json"},
        section="amp.mcpServers",
        reads_comments=True,
        commands=("amp",),
        approval=FOR_USER,
    ),
    "crush": Client(
        title="Crush",
        files={
            InstallScope.USER: lambda _project: home_of(".config", "XDG_CONFIG_HOME") / "crush" / "crush.json",
            **in_project("crush.json"),
        },
        section="mcp",
        entry=typed_entry,
        commands=("crush",),
        approval=dict.fromkeys(InstallScope, CONNECTED),
    ),
}
