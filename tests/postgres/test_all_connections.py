"""All memories of a process share few connections, and go on when these are all in use."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from clusters import Cluster
from lattice import LatticeEmbedder
from vector_memory.domain import Scope
from vector_memory.settings import Settings
from vector_memory.storage.postgres import pool
from vector_memory.storage.postgres.pool import ConnectionPool
from vector_memory.store import SessionMemoryStore
from waiting import eventually


def connections_to(cluster: Cluster, database: str) -> int:
    with psycopg.connect(cluster.url()) as watching:
        sql = "select count(*) from pg_stat_activity where datname = %s and backend_type = 'client backend'"
        return int(watching.execute(sql, (database,)).fetchall()[0][0])


def test_the_memories_of_a_process_share_its_connections(
    cluster: Cluster, database: Callable[[str], str], new_name: str, settings: Settings
) -> None:
    url = f"{database('postgres')}&connections=3"
    most = 0
    with ExitStack() as stack:
        stores = [
            stack.enter_context(SessionMemoryStore(f"{url}&schema=ns_{number}", settings, embedder=LatticeEmbedder()))
            for number in range(12)
        ]

        def use(store: SessionMemoryStore) -> None:
            for number in range(3):
                store.store_memory("report", f"# Report {number}", agent_id="a", session_id="s")
                assert len(store.search_chunks("report", Scope("report")).results) == number + 1

        with ThreadPoolExecutor(len(stores)) as threads:
            done = [threads.submit(use, store) for store in stores]
            while not all(one.done() for one in done):
                most = max(most, connections_to(cluster, new_name))
            for one in done:
                one.result()
        assert most == 3


def test_unused_connections_are_closed_except_one(
    cluster: Cluster, database: Callable[[str], str], new_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.05)
    connections = ConnectionPool.of(database("postgres"), 3)
    with connections.connection(), connections.connection(), connections.connection():
        pass
    eventually(lambda: connections_to(cluster, new_name) == 1)
    with connections.connection() as kept:
        assert kept.execute("select 1").fetchall() == [(1,)]
    connections.close()
    assert kept.closed
