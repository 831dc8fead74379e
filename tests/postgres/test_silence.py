"""A server that is not heard any more, though no connection was closed: whoever waits for it learns so in seconds."""

import fcntl
import resource
import socket
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from clusters import Cluster, running_cluster
from engine_memories import DIMENSIONS, add, ids, new_memory, opened
from faults.proxy import Proxy, proxy_to
from inside import database_of
from vector_memory.errors import DatabaseError
from vector_memory.storage.postgres import connection, pool
from vector_memory.storage.postgres.database import PostgresDatabase
from vector_memory.storage.postgres.statement import Statement
from vector_memory.storage.postgres.storage import PostgresStorage
from waiting import at_once

AWAY = "The database server cannot be reached|The connection to the database server was lost"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as started, psycopg.connect(started.url(), autocommit=True) as connection:
        connection.execute("create extension vector")
        yield started


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    with proxy_to(cluster.folder) as running:
        yield running


@pytest.fixture
def storage(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStorage]:
    monkeypatch.setattr(pool, "SILENT_SECONDS", 0.0)
    with closing(opened(proxy.url("postgres"), tmp_path.name)) as storage:
        assert add(storage, new_memory("first")) == 1
        assert ids(storage) == [1]
        yield storage


def test_a_server_that_has_stopped_is_noticed_and_used_again_when_it_goes_on(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "SILENT_SECONDS", 0.0)
    with closing(opened(cluster.url(), tmp_path.name)) as storage:
        add(storage, new_memory("first"))
        assert ids(storage) == [1]
        cluster.pause()
        try:
            with pytest.raises(DatabaseError, match=AWAY):
                ids(storage)
        finally:
            cluster.resume()
        assert ids(storage) == [1]


def test_a_network_that_swallows_everything_is_noticed_by_readers_and_by_writers(
    proxy: Proxy, storage: PostgresStorage
) -> None:
    for attempt in (lambda: add(storage, new_memory("second")), lambda: ids(storage)):
        proxy.silent.set()
        with pytest.raises(DatabaseError, match=AWAY):
            attempt()
        proxy.silent.clear()
    assert ids(storage) == [1]
    assert add(storage, new_memory("second")) == 2


def test_a_slow_answer_is_waited_for_as_long_as_the_server_is_heard(
    storage: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def counted(descriptor: int) -> bool:
        asked.append(descriptor)
        return is_heard(descriptor)

    is_heard = connection.is_heard
    monkeypatch.setattr(connection, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(connection, "is_heard", counted)
    with storage.read() as reader:
        reader.cursor()
        assert reader.raw.execute("select pg_sleep(0.5)").fetchall()
    assert asked


def test_the_calls_that_wait_behind_one_that_noticed_are_answered_with_it(
    proxy: Proxy, storage: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "SILENT_SECONDS", 60.0)
    asked: list[int] = []
    is_heard = connection.is_heard
    monkeypatch.setattr(connection, "is_heard", lambda descriptor: (asked.append(descriptor), is_heard(descriptor))[1])
    refused: list[str] = []

    def store(number: int) -> None:
        with pytest.raises(DatabaseError, match=AWAY) as raised:
            add(storage, new_memory(f"memory {number}"))
        refused.append(str(raised.value))

    proxy.silent.set()
    at_once(*(partial(store, number) for number in range(8)), seconds=60)
    assert (len(refused), len(asked)) == (8, 1)


def test_connections_beside_one_that_was_lost_are_not_used_again(proxy: Proxy, storage: PostgresStorage) -> None:
    connections = database_of(storage)._pool
    with connections.connection(), connections.connection():
        pass
    assert len(connections._idle) == 2
    proxy.silent.set()
    with pytest.raises(DatabaseError, match=AWAY):
        ids(storage)
    assert connections._idle == []


def test_a_descriptor_beyond_the_reach_of_select_can_be_waited_for() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(2_048, limits[0]), limits[1]))  # 1,024 is usual
    one, other = socket.socketpair()
    try:
        with one, other, socket.socket(fileno=fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 1_024)) as beyond:
            assert not connection.has_input(beyond.fileno(), 0)
            other.send(b"!")
            assert connection.has_input(beyond.fileno(), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_statement_larger_than_what_a_socket_takes_at_once_is_sent_to_its_end(
    cluster: Cluster, tmp_path: Path
) -> None:
    large = bytes(16 << 20)
    database = PostgresDatabase(cluster.url(), schema=tmp_path.name, dimensions=DIMENSIONS)
    with closing(database), database.write() as connection:
        first, last = connection.together(Statement("select 1"), Statement("select length(%s::bytea)", (large,)))
        assert (first.fetchone(), last.fetchone()) == ((1,), (len(large),))
