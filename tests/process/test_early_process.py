"""A server while its libraries are imported, which a gate here holds up for as long as a test wants."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import CLIENT, LEGACY, MAIN, MODERN, SECONDS_TO_END, Server
from vector_memory.domain import Scope
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


def test_calls_wait_for_the_server_which_carries_out_all_but_a_cancelled_one(held: Held, tmp_path: Path) -> None:
    """It knows the client by name, answers an id that is used twice, and calls from before the input ended."""
    listed = held.hello().ask("tools/list")
    held.receive(listed)
    cancelled = held.ask_tool("store_working_memory", **NOTE)
    held.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": cancelled}})
    stored = held.ask_tool("store_working_memory", **NOTE | {"content": "Another one."})
    held.send(held.message("tools/call", name="list_sessions", arguments={}) | {"id": listed})
    assert held.request("ping")["result"] == {}
    held.hang_up(reading=True)
    answers = [held.released().receive(), held.receive()]
    assert {one["id"] for one in answers} == {stored, listed}
    assert all(one["result"]["structuredContent"]["success"] for one in answers)
    assert held.process.wait(SECONDS_TO_END) == 0
    with SessionMemoryStore(tmp_path / "memory.db", Settings(embedding_model="toy"), read_only=True) as store:
        (memory,) = store.search_changes(Scope(session_id="s")).results
    assert (memory.agent_id, memory.content) == (CLIENT["name"], "Another one.")


def test_a_user_is_asked_by_a_client_that_said_at_first_that_it_can(held: Held) -> None:
    capabilities = {"elicitation": {}}
    held.request("initialize", protocolVersion=LEGACY, capabilities=capabilities, clientInfo=CLIENT)
    held.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    held.ask_tool("cleanup_old_memories", dry_run=False)
    assert held.released().receive()["method"] == "elicitation/create"


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


def test_each_call_says_why_a_memory_cannot_be_opened_until_it_can_be(tmp_path: Path) -> None:
    (tmp_path / "memory.db").mkdir()
    tools: dict[str, dict[str, Any]] = {"list_sessions": {}, "store_working_memory": NOTE}
    with Held(tmp_path) as server:
        server.hello()
        asked = {server.ask_tool(tool, **arguments) for tool, arguments in tools.items()}
        early = [server.released().receive() for _ in asked]
        assert {one["id"] for one in early} == asked
        answers = [one["result"]["structuredContent"] for one in early]
        answers += [server.call(tool, **arguments) for tool, arguments in tools.items()]
        assert all("choose another --database-path" in answer["message"] for answer in answers)
        (tmp_path / "memory.db").rmdir()
        for tool, arguments in tools.items():
            eventually(lambda tool=tool, arguments=arguments: server.call(tool, **arguments)["success"])
        server.end("SIGTERM")
        assert b"choose another --database-path" in server.errors()


def test_settings_are_checked_before_the_first_answer(tmp_path: Path) -> None:
    with Held(tmp_path, VECTOR_MEMORY_TOOLSETS="nonsense") as server:
        server.ask("ping")
        assert server.released().process.wait(SECONDS_TO_END) == 2
        assert b"VECTOR_MEMORY_TOOLSETS" in server.errors()
        assert server.process.stdout.read() == b""
