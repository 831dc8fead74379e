"""Every tool over stdio, what each server finds at once, and stores that are repeated."""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from clients import connected
from eras import ERAS
from memory_files import create_file, locked
from servers import LEGACY, MAIN, MODERN, QUICK, Server
from tool_calls import ADDED_TOOLS
from tools.test_tool_contract import CONTRACT, examples
from vector_memory.settings import DEFAULT_DIM, Settings
from vector_memory.store import SessionMemoryStore
from waiting import eventually


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS.values(), ids=ERAS)
async def test_every_tool_works_over_stdio(tmp_path: Path, era: str) -> None:
    """Every tool can be called in a real server process, in both eras, and answers what the contract says."""
    command = [sys.executable, str(MAIN), "serve", "--database-path", str(tmp_path / "memory.db")]
    async with connected(command, tmp_path, os.environ | QUICK, era=era) as client:
        assert {tool.name for tool in await client.list_tools()} == {*CONTRACT, *ADDED_TOOLS}
        for name, arguments in examples().items():
            answer = await client.call_tool(name, arguments)
            assert answer.structured_content["success"] is True, name
            assert set(answer.structured_content) >= set(CONTRACT[name]["result_keys"]), name


SERVERS, NOTES = 4, 4


def note(server: int, number: int) -> str:
    """Return a text that nearly equals all others."""
    return f"Agent {server} found that service {number} waits for queue {server}{number}."


def test_every_server_finds_what_any_of_them_has_just_stored_first(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(tmp_path)).hello() for _ in range(SERVERS)]
        found = []
        for number in range(NOTES):
            for at, server in enumerate(servers):
                text = note(at, number)
                stored = server.call("store_working_memory", agent_id="a", session_id="s", content=text)
                for asked in (server, servers[(at + 1) % SERVERS]):
                    answer = asked.call("search_working_memory_specific_chunks", query=text, session_id="s", limit=3)
                    best = answer["results"][0]
                    found.append((best["memory_id"] == stored["memory_id"], best["similarity"] is not None))
    assert found == [(True, True)] * (2 * SERVERS * NOTES)


PLACE = {"agent_id": "a", "session_id": "s", "session_iter": 1}


def test_a_reading_server_answers_and_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    """Searching, reading and whatever it does beside that changes no byte, and a store is refused as unknown."""
    with SessionMemoryStore(tmp_path / "memory.db", Settings(embedding_model="toy")) as writing:
        memory_id = writing.store_memory("report", "The cache is cold.", **PLACE).memory_id
    before = hashlib.sha256((tmp_path / "memory.db").read_bytes()).hexdigest()
    with Server(tmp_path, VECTOR_MEMORY_READ_ONLY="true") as reading:
        found = reading.hello().call("search_reports_specific_chunks", query="cold cache")
        content = reading.call("get_memory_by_id", memory_id=memory_id)
        refused = reading.call("store_report", content="Another one.", **PLACE)
        reading.end("SIGTERM")
    assert found["total_results"] == 1
    assert content["success"]
    assert not refused["success"]
    assert hashlib.sha256((tmp_path / "memory.db").read_bytes()).hexdigest() == before


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("repeating")
    create_file(folder / "memory.db", DEFAULT_DIM)
    with Server(folder, version=request.param) as started:
        yield started.hello()


def report(session: str) -> dict[str, Any]:
    return {"agent_id": "a", "session_id": session, "content": "# Found\n\nThe cache was cold."}


def ids_of(server: Server, session: str) -> list[int]:
    found = server.call("search_reports_full_documents", session_id=session)
    return [document["id"] for document in found["results"]]


def test_a_store_that_was_cancelled_can_be_repeated(server: Server) -> None:
    with locked(server.path):
        cancelled = server.ask_tool("store_report", **report("cancelled"))
        assert server.call("list_sessions")["success"]
        server.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": cancelled, "reason": "-"}}
        )
    first, second = (server.call("store_report", **report("cancelled")) for _ in range(2))
    assert second["error"] == "ValidationError"
    assert ids_of(server, "cancelled") == [first["memory_id"]] == [second["memory_id"]]


def test_a_store_can_be_repeated_while_the_first_call_is_still_under_way(server: Server) -> None:
    with locked(server.path):
        asked = [server.ask_tool("store_report", **report("impatient")) for _ in range(3)]
        assert server.call("list_sessions")["success"]
    answers = [server.receive()["result"]["structuredContent"] for _ in asked]
    assert sorted(answer["success"] for answer in answers) == [False, False, True]
    assert [answer["memory_id"] for answer in answers] == ids_of(server, "impatient") * 3


def test_a_store_whose_answer_was_lost_can_be_repeated_through_another_server(server: Server) -> None:
    with Server(server.path.parent) as other:
        other.hello().ask_tool("store_report", **report("lost"))
        eventually(lambda: ids_of(server, "lost"))
        other.process.kill()
    again = server.call("store_report", **report("lost"))
    assert (again["success"], again["error"]) == (False, "ValidationError")
    assert ids_of(server, "lost") == [again["memory_id"]]
