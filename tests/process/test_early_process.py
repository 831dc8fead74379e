"""A server while its libraries are imported, which a gate here holds up for as long as a test wants."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import CLIENT, LEGACY, MAIN, MODERN, SECONDS_TO_END, Server
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from waiting import eventually

GATE = """
import os, sys, time

class Gate:
    @staticmethod
    def find_spec(name, *_):
        if name.partition(".")[0] in ("pydantic", "pydantic_core", "fastmcp", "mcp", "mcp_types", "numpy", "cyclopts"):
            sys.meta_path.remove(Gate)
            while not os.path.exists(os.environ["GATE"]):
                time.sleep(0.01)

sys.meta_path.insert(0, Gate)
"""
"""A `sitecustomize`: what takes long to import takes until there is a file."""

START = sys.executable, str(MAIN)
NOTE = {"session_id": "s", "content": "The cache is cold."}


class Held(Server):
    """A server whose imports wait until it is `released`."""

    def __init__(self, folder: Path, **others: Any) -> None:
        (folder / "sitecustomize.py").write_text(GATE)
        self._gate = folder / "gate"
        super().__init__(folder, start=START, PYTHONPATH=str(folder), GATE=str(self._gate), **others)

    def released(self) -> "Held":
        """Let it import."""
        self._gate.touch()
        return self


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    with Held(tmp_path) as server:
        yield server


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_the_first_answers_wait_for_no_library(tmp_path: Path, version: str) -> None:
    with Held(tmp_path, version=version) as server:
        early = server.hello().request("tools/list")["result"]
        early_again = server.request("tools/list")["result"]
        late = server.ask("resources/read", uri="memory://sessions")
        assert "result" in server.released().receive(late)
        assert server.call("list_sessions")["success"]
        assert server.request("tools/list")["result"] == early == early_again
        server.end("end of input")
        assert server.process.returncode == 0
        assert server.errors() == b""


def test_calls_wait_for_the_server_and_know_what_the_client_said_of_itself(held: Held) -> None:
    stored = held.hello().ask_tool("store_working_memory", **NOTE)
    assert held.request("ping")["result"] == {}
    memory_id = held.released().answer(stored)["memory_id"]
    assert held.call("get_memory_by_id", memory_id=memory_id)["memory"]["agent_id"] == CLIENT["name"]


def test_a_user_is_asked_by_a_client_that_said_at_first_that_it_can(held: Held) -> None:
    capabilities = {"elicitation": {}}
    held.request("initialize", protocolVersion=LEGACY, capabilities=capabilities, clientInfo=CLIENT)
    held.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    held.ask_tool("cleanup_old_memories", dry_run=False)
    assert held.released().receive()["method"] == "elicitation/create"


def test_a_call_that_is_cancelled_meanwhile_is_not_carried_out(held: Held, tmp_path: Path) -> None:
    cancelled = held.hello().ask_tool("store_working_memory", **NOTE)
    held.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": cancelled}})
    other = held.ask_tool("store_working_memory", **NOTE | {"content": "Another one."})
    assert held.released().receive()["id"] == other
    held.end("end of input")
    with SessionMemoryStore(tmp_path / "memory.db", Settings(embedding_model="toy"), read_only=True) as store:
        assert store.get_session_stats("s").total_memories == 1


def test_an_id_that_is_used_twice_is_answered_twice(held: Held) -> None:
    listed = held.hello().ask("tools/list")
    held.receive(listed)
    again = held.message("tools/call", name="list_sessions", arguments={}) | {"id": listed}
    held.send(again)
    assert held.released().receive(listed)["result"]["structuredContent"]["success"]


def test_what_was_asked_before_the_input_ended_is_answered(held: Held) -> None:
    stored = held.hello().ask_tool("store_working_memory", **NOTE)
    held.hang_up(reading=True)
    assert held.released().answer(stored)["success"]
    assert held.process.wait(SECONDS_TO_END) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_at_once_without_a_traceback(held: Held, number: int) -> None:
    held.hello().request("ping")
    held.process.send_signal(number)
    assert held.process.wait(SECONDS_TO_END) in (-number, 128 + number)
    assert held.errors() == b""


def test_it_ends_when_its_client_is_gone(held: Held) -> None:
    held.hello()
    held.process.stdout.close()
    held.ask("ping")
    assert held.process.wait(SECONDS_TO_END) == 0


@pytest.mark.parametrize("tool", ["list_sessions", "store_working_memory"])
def test_each_call_says_why_a_memory_cannot_be_opened_until_it_can_be(tmp_path: Path, tool: str) -> None:
    (tmp_path / "memory.db").mkdir()
    arguments = NOTE if tool.startswith("store") else {}
    with Held(tmp_path) as server:
        asked = server.hello().ask_tool(tool, **arguments)
        assert "choose another --database-path" in server.released().answer(asked)["message"]
        assert not server.call(tool, **arguments)["success"]
        (tmp_path / "memory.db").rmdir()
        eventually(lambda: server.call(tool, **arguments)["success"])
        server.end("SIGTERM")
        assert b"choose another --database-path" in server.errors()


def test_settings_are_checked_before_the_first_answer(tmp_path: Path) -> None:
    with Held(tmp_path, VECTOR_MEMORY_TOOLSETS="nonsense") as server:
        server.ask("ping")
        assert server.released().process.wait(SECONDS_TO_END) == 2
        assert b"VECTOR_MEMORY_TOOLSETS" in server.errors()
        assert server.process.stdout.read() == b""
