"""A silent server: TCP notices that a machine is gone, and a server that stands still is given up in the end."""

import fcntl
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from clusters import Cluster, running_cluster
from engine_memories import DIMENSIONS, add, ids, new_memory, opened
from faults.proxy import Proxy, proxy_to
from vector_memory.errors import DatabaseError
from vector_memory.extras.postgres import beginnings, connection, database
from vector_memory.extras.postgres.connecting import ConnectionPool, connect
from vector_memory.extras.postgres.database import PostgresDatabase, PostgresStorage
from vector_memory.extras.postgres.statement import Statement

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
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon."""
    for name in ("LONGEST_READ", "LONGEST_WRITE", "LOCK_TIMEOUT_SECONDS"):
        monkeypatch.setattr(connection, name, 0.3)
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.3)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has this setting of TCP")
def test_the_socket_of_a_connection_notices_within_seconds_that_a_machine_is_gone(proxy: Proxy) -> None:
    with closing(connect(proxy.url("postgres"))) as connected, socket.socket(fileno=connected.fileno()) as borrowed:
        names = ("TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "TCP_KEEPINTVL")
        set_to = {name: borrowed.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names}
        keeps_alive = borrowed.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        borrowed.detach()
    assert (set_to, bool(keeps_alive)) == ({"TCP_USER_TIMEOUT": 2_000, "TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1}, True)


def test_the_server_ends_a_slow_statement_before_its_caller_gives_up() -> None:
    for settings, seconds in (
        (beginnings.READING, connection.LONGEST_READ),
        (beginnings.WRITING, connection.LONGEST_WRITE),
    ):
        assert float(settings["statement_timeout"].removesuffix("s")) < seconds


def write_twice(storage: PostgresStorage, stop: Callable[[], None]) -> None:
    with storage.write() as writer:
        writer.cursor()
        stop()
        writer.connection.fetch_value("select 1")


def commit(storage: PostgresStorage, stop: Callable[[], None]) -> None:
    with storage.write() as writer:
        writer.cursor()
        stop()


@pytest.mark.parametrize(
    "attempt",
    [
        lambda storage, stop: stop() or ids(storage),
        lambda storage, stop: stop() or add(storage, new_memory("second")),
        write_twice,
        commit,
    ],
    ids=["read", "begin to write", "write", "commit"],
)
@pytest.mark.usefixtures("_hasty")
def test_a_server_that_stands_still_is_given_up_and_used_again_when_it_goes_on(
    cluster: Cluster, tmp_path: Path, attempt: Callable[[PostgresStorage, Callable[[], None]], object]
) -> None:
    with closing(opened(cluster.url(), tmp_path.name)) as storage:
        add(storage, new_memory("first"))
        assert ids(storage) == [1]
        try:
            with pytest.raises(DatabaseError, match=AWAY):
                attempt(storage, cluster.pause)
        finally:
            cluster.resume()
        assert ids(storage) == [1]


@pytest.mark.usefixtures("_hasty")
def test_connections_beside_one_that_was_lost_are_not_used_again(proxy: Proxy) -> None:
    connections = ConnectionPool.of(proxy.url("postgres"), 3)
    with connections.connection(), connections.connection() as beside:
        pass
    proxy.silent.set()
    with pytest.raises(DatabaseError, match=AWAY), connections.connection() as lost:
        lost.execute("select 1")
    assert (lost.closed, beside.closed) == (True, True)
    connections.close()


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
    opened_schema = PostgresDatabase(cluster.url(), schema=tmp_path.name, dimensions=DIMENSIONS)
    with closing(opened_schema), opened_schema.write() as writer:
        first, last = writer.together(Statement("select 1"), Statement("select length(%s::bytea)", (large,)))
        assert (first.fetchone(), last.fetchone()) == ((1,), (len(large),))
