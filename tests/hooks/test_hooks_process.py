"""Hooks of a real server process, called line by line as a client does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hook_texts import ANSWER, PROMPT
from servers import CLIENT, Server

pytestmark = pytest.mark.sqlite("its servers have files")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shop")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with Server(folder, CLAUDE_PROJECT_DIR="") as server:
        yield server.hello()


def hooked(server: Server, tool: str, **fields: str) -> dict[str, Any]:
    """Call a hook's tool, and return the text of its answer as the client reads it."""
    result = server.request("tools/call", name=tool, arguments=fields)["result"]
    assert not result.get("isError")
    [block] = result["content"]
    return dict(json.loads(block["text"]))


def test_a_session_is_told_what_the_one_before_it_left(server: Server, folder: Path) -> None:
    listed = server.request("tools/list")["result"]["tools"]
    assert hooked(server, "hook_prompt", session_id="one", prompt=PROMPT) == {}
    assert hooked(server, "hook_answer", session_id="one", last_assistant_message=ANSWER) == {}
    stored = server.call("store_report", content="# Locks\n\nReleased.")
    assert (stored["session_id"], stored["agent_id"]) == ("one", CLIENT["name"])
    told = hooked(server, "hook_prompt", session_id="two", prompt="Go on.")["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    assert PROMPT in told["additionalContext"]
    assert f"{stored['memory_id']}: Locks" in told["additionalContext"]
    assert server.call("get_memory_by_id", memory_id=1)["memory"]["metadata"] == {"project": str(folder)}
    assert not [tool for tool in listed if tool["name"].startswith("hook")]


def test_a_server_starts_and_names_sessions_even_if_the_client_did_not_fill_in_the_project(tmp_path: Path) -> None:
    with Server(tmp_path, CLAUDE_PROJECT_DIR="${CLAUDE_PROJECT_DIR}") as server:
        stored = server.hello().call("store_report", content="Found.")
    assert stored["session_id"] == f"project-{stored['created_at'][:10]}"
