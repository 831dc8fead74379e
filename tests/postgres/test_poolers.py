"""Few connections, of a process or behind a pooler, change no answer: each transaction takes whichever is free."""

import itertools
import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import psycopg
import pytest

from clusters import Cluster, running_cluster, running_standby, scratch_folder
from doctor.test_faults import InSchema
from engine_memories import DIMENSIONS, add, new_memory
from engines import column
from faults.test_failover import cut_off
from forked import finished
from lattice import LatticeEmbedder
from memory_files import SETTINGS, doctor, found
from poolers import PORT, Mode, Pooler, require_names, running_pooler
from servers import Server
from vector_memory.domain import Scope
from vector_memory.errors import DatabaseError, DuplicateMemoryError
from vector_memory.extras.postgres import connecting, connection
from vector_memory.extras.postgres.beginnings import JUMP
from vector_memory.extras.postgres.connecting import ConnectionPool
from vector_memory.extras.postgres.database import PostgresDatabase, PostgresStorage
from vector_memory.extras.postgres.engine import index_vectors
from vector_memory.extras.postgres.errors import UnreachableError
from vector_memory.settings import DatabaseUrl, Settings
from vector_memory.store import SessionMemoryStore
from waiting import at_once, eventually

SCOPE = Scope("report", session_id="s")
NAMESPACES = 12
STORES = 6
SESSIONS = 3
"""Sessions of the server that all namespaces have to share."""


@pytest.fixture(scope="module")
def pooler(cluster: Cluster) -> Iterator[Pooler]:
    """A pooler that gives each transaction to any of a few sessions of the server."""
    with running_pooler(cluster, "transaction", SESSIONS) as running:
        yield running


@pytest.fixture
def url(pooler: Pooler, database: Callable[[str], str], new_name: str) -> str:
    """The address of an empty database, through the pooler."""
    assert new_name in database("postgres")
    return pooler.url(new_name)


@pytest.fixture
def direct(pooler: Pooler, cluster: Cluster) -> Callable[[str], str]:
    """Returns an address without the pooler."""
    return lambda url: url.replace(f"{pooler.folder}&port={PORT}", f"{cluster.folder}")


def text(namespace: int, number: int) -> str:
    return f"# Report {number}\n\nThe ledger of the namespace {namespace}."


def damage(url: str) -> None:
    """Drop an index of a memory."""
    InSchema(url).change("drop index idx_tags")


def test_namespaces_that_share_few_sessions_of_the_server_never_see_each_other(
    pooler: Pooler, settings: Settings, url: str, new_name: str
) -> None:
    wrong: list[str] = []

    def use(namespace: int, store: SessionMemoryStore) -> None:
        for number in range(STORES):
            try:
                stored = store.store_memory("report", text(namespace, number), session_id="s", agent_id="a")
                found = store.search_chunks("ledger namespace", Scope("report", session_id="s")).results
                texts = [store.get_memory_by_id(hit.memory_id).memory.content for hit in found]
            except DatabaseError as error:
                wrong.append(str(error))
            else:
                mixed = [found for found in texts if f"of the namespace {namespace}." not in found]
                wrong.extend(mixed if stored.memory_id == number + 1 else [f"{namespace} {stored}"])

    with ExitStack() as stack:
        stores = [
            stack.enter_context(SessionMemoryStore(f"{url}&schema=ns_{number}", settings, embedder=LatticeEmbedder()))
            for number in range(NAMESPACES)
        ]
        at_once(*(partial(use, *pair) for pair in enumerate(stores)))
        assert wrong == []
        assert pooler.server_connections(new_name) <= SESSIONS
        for number, store in enumerate(stores):
            assert column(store, "select content from session_memories order by id") == [
                text(number, place) for place in range(STORES)
            ]


def test_a_database_session_keeps_nothing_for_its_next_client(
    pooler: Pooler, url: str, new_name: str, direct: Callable[[str], str]
) -> None:
    changed = "select name from pg_settings where source = 'session' order by 1"
    address = f"{url}&schema=ns_1"
    with SessionMemoryStore(address, SETTINGS) as store:
        for number in range(2 * STORES):  # a statement that is run so often would get a name
            store.store_memory("report", text(1, number), session_id="s", agent_id="a")
            store.search_chunks("ledger", Scope("report", session_id="s"))
        damage(direct(address))
        report, _ = doctor(address).repair_all(doctor(address).examine(deep=True))
        assert found(report) == InSchema.usual
        index_vectors(DatabaseUrl.parse(address))
        index_vectors(DatabaseUrl.parse(address), drop=True)
    with ExitStack() as stack:
        for _ in range(SESSIONS):  # each keeps a session of its own, since none is in autocommit mode
            other = stack.enter_context(psycopg.connect(pooler.url(new_name), prepare_threshold=None))
            assert {name for (name,) in other.execute(changed)} <= {"application_name", "client_encoding"}
            assert other.execute("select from pg_prepared_statements where name like '%pg3%'").fetchall() == []
            assert other.execute("select count(*) from pg_locks where locktype = 'advisory'").fetchall() == [(0,)]


def test_a_pooler_that_is_said_to_carry_prepared_statements_and_does_not_is_refused_at_opening(
    pooler: Pooler, url: str, new_name: str
) -> None:
    for _ in range(SESSIONS):
        with pytest.raises(DatabaseError, match="does not pass prepared statements on"):
            SessionMemoryStore(f"{url}&pooler=prepared", SETTINGS)
    with ExitStack() as stack:
        for _ in range(SESSIONS):
            other = stack.enter_context(psycopg.connect(pooler.url(new_name), prepare_threshold=None))
            assert other.execute("select from pg_prepared_statements").fetchall() == []


def test_a_pooler_that_carries_prepared_statements_is_sent_them(
    cluster: Cluster, database: Callable[[str], str], new_name: str
) -> None:
    require_names()
    database("postgres")
    with (
        running_pooler(cluster, "transaction", SESSIONS, more="max_prepared_statements = 9") as pooler,
        ExitStack() as stack,
    ):
        addresses = [f"{pooler.url(new_name)}&pooler=prepared&schema=ns_{number}" for number in range(NAMESPACES)]
        stores = [stack.enter_context(SessionMemoryStore(address, SETTINGS)) for address in addresses]
        for number, (namespace, store) in itertools.product(range(STORES), enumerate(stores)):
            store.store_memory("report", text(namespace, number), session_id="s", agent_id="a")
            with pytest.raises(DuplicateMemoryError):
                store.store_memory("report", text(namespace, number), session_id="s", agent_id="a")
        with psycopg.connect(pooler.url(new_name), prepare_threshold=None) as pooled:
            names = [name for (name,) in pooled.execute("select name from pg_prepared_statements")]
            assert (len(names) > 0, {name.partition("_")[0] for name in names}) == (True, {"PGBOUNCER"})
        for namespace, store in enumerate(stores):
            texts = column(store, "select content from session_memories order by id")
            assert texts == [text(namespace, place) for place in range(STORES)]


def test_the_doctor_examines_and_repairs_the_memory_of_the_address_and_no_other(
    url: str, direct: Callable[[str], str]
) -> None:
    sound, damaged = f"{url}&schema=sound", f"{url}&schema=damaged"
    for address in (sound, damaged):
        with SessionMemoryStore(address, SETTINGS) as store:
            store.store_memory("report", text(1, 1), session_id="s", agent_id="a")
    damage(direct(damaged))
    for _ in range(SESSIONS):
        assert "indexes" not in found(doctor(sound).examine(deep=True))
        assert "indexes" in found(doctor(damaged).examine(deep=True))
    report, repairs = doctor(damaged).repair_all(doctor(damaged).examine(deep=True))
    assert (found(report), repairs[:1]) == (InSchema.usual, ["Rebuilt 1 index."])


def test_a_pooler_that_gives_each_statement_to_another_session_is_refused_at_opening(
    cluster: Cluster, database: Callable[[str], str], new_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database("postgres")
    monkeypatch.setattr(connecting, "FIRST_ANSWER_SECONDS", 600)  # a pooler that is late counts as unreachable
    with running_pooler(cluster, "statement", 2) as pooler:
        with pytest.raises(DatabaseError, match="pool_mode = transaction"):
            PostgresDatabase(f"{pooler.url(new_name)}&connect_timeout=600", dimensions=DIMENSIONS)

        def is_refused() -> bool:
            ended = finished("list", "--database-url", pooler.url(new_name))
            return (ended.returncode, "pool_mode = transaction" in ended.stderr) == (1, True)

        eventually(is_refused)


def test_three_servers_that_keep_six_sessions_busy_are_all_served(
    cluster: Cluster, database: Callable[[str], str], new_name: str, tmp_path: Path
) -> None:
    database("postgres")
    report = {"session_id": "s", "agent_id": "a"}
    with running_pooler(cluster, "session", 6) as pooler, ExitStack() as stack:
        servers = [
            stack.enter_context(
                Server(tmp_path, url=f"{pooler.url(new_name)}&connections=2&schema=ns_{number}")
            ).hello()
            for number in range(3)
        ]
        for number in range(STORES):
            asked = [
                (server, server.ask_tool("store_report", content=text(place, number), **report))
                for place, server in enumerate(servers)
            ]
            assert [server.answer(request)["memory_id"] for server, request in asked] == [number + 1] * 3
            for place, server in enumerate(servers):
                found = server.call("search_reports_specific_chunks", query="ledger of the namespace", session_id="s")
                assert {f"of the namespace {place}." in json.dumps(hit) for hit in found["results"]} == {True}
        assert pooler.server_connections(new_name) <= 6


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_call_for_which_a_pooler_has_no_session_is_told_so(
    cluster: Cluster, database: Callable[[str], str], new_name: str, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    database("postgres")
    monkeypatch.setattr(connecting, "FIRST_ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(connection, "LOCK_TIMEOUT_SECONDS", 0.5)
    with running_pooler(cluster, mode, 1) as pooler, ExitStack() as stack:

        def opened() -> PostgresStorage:
            storage = PostgresStorage(PostgresDatabase(pooler.url(new_name), dimensions=DIMENSIONS))
            stack.callback(storage.close)
            return storage

        opened().close()
        early = opened() if mode == "transaction" else None  # else it would keep the only session
        with psycopg.connect(pooler.url(new_name), prepare_threshold=None) as other:
            other.execute("select 1")
            storage = early or opened()
            for _ in range(2):
                with pytest.raises(UnreachableError, match="had no free session in time"):
                    add(storage, new_memory())
        eventually(lambda: stores(storage))


def stores(storage: PostgresStorage) -> bool:
    """Return whether a memory can be stored again."""
    with suppress(UnreachableError):
        return add(storage, new_memory()) == 1
    return False


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_behind_a_pooler_that_outlives_a_failover_no_lost_id_is_given_again_and_no_cursor_skips_anything(
    mode: Mode,
) -> None:
    with running_cluster() as primary, scratch_folder() as folder, ExitStack() as stack:
        primary.create_database("team")
        standby, place = stack.enter_context(running_standby(primary)), folder / "server"
        place.symlink_to(primary.folder)
        pooler = stack.enter_context(running_pooler(replace(primary, folder=place), mode, 2))
        store = stack.enter_context(SessionMemoryStore(pooler.url("team"), SETTINGS))

        def stored(text: str) -> int:
            with suppress(DatabaseError):
                return int(store.store_memory("report", text, session_id="s", agent_id="a").memory_id or 0)
            return 0

        kept = stored("kept")
        eventually(lambda: len(contents(standby)) == 1)
        cut_off(standby)
        lost, known = stored("lost"), store.search_changes(SCOPE).cursor
        primary.stop(signal.SIGKILL)
        standby.promote()
        place.unlink()
        place.symlink_to(standby.folder)
        new = [0]
        eventually(lambda: bool(new.append(stored(f"new {len(new)}")) or new[-1]))
        answer = store.search_changes(SCOPE, since=known)
        assert (lost, new[-1], [hit.id for hit in answer.results]) == (kept + 1, lost + JUMP + 1, new[-1:])
        assert f"the ids after {kept}, up to {known}, are lost" in answer.message
        assert contents(standby) == ["kept", f"new {len(new) - 1}"]


def contents(server: Cluster) -> list[str]:
    with suppress(psycopg.Error), psycopg.connect(server.url("team")) as connection:
        rows = connection.execute("select content from memory.session_memories order by id").fetchall()
        return [content for (content,) in rows]
    return []


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
    monkeypatch.setattr(connecting, "IDLE_SECONDS", 0.05)
    connections = ConnectionPool.of(database("postgres"), 3)
    with connections.connection(), connections.connection(), connections.connection():
        pass
    eventually(lambda: connections_to(cluster, new_name) == 1)
    with connections.connection() as kept:
        assert kept.execute("select 1").fetchall() == [(1,)]
    connections.close()
    assert kept.closed
