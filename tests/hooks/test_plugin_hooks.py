"""The hooks of the plugin call tools that there are, with the fields that these read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from vector_memory.clients.editing.hooks import handlers_for
from vector_memory.server.hooks import HOOKS

ROOT = Path(__file__).parents[2]
READ = {
    "hook_prompt": {"session_id", "transcript_path", "prompt"},
    "hook_subagent": {"session_id", "agent_type", "last_assistant_message"},
    "hook_answer": {"session_id", "transcript_path", "last_assistant_message"},
    "hook_compaction": {"session_id", "compact_summary"},
}
FIELD = re.compile(r"\$\{(\w+)\}")


@pytest.fixture
def hooks() -> dict[str, list[dict[str, Any]]]:
    written = json.loads((ROOT / "plugin" / "hooks" / "hooks.json").read_text(encoding="utf-8"))["hooks"]
    return {event: [hook for group in groups for hook in group["hooks"]] for event, groups in written.items()}


def test_each_event_calls_its_tool(hooks: dict[str, list[dict[str, Any]]]) -> None:
    assert {event: [hook["tool"] for hook in found] for event, found in hooks.items()} == {
        event: [tool] for tool, (event, _) in HOOKS.items()
    }


def test_each_hook_calls_the_running_server_of_the_plugin(hooks: dict[str, list[dict[str, Any]]]) -> None:
    plugin = json.loads((ROOT / "plugin" / ".claude-plugin" / "plugin.json").read_text(encoding="utf-8"))["name"]
    [server] = json.loads((ROOT / "plugin" / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    for [hook] in hooks.values():
        assert (hook["type"], hook["server"]) == ("mcp_tool", f"plugin:{plugin}:{server}")
        most = 60 if hook["tool"] == "hook_subagent" else 5
        assert hook["timeout"] <= most, "a server that is starting must not keep the user waiting"


def test_install_writes_the_same_hooks_for_a_server_of_another_name(hooks: dict[str, list[dict[str, Any]]]) -> None:
    assert {event: [hook] for event, hook in handlers_for("plugin:vector-memory:memory").items()} == hooks


def test_each_hook_hands_over_the_fields_that_its_tool_reads(hooks: dict[str, list[dict[str, Any]]]) -> None:
    for [hook] in hooks.values():
        assert {name: FIELD.findall(value) for name, value in hook["input"].items()} == {
            name: [name] for name in READ[hook["tool"]]
        }
