"""A URL that names several servers: the primary of the newest timeline is used, and none if it is not certain which."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import psycopg
import pytest

from clusters import Cluster, running_cluster, running_standby
from engine_memories import DIMENSIONS, add, ids, new_memory, opened
from vector_memory.errors import DatabaseError
from vector_memory.extras.postgres import connecting
from vector_memory.extras.postgres.connecting import Address, Hosts
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.database import PostgresDatabase, PostgresStorage
from vector_memory.extras.postgres.errors import UNREACHABLE, UnreachableError
from waiting import eventually


@pytest.fixture(autouse=True)
def _ask_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the servers whenever a connection is used."""
    monkeypatch.setattr(connecting, "ASKED_SECONDS", 0.0)


@contextmanager
def copies(number: int) -> Iterator[list[Cluster]]:
    """Start a primary, with an empty memory in the database `team`, and its standbys."""
    with running_cluster() as primary, ExitStack() as stack:
        opened(primary.create_database("team")).close()
        yield [primary, *(stack.enter_context(running_standby(primary)) for _ in range(number))]


def url_of(*clusters: Cluster, wanted: str = "read-write") -> str:
    folders = ",".join(f"{cluster.folder}" for cluster in clusters)
    return f"postgresql://postgres@/team?host={folders}&target_session_attrs={wanted}"


def texts(cluster: Cluster) -> list[str]:
    with psycopg.connect(cluster.url("team")) as connection:
        rows = connection.execute("select content from memory.session_memories order by id").fetchall()
    return [content for (content,) in rows]


def test_nothing_is_stored_in_an_earlier_primary_that_comes_back_and_is_first_in_the_url() -> None:
    with copies(1) as (earlier, later), closing(opened(url_of(earlier, later))) as running:
        add(running, new_memory("before"))
        eventually(lambda: texts(later) == ["before"])
        earlier.stop(signal.SIGKILL)
        later.promote()
        eventually(lambda: stored(running, "after"))
        earlier.start()
        add(running, new_memory("by a process that goes on"))
        for number in range(3):
            with closing(opened(f"{url_of(earlier, later)}&application_name=new{number}")) as new:
                add(new, new_memory(f"by new process {number}"))
        assert texts(earlier) == ["before"]
        assert len(texts(later)) == 6
        later.stop()
        for attempt in (lambda: add(running, new_memory("lost")), lambda: ids(running)):
            with pytest.raises(UnreachableError, match="is an earlier primary: another one has taken over"):
                attempt()
        assert texts(earlier) == ["before"]


def test_a_process_leaves_a_connection_to_a_primary_that_is_one_no_more() -> None:
    with copies(1) as (earlier, later), closing(opened(url_of(earlier, later))) as running:
        add(running, new_memory("before"))
        eventually(lambda: texts(later) == ["before"])
        later.promote()  # while the other runs on, and the connection to it could be used
        eventually(lambda: accepts_changes(later))
        add(running, new_memory("after"))
        assert (texts(earlier), texts(later)) == (["before"], ["before", "after"])


def test_two_servers_that_have_both_taken_over_are_refused_until_only_one_runs() -> None:
    with copies(2) as (primary, one, other):
        primary.stop(signal.SIGKILL)
        for standby in (one, other):
            standby.promote()
        eventually(lambda: accepts_changes(one) and accepts_changes(other))
        with closing(opened(url_of(primary, one, other))) as storage:  # as if they did not answer yet
            for attempt in (lambda: add(storage, new_memory("torn")), lambda: ids(storage)):
                with pytest.raises(UnreachableError, match="Two servers of the database URL accept changes"):
                    attempt()
            assert texts(one) == texts(other) == []
            other.stop()
            add(storage, new_memory("whole"))
            assert texts(one) == ["whole"]


def test_standbys_alone_accept_no_changes_and_can_be_read() -> None:
    with copies(1) as (primary, standby):
        add_to = opened(primary.url("team"))
        with closing(add_to):
            add(add_to, new_memory("kept"))
        eventually(lambda: texts(standby) == ["kept"])
        primary.stop()
        refused = pytest.raises(UnreachableError, match="those that answer are standbys")
        with closing(opened(url_of(primary, standby))) as storage, refused:
            ids(storage)
        database = PostgresDatabase(url_of(primary, standby, wanted="any"), dimensions=DIMENSIONS, read_only=True)
        with closing(PostgresStorage(database)) as storage:
            assert ids(storage) == [1]


def test_one_server_under_two_names_is_no_second_primary(cluster: Cluster) -> None:
    folder = cluster.folder
    with closing(connecting.connect(f"postgresql://postgres@/postgres?host={folder},{folder}")) as connection:
        assert connection.execute("select 1").fetchall() == [(1,)]


def test_a_silent_server_is_waited_for_once_and_used_when_it_answers(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "LONG_SECONDS", -1.0)
    used: list[str] = []
    goes_on = threading.Event()

    def connected(parameters: Address) -> Connection:
        host = parameters["host"]
        if threading.current_thread() is threading.main_thread():
            used.append(host)
        elif host == "/silent" and not used:
            raise UnreachableError(UNREACHABLE)
        elif host == "/silent":
            goes_on.wait()
        return connecting.opened({**parameters, "host": f"{cluster.folder}"})

    url = f"postgresql://postgres@/postgres?host=/silent,{cluster.folder}"
    servers = Hosts(connecting.parameters_in(url), connected)
    for _ in range(3):  # which does not end if it waits
        servers.connect().close()
    assert used == [f"{cluster.folder}"] * 3
    goes_on.set()
    eventually(lambda: servers.connect().close() or used[-1] == "/silent")


def test_a_server_that_stands_still_before_it_says_what_it_is_keeps_nobody_from_using_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connecting, "ANSWER_SECONDS", 0.2)
    with copies(1) as (primary, standby):

        def connected(parameters: Address) -> Connection:
            connection = connecting.opened(parameters)
            if parameters["host"] == f"{standby.folder}":
                standby.pause()
            return connection

        try:
            with closing(Hosts(connecting.parameters_in(url_of(standby, primary)), connected).connect()) as connection:
                assert connection.info.host == f"{primary.folder}"
        finally:
            standby.resume()


def stored(storage: PostgresStorage, text: str) -> bool:
    with suppress(DatabaseError):
        return bool(add(storage, new_memory(text)))
    return False


def accepts_changes(cluster: Cluster) -> bool:
    with psycopg.connect(cluster.url()) as connection:
        return connection.execute("select pg_is_in_recovery()").fetchall() == [(False,)]
