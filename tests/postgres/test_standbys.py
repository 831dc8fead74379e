"""What callers are told when a standby does not confirm changes, or ends a read."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest

from clusters import Cluster, running_cluster, running_standby
from engine_memories import DIMENSIONS, add, ids, new_memory
from poolers import Pooler, running_pooler
from vector_memory.errors import DatabaseError, DatabaseLockError, DuplicateMemoryError
from vector_memory.extras.postgres import database
from vector_memory.extras.postgres.database import PostgresDatabase, PostgresStorage
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from waiting import eventually

WAITS = "select 1 from pg_stat_activity where wait_event = 'SyncRep'"
CONFIRMS = "select 1 from pg_stat_replication where sync_state = 'sync'"


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    """A server and its standby, which both run at the beginning of each test."""
    with running_cluster() as primary:
        primary.create_database("team")
        primary.create_database("twice")
        opened(primary).close()
        store_in(primary).close()
        with running_standby(primary) as standby:
            yield primary, standby


@pytest.fixture
def unconfirmed(pair: tuple[Cluster, Cluster]) -> Iterator[Cluster]:
    """The primary, whose only synchronous standby is away."""
    primary, standby = pair
    primary.set("synchronous_standby_names", "*")
    eventually(lambda: rows(primary, CONFIRMS))
    standby.stop()
    try:
        yield primary
    finally:
        primary.set("synchronous_standby_names", "")
        if standby.process is None:
            standby.start()


def opened(cluster: Cluster | Pooler, *, read_only: bool = False) -> PostgresStorage:
    return PostgresStorage(PostgresDatabase(cluster.url("team"), dimensions=DIMENSIONS, read_only=read_only))


def store_in(cluster: Cluster) -> SessionMemoryStore:
    return SessionMemoryStore(cluster.url("twice"), Settings(embedding_model="toy"))


def rows(cluster: Cluster, sql: str) -> list[object]:
    with psycopg.connect(cluster.url("team"), autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return list(cursor.fetchall()) if cursor.description else []


@pytest.mark.parametrize("pooled", [False, True])
def test_a_store_that_no_standby_confirms_in_time_is_said_to_be_stored_and_not_confirmed(
    pair: tuple[Cluster, Cluster], unconfirmed: Cluster, monkeypatch: pytest.MonkeyPatch, *, pooled: bool
) -> None:
    with ExitStack() as stack:
        reached = stack.enter_context(running_pooler(unconfirmed, "transaction", 4)) if pooled else unconfirmed
        storage = stack.enter_context(closing(opened(reached)))
        before = ids(storage)
        monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.5)
        with pytest.raises(DatabaseError, match="stored, but no standby of the database server has confirmed it"):
            add(storage, new_memory(f"unconfirmed {pooled}"))
        stored = ids(storage)
        assert len(stored) == len(before) + 1
        pair[1].start()
        eventually(lambda: rows(unconfirmed, CONFIRMS))
        assert add(storage, new_memory(f"confirmed {pooled}")) == stored[-1] + 1


def test_a_store_behind_one_that_waits_for_a_standby_is_told_so_in_every_process(
    unconfirmed: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(unconfirmed)) as one, closing(opened(unconfirmed)) as other:
        before = ids(one)
        ahead = threading.Thread(target=lambda: add(one, new_memory("ahead")), daemon=True)
        ahead.start()
        eventually(lambda: rows(unconfirmed, WAITS))
        monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.05)
        for storage in (one, other):
            with pytest.raises(DatabaseLockError, match="waits for a standby of the database server"):
                add(storage, new_memory("behind"))
        unconfirmed.set("synchronous_standby_names", "")
        ahead.join(60)
        assert len(ids(one)) == len(before) + 1


def crash(primary: Cluster) -> None:
    """Kill the server and start it again, as its machine would."""
    primary.stop(signal.SIGKILL)
    primary.start()


def end_waits(primary: Cluster) -> None:
    """End the connections that wait for a standby, as an administrator would."""
    rows(primary, "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")


@pytest.mark.parametrize("interrupt", [crash, end_waits], ids=lambda interrupt: interrupt.__name__)
def test_a_store_is_not_answered_as_known_while_no_standby_has_what_an_earlier_call_has_stored(
    pair: tuple[Cluster, Cluster],
    unconfirmed: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    interrupt: Callable[[Cluster], None],
) -> None:
    report = {"memory_type": "report", "content": f"# By {interrupt.__name__}", "agent_id": "a", "session_id": "s"}
    said: list[str] = []
    with store_in(unconfirmed) as store:

        def store_first() -> None:
            with pytest.raises(DatabaseError) as raised:
                store.store_memory(**report)
            said.append(f"{raised.value}")

        first = threading.Thread(target=store_first, daemon=True)
        first.start()
        eventually(lambda: rows(unconfirmed, WAITS))
        interrupt(unconfirmed)
        first.join(60)
        assert len(said) == 1
        monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.5)
        for _ in range(2):
            with pytest.raises(DatabaseError, match="stored, but no standby of the database server has confirmed it"):
                store.store_memory(**report)
        pair[1].start()
        eventually(lambda: rows(unconfirmed, CONFIRMS))
        with pytest.raises(DuplicateMemoryError):
            store.store_memory(**report)


def test_a_read_that_a_standby_ends_is_told_so(pair: tuple[Cluster, Cluster]) -> None:
    primary, standby = pair
    standby.set("max_standby_streaming_delay", "0")
    with closing(opened(primary)) as writing:
        last = add(writing, new_memory("read"))
    with closing(opened(standby, read_only=True)) as reading:
        eventually(lambda: last in ids(reading))
        said: list[str] = []

        def read() -> None:
            with pytest.raises(DatabaseError) as raised, reading.read() as reader:
                reader.connection.raw.execute("select count(*), pg_sleep(600) from session_memories")
            said.append(f"{raised.value}")

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        eventually(lambda: rows(standby, "select 1 from pg_stat_activity where wait_event = 'PgSleep'"))
        for sql in ("update memory.session_memories set title = 'new'", "vacuum memory.session_memories"):
            rows(primary, sql)
        reader.join(60)
        assert ["The standby cancelled the read" in text for text in said] == [True]
