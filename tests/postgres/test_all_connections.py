"""Searches that have all connections of a process go on, whatever else waits for one."""

import math
import threading
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from clusters import shared_cluster
from lattice import LatticeEmbedder
from search.test_exact import load_index
from vector_memory.settings import Settings
from vector_memory.storage.postgres import database, pool
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.pool import ConnectionPool
from vector_memory.store import SessionMemoryStore


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
        readers = [stack.enter_context(store._storage.read()) for _ in range(database.MOST_READERS)]
        store._index.start_loading()
        reading.wait()
        view = store._index.view(readers[0].feed)
        assert view is not None
        assert view.units.revision.last_memory_id == 2
        stack.close()
        store._index.wait_for_loading()
        assert store._index._failed_at == -math.inf
