"""A store whose answer did not arrive can be repeated: one memory, the same id (P6)."""

from collections.abc import Iterator
from typing import Any

import pytest

from memory_files import create_file, locked
from servers import LEGACY, MODERN, Server
from vector_memory.settings import DEFAULT_DIM
from waiting import eventually


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
