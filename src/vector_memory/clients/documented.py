"""Clients that were configured from their documents: none of them runs without a screen or an account."""

from vector_memory.clients.client import (
    Client,
    Entry,
    InstallScope,
    application_data,
    in_configuration,
    in_home,
    in_project,
    typed_entry,
)

IN_EDITOR = ("--working-dir", "${workspaceFolder}")
"""Editors start servers in any folder and put the project's path here."""

SHARED = frozenset({InstallScope.USER})


def goose_entry(command: str, *words: str) -> Entry:
    """Return what Goose calls an extension."""
    more = {"name": "vector-memory", "type": "stdio", "enabled": True, "timeout": 300}
    return {**more, "cmd": command, "args": list(words)}


def in_any_scope(steps: str) -> dict[InstallScope, str]:
    """Return what the user must do in any scope."""
    return dict.fromkeys(InstallScope, steps)


CLIENTS = {
    "cursor": Client(
        title="Cursor",
        files={**in_home(".cursor", "mcp.json"), **in_project(".cursor/mcp.json")},
        reads_comments=True,
        place=IN_EDITOR,
        commands=("cursor", "cursor-agent"),
        instructions="AGENTS.md",
        approval=in_any_scope("In Cursor, open Settings, MCP, and switch vector-memory on if it is off."),
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
        approval=in_any_scope(
            'In VS Code, run "MCP: List Servers", start vector-memory, and confirm that you trust it.'
        ),
    ),
    "desktop": Client(
        title="Claude Desktop",
        files={InstallScope.USER: lambda _project: application_data("Claude") / "claude_desktop_config.json"},
        shared=SHARED,
        approval=in_any_scope("Quit Claude Desktop and start it again. It asks before it first uses a tool."),
    ),
    "antigravity": Client(
        title="Antigravity",
        files=in_home(".gemini/config", "mcp_config.json"),
        shared=SHARED,
        commands=("antigravity", "agy"),
        approval=in_any_scope("In Antigravity, open Manage MCP Servers and refresh the list."),
    ),
    "kiro": Client(
        title="Kiro",
        files={**in_home(".kiro/settings", "mcp.json"), **in_project(".kiro/settings/mcp.json")},
        shared=frozenset(InstallScope),
        commands=("kiro", "kiro-cli"),
    ),
    "zed": Client(
        title="Zed",
        files={**in_configuration("zed/settings.json"), **in_project(".zed/settings.json")},
        section="context_servers",
        reads_comments=True,
        shared=frozenset(InstallScope),
        commands=("zed", "zeditor"),
        approval=in_any_scope("In Zed, the agent panel's settings show whether the server is on."),
    ),
    "goose": Client(
        title="Goose",
        files=in_configuration("goose/config.yaml"),
        section="extensions",
        format="yaml",
        entry=goose_entry,
        commands=("goose",),
    ),
    "devin": Client(title="Devin", files=in_configuration("devin/config.json"), commands=("devin",)),
    "droid": Client(
        title="Droid",
        files={**in_home(".factory", "mcp.json"), **in_project(".factory/mcp.json")},
        entry=typed_entry,
        commands=("droid",),
    ),
    "auggie": Client(title="Auggie", files=in_home(".augment", "settings.json"), commands=("auggie",)),
    "amp": Client(
        title="Amp",
        files=in_configuration("amp/settings.json"),
        section="amp.mcpServers",
        reads_comments=True,
        commands=("amp",),
    ),
    "crush": Client(
        title="Crush",
        files={**in_configuration("crush/crush.json"), **in_project("crush.json")},
        section="mcp",
        entry=typed_entry,
        commands=("crush",),
    ),
}
