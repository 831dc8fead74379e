"""The real server process, spoken to over standard input and output as clients do."""

import hashlib
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from clients import connected
from eras import ERAS
from servers import MAIN, QUICK, Server
from tool_calls import ADDED_TOOLS
from tools.test_tool_contract import CONTRACT, examples
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore


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
