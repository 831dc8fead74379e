"""A person brings back what an agent deleted, while the agent's server runs."""

from pathlib import Path

import pytest

from forked import finished
from servers import Server
from waiting import eventually

pytestmark = pytest.mark.sqlite("its servers share a file")

SEARCH = "search_reports_specific_chunks"


def command(memory: Path, *words: str) -> str:
    done = finished(*words, "--database-path", memory)
    assert done.returncode == 0, done.stderr
    return done.stdout


def found(server: Server) -> list[int]:
    return [one["memory_id"] for one in server.call(SEARCH, query="Which port has the proxy?")["results"]]


def test_the_command_line_brings_back_what_an_agent_deletes_and_erases_it(tmp_path: Path) -> None:
    with Server(tmp_path) as one, Server(tmp_path) as other:
        one.hello().call("store_report", session_id="s", agent_id="a", content="The proxy has the port 4711.")
        eventually(lambda: found(other.hello()) == [1])
        assert one.call("delete_memory", memory_id=1)["success"]
        assert found(one) == found(other) == []
        assert "deleted by test, until 20" in command(one.path, "undo")
        assert command(one.path, "undo", "1") == "Brought back 1 memory.\n"
        assert found(one) == found(other) == [1]
        one.call("delete_memory", memory_id=1)
        assert command(one.path, "undo", "--session", "s", "--erase") == "Erased 1 memory.\n"
        assert command(one.path, "undo") == "No agent deleted anything that can be brought back.\n"
    left = [file.name for file in tmp_path.rglob("*") if file.is_file() and b"4711" in file.read_bytes()]
    assert left == []
