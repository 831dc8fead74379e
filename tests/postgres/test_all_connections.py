"""All memories of a process share few connections, and go on when these are all in use."""

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import psycopg
import pytest

from clusters import Cluster, shared_cluster
from inside import index_of, load_index, storage_of
from lattice import LatticeEmbedder
from vector_memory.domain import Scope
from vector_memory.settings import MOST_CONNECTIONS, Settings
from vector_memory.storage.postgres import pool
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.pool import ConnectionPool
from vector_memory.store import SessionMemoryStore
from waiting import eventually


def test_searches_that_have_all_connections_do_not_wait_for_the_loading_index_which_waits_for_one(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{shared_cluster().url()}&schema={tmp_path.name}"
    report = {"memory_type": "report", "agent_id": "a", "session_id": "s"}
    reading = threading.Event()
    acquire = ConnectionPool.connection

    def noted(pool: ConnectionPool) -> AbstractContextManager[Connection]:
        if threading.current_thread().name == "passage-index":
            reading.set()
        return acquire(pool)

    with SessionMemoryStore(url, settings, embedder=LatticeEmbedder()) as store, ExitStack() as stack:
        store.store_memory(content="# Before", **report)
        load_index(store)
        store.store_memory(content="# After", **report)
        monkeypatch.setattr(ConnectionPool, "connection", noted)
        monkeypatch.setattr(pool, "LOCK_TIMEOUT_SECONDS", 5.0)
        readers = [stack.enter_context(storage_of(store).read()) for _ in range(MOST_CONNECTIONS)]
        index_of(store).start_loading()
        reading.wait()
        view = index_of(store).view(readers[0].feed)
        assert view.units.revision.last_memory_id == 2
        stack.close()
        index_of(store).wait_for_loading()
        assert index_of(store)._failed_at == -math.inf


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
