"""While another program holds the write lock, a real server answers whatever does not have to write."""

from collections.abc import Iterator
from typing import Any

import pytest

from memory_files import locked
from servers import LEGACY, MODERN, Server

STORES = 70


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("locked"), version=request.param) as started:
        assert started.hello().call("store_report", **report(0, "s"))["success"]
        yield started


def report(number: int, session: str) -> dict[str, Any]:
    return {"agent_id": "a", "session_id": session, "content": f"# Found\n\nCache number {number} was cold."}


def cancel(server: Server, request_id: int) -> None:
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}})


def numbers_stored(server: Server, session: str) -> set[int]:
    found = server.call("search_reports_full_documents", session_id=session, limit=100)["results"]
    return {int(document["content"].split()[4]) for document in found}


def test_reads_are_answered_while_many_calls_wait_to_write(server: Server) -> None:
    with locked(server.path):
        waiting = {server.ask_tool("store_report", **report(number, "s")) for number in range(1, STORES)}
        waiting |= {server.ask_tool("delete_memory", memory_id=1) for _ in range(10)}
        asked = [
            server.ask_tool("list_sessions"),
            server.ask_tool("search_reports_specific_chunks", query="cold cache"),
            server.ask_tool("get_memory_by_id", memory_id=1),
            server.ask_tool("cleanup_old_memories"),
            server.ask("resources/read", uri="memory://sessions"),
            server.ask("prompts/get", name="continue_session", arguments={"session_id": "s"}),
            server.ask(
                "completion/complete",
                ref={"type": "ref/prompt", "name": "hand_over"},
                argument={"name": "session_id", "value": ""},
            ),
            server.ask("tools/list"),
        ]
        answers = [server.receive() for _ in asked]
        assert {answer["id"] for answer in answers} == set(asked)
        assert all("result" in answer for answer in answers)
    answered = [server.receive() for _ in waiting]
    assert {answer["id"] for answer in answered} == waiting
    assert sum(answer["result"]["structuredContent"]["success"] for answer in answered) == STORES


def test_calls_that_are_cancelled_while_they_wait_are_neither_run_nor_answered(server: Server) -> None:
    """Some of them wait for the lock, some for a thread, some as text."""
    with locked(server.path):
        asked = [server.ask_tool("store_report", **report(number, "t")) for number in range(1, 50)]
        assert server.call("list_sessions")["success"]
        kept = asked[5::10]
        for request_id in set(asked) - set(kept):
            cancel(server, request_id)
        assert server.call("list_sessions")["success"]
    assert {server.receive()["id"] for _ in kept} == set(kept)
    last = server.ask_tool("store_report", **report(50, "t"))
    assert server.receive()["id"] == last
    assert numbers_stored(server, "t") == {50, *range(6, 50, 10)}
