"""However a server is told to end, and whatever it is doing, it ends and leaves a whole file (P5).

What it is doing takes an hour here, so a server that waited for it would not end. How fast it ends is measured by
`benchmarks/performance start`: clients kill a server half a second after they have told it to end.
"""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from faults.soundness import faults_of
from forked import Forked
from servers import LEGACY, MAIN, MODERN, SLOW_MODEL, Server, wait_for
from vector_memory.embedding.embedder import Vectors
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from waiting import PATIENCE

WAYS = ["SIGINT", "SIGTERM", "SIGHUP", "the client dies"]
SLOW = {"VECTOR_MEMORY_EMBEDDING_MODEL": "slow", "PYTHONPATH": str(SLOW_MODEL)}
KEPT = {"agent_id": "a", "session_id": "kept", "content": "Acknowledged."}
LONG = "\n".join(f"# Part {number}\n\nIt goes on, slowly." for number in range(200))


class Unavailable(ToyEngine):
    """Lets everything be stored without vectors."""

    def embed(self, _texts: object) -> Vectors:
        raise EmbeddingUnavailableError("not now")


def store_something(server: Server) -> None:
    assert server.hello().call("store_report", **KEPT)["success"]


def idle(folder: Path) -> Server:
    server = Server(folder)
    store_something(server)
    return server


def storing(folder: Path) -> Server:
    server = Server(folder, **SLOW)
    store_something(server)
    server.ask_tool("store_report", agent_id="a", session_id="s", content=LONG)
    wait_for(folder / "embedding")
    return server


def searching(folder: Path) -> Server:
    server = Server(folder, **SLOW)
    store_something(server)
    server.ask_tool("search_reports_specific_chunks", query="what is done slowly")
    wait_for(folder / "embedding")
    return server


def loading(folder: Path) -> Server:
    server = Server(folder, SLOW_LOADING="3600", **SLOW).hello()
    wait_for(folder / "loading")
    server.ask_tool("store_report", **KEPT)
    assert server.call("list_sessions")["success"]
    return server


def backfilling(folder: Path) -> Server:
    with SessionMemoryStore(folder / "memory.db", Settings(embedding_model="toy"), embedder=Unavailable(384)) as store:
        store.store_memory("report", KEPT["content"] + " Slowly: slowly", agent_id="a", session_id="kept")
    server = Server(folder, **SLOW).hello()
    wait_for(folder / "embedding")
    return server


@contextlib.contextmanager
def ended(server: Server, how: str) -> Iterator[None]:
    """End a server; it has to end well, and without a word."""
    with server:
        server.end(how)
        assert server.process.returncode == 0
        assert server.errors() == b""
        yield


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()


def end_well(folder: Path, start: Callable[[Path], Server], how: str, *, kept: int = 1) -> bool:
    """End a server and return whether it closed its file, which has to be whole and to hold what was acknowledged."""
    with ended(start(folder), how):
        path = folder / "memory.db"
        is_closed = not path.with_name("memory.db-wal").exists()
        assert path.exists() == bool(kept)
        if kept:
            assert rows(path, "select count(*) from session_memories") == [(kept,)]
            assert faults_of(path, ToyEngine(384), indexed=False) == []
        return is_closed


@pytest.mark.parametrize("how", [*WAYS, "end of input"])
def test_an_idle_server_ends_and_closes_its_file(tmp_path_factory: pytest.TempPathFactory, how: str) -> None:
    # On a busy machine, closing can take longer than a server has; then the log is left to the next process.
    assert any(end_well(tmp_path_factory.mktemp("attempt"), idle, how) for _ in range(10))


@pytest.mark.parametrize("how", WAYS)
def test_a_server_that_embeds_a_long_document_ends_and_leaves_its_vectors_to_the_next(tmp_path: Path, how: str) -> None:
    end_well(tmp_path, storing, how, kept=2)


def test_a_server_that_searches_ends(tmp_path: Path) -> None:
    end_well(tmp_path, searching, "SIGTERM")


def test_a_server_that_loads_its_model_ends(tmp_path: Path) -> None:
    end_well(tmp_path, loading, "SIGINT", kept=0)


@pytest.mark.parametrize("how", ["SIGTERM", "end of input"])
def test_a_server_that_fills_in_vectors_ends(tmp_path: Path, how: str) -> None:
    end_well(tmp_path, backfilling, how)


def test_two_signals_in_a_row_end_a_server_like_one(tmp_path: Path) -> None:
    def twice(folder: Path) -> Server:
        server = storing(folder)
        server.process.send_signal(2)
        return server

    end_well(tmp_path, twice, "SIGTERM", kept=2)


def test_a_server_that_waits_for_another_process_ends(tmp_path: Path) -> None:
    """It cannot close a file whose lock somebody else holds, and does not wait for that."""
    server = idle(tmp_path)
    other = apsw.Connection(str(server.path))
    other.set_busy_timeout(60_000)  # the server may still be adding vectors
    other.execute("begin immediate")
    server.ask_tool("store_report", agent_id="a", session_id="s", content="Never acknowledged.")
    assert server.call("list_sessions")["success"]
    with ended(server, "SIGTERM"):
        other.execute("rollback")
        other.close()
        assert rows(server.path, "select content from session_memories") == [("Acknowledged.",)]


def test_what_was_asked_before_the_end_of_input_is_answered(tmp_path: Path) -> None:
    """`printf '...' | vector-memory` prints every answer."""
    with Server(tmp_path) as server:
        requests = [
            server.message(
                "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"}
            ),
            server.message("tools/call", name="store_report", arguments=KEPT),
            *(server.message("tools/call", name="list_sessions", arguments={}) for _ in range(100)),
        ]
        for request in requests:
            server.send(request)
        server.hang_up(reading=True)
        assert {server.receive()["id"] for _ in requests} == {request["id"] for request in requests}
        server.process.wait(PATIENCE)
        assert (server.process.returncode, server.errors()) == (0, b"")
    assert faults_of(server.path, ToyEngine(384)) == []


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_call_that_waits_for_changes_is_answered_when_the_input_ends(tmp_path: Path, version: str) -> None:
    with Server(tmp_path, version=version) as server:
        server.hello()
        waiting = server.ask_tool("search_changes", session_id="s", since="now", wait=50)
        server.call("list_sessions")
        server.hang_up(reading=True)
        assert server.answer(waiting)["total_new"] == 0
        server.process.wait(PATIENCE)
        assert (server.process.returncode, server.errors()) == (0, b"")


def test_a_server_reads_from_a_file_too(tmp_path: Path) -> None:
    """`vector-memory < requests > answers` works like a pipe."""
    (tmp_path / "requests").write_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n[]')
    command = [sys.executable, MAIN, "serve", "--database-path", tmp_path / "memory.db"]
    with (tmp_path / "requests").open("rb") as requests:
        done = subprocess.run(command, stdin=requests, capture_output=True, check=True, timeout=120)
    assert len(done.stdout.splitlines()) == 2


BREAKS_DOWN = """
import sys
from vector_memory.server import app as server
from vector_memory.cli.logging_setup import set_up_logging
from vector_memory.settings import Settings
from pathlib import Path

async def broken(server, streams):
    async with server._lifespan_manager(), streams as (incoming, outgoing):
        await incoming.receive()
        raise RuntimeError("secret")

set_up_logging("INFO", None)
server.serve_streams = broken
server.run_server(Path(sys.argv[1]), Settings(embedding_model="toy"))
"""


def test_a_server_that_breaks_down_ends_instead_of_waiting_for_its_client(tmp_path: Path) -> None:
    with Forked("-c", BREAKS_DOWN, tmp_path / "memory.db") as server:
        server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        server.stdin.flush()
        assert server.wait(PATIENCE) == 1
        said = server.stderr.read()
    assert b"The server failed" in said
    assert b"secret" not in said
