"""The hooks of the plugin call tools that exist, with the fields that these read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from vector_memory.clients.editing.hooks import handlers_for
from vector_memory.clients.reading.conversation import message_of
from vector_memory.domain import utc_now

ROOT = Path(__file__).parents[2]
FIELD = re.compile(r"\$\{(\w+)\}")


@pytest.fixture
def hooks() -> dict[str, dict[str, Any]]:
    """The hook of each event; scripts/make_docs.py writes the file, and tests/test_docs.py checks that it is fresh."""
    written = json.loads((ROOT / "plugin" / "hooks" / "hooks.json").read_text(encoding="utf-8"))["hooks"]
    return {event: hook for event, [group] in written.items() for [hook] in [group["hooks"]]}


def test_each_event_calls_its_tool_of_the_running_server(hooks: dict[str, dict[str, Any]]) -> None:
    plugin = json.loads((ROOT / "plugin" / ".claude-plugin" / "plugin.json").read_text(encoding="utf-8"))["name"]
    [server] = json.loads((ROOT / "plugin" / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    assert handlers_for(f"plugin:{plugin}:{server}") == hooks, "as `install` writes them for its server"
    waited = {hook["timeout"] for event, hook in hooks.items() if event != "SubagentStop"}
    assert max(waited) <= 5, "a server that is starting must not keep the user waiting"


def test_each_hook_hands_over_what_its_text_is_made_of(hooks: dict[str, dict[str, Any]]) -> None:
    for hook in hooks.values():
        assert {name: FIELD.findall(value) for name, value in hook["input"].items()} == {
            name: [name] for name in hook["input"]
        }
        event, said = hook["tool"].removeprefix("hook_"), dict.fromkeys(hook["input"], "A report of the day. " * 20)
        of_text = hook["input"].keys() - {"session_id", "transcript_path"}
        assert message_of(event, said, "agent", utc_now())
        assert not any(message_of(event, said | {name: ""}, "agent", utc_now()) for name in of_text)
