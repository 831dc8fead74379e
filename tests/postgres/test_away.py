"""A server whose database is away: it says so, and goes on when the database is back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import Cluster, running_cluster
from servers import Server
from vector_memory import SessionMemoryStore, Settings
from vector_memory.embedding import Embedder, EmbeddingModel
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError
from waiting import eventually

AWAY = "The database server cannot be reached"
LOST = "The connection to the database server was lost"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server that the tests of this file stop and start."""
    with running_cluster() as started:
        yield started


def store(server: Server, content: str) -> dict[str, Any]:
    return server.call("store_report", agent_id="a", session_id="s", content=content)


def test_a_stdio_server_goes_on_without_a_restart_when_its_database_is_back(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.create_database("lost")
    with Server(tmp_path, url=url) as server:
        server.hello()
        assert store(server, "# Before\n\nThe ledger was locked.")["success"]
        cluster.stop()
        for answer in (
            store(server, "# Meanwhile\n\nNobody keeps this."),
            server.call("search_reports_specific_chunks", query="ledger"),
            server.call("list_sessions"),
        ):
            assert (answer["success"], answer["error"]) == (False, "DatabaseError")
            assert AWAY in answer["message"] or LOST in answer["message"]
            assert str(cluster.folder) not in answer["message"]
        cluster.start()
        assert store(server, "# After\n\nThe ledger is open again.")["success"]
        assert len(server.call("search_reports_specific_chunks", query="ledger")["results"]) == 2
        with SessionMemoryStore(url, read_only=True) as looking:  # the threads behind it go on, too
            eventually(lambda: looking.get_memory_stats().without_vectors == 0)


def test_a_stdio_server_starts_while_its_database_is_away_and_says_so_to_each_call(
    cluster: Cluster, tmp_path: Path
) -> None:
    url = cluster.create_database("late")
    cluster.stop()
    try:
        with Server(tmp_path, url=url) as server:
            server.hello()
            assert len(server.request("tools/list")["result"]["tools"]) > 20
            answer = store(server, "# Early\n\nNobody keeps this.")
            assert (answer["error"], AWAY in answer["message"]) == ("DatabaseError", True)
            cluster.start()
            assert store(server, "# Late\n\nThis is kept.")["success"]
    finally:
        if cluster.process is None:
            cluster.start()


def test_a_server_that_starts_without_its_database_computes_missing_vectors_when_it_is_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    def missing() -> Embedder:
        raise EmbeddingUnavailableError("There is no model.")

    url = cluster.create_database("missing")
    with SessionMemoryStore(url, Settings(embedding_model="toy"), model=EmbeddingModel(missing)) as writing:
        writing.store_memory("report", "# Kept\n\nThe ledger was locked.", agent_id="a", session_id="s")
        assert writing.get_memory_stats().without_vectors == 1
    cluster.stop()
    try:
        with Server(tmp_path, url=url) as server:
            server.hello()
            assert server.call("list_sessions")["error"] == "DatabaseError"
            cluster.start()
            with SessionMemoryStore(url, read_only=True) as looking:
                eventually(lambda: looking.get_memory_stats().without_vectors == 0)
    finally:
        if cluster.process is None:
            cluster.start()


def test_a_store_that_cannot_be_reached_is_opened_and_one_that_refuses_is_not(cluster: Cluster) -> None:
    with SessionMemoryStore("postgresql://nobody@127.0.0.1:1/x") as away, pytest.raises(DatabaseError, match=AWAY):
        away.count_memories()
    with pytest.raises(DatabaseError, match="does not exist"):
        SessionMemoryStore(cluster.url("no_such_database"))
