"""What a memory in PostgreSQL says and does when its server fails or a connection is lost; it goes on by itself."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from clusters import Cluster, running_cluster
from engine_memories import DIMENSIONS, add, ids, new_memory, opened
from faults.proxy import proxy_to
from lattice import LatticeEmbedder
from vector_memory.domain import Scope
from vector_memory.errors import CancelledCallError, DatabaseError, DatabaseLockError, DuplicateMemoryError
from vector_memory.extras.postgres import beginnings, connecting, database
from vector_memory.extras.postgres.database import PostgresDatabase, PostgresStorage
from vector_memory.extras.postgres.errors import UnreachableError, message_for
from vector_memory.extras.postgres.statement import Statement
from vector_memory.extras.postgres.transactions import PostgresWriter
from vector_memory.settings import MOST_CONNECTIONS as OF_ONE_PROCESS
from vector_memory.settings import Settings
from vector_memory.storage.cancellation import Call, current_call
from vector_memory.store import SessionMemoryStore
from waiting import eventually

LOST = "The connection to the database server was lost"
AWAY = "The database server cannot be reached|The connection to the database server was lost"

MOST_CONNECTIONS = 30
CLIENTS = "pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"


@pytest.fixture(scope="module")
def fragile() -> Iterator[Cluster]:
    """A server that tests stop and kill; each leaves it running."""
    with running_cluster(max_connections=f"{MOST_CONNECTIONS}") as cluster:
        yield cluster


@pytest.fixture
def open_memory(fragile: Cluster, tmp_path: Path) -> Iterator[Callable[[], PostgresStorage]]:
    """Open the memory of the test once more."""

    def open_one() -> PostgresStorage:
        return stack.enter_context(closing(opened(fragile.url(), tmp_path.name)))

    with ExitStack() as stack:
        yield open_one


@pytest.fixture
def storage(open_memory: Callable[[], PostgresStorage]) -> PostgresStorage:
    return open_memory()


def hang_up(cluster: Cluster) -> None:
    """End all connections but this one, as an administrator or a proxy would."""
    with psycopg.connect(cluster.url()) as connection:
        connection.execute(f"select pg_terminate_backend(pid, 60000) from {CLIENTS}")


def read_meanwhile(cluster: Cluster, storage: PostgresStorage) -> None:
    """Lose the connection between two statements of a read."""
    with storage.read() as reader:
        reader.cursor()
        hang_up(cluster)
        reader.memories.ids(Scope())


def write_meanwhile(cluster: Cluster, storage: PostgresStorage) -> None:
    """Lose the connection between a change and its commit."""
    with storage.write() as writer:
        writer.count_tag("tag", None, "2026")
        writer.cursor()
        hang_up(cluster)


def test_a_connection_that_was_cut_between_two_calls_is_replaced(fragile: Cluster, storage: PostgresStorage) -> None:
    first = add(storage, new_memory("first"))
    assert ids(storage) == [first]
    hang_up(fragile)
    assert ids(storage) == [first]
    hang_up(fragile)
    assert add(storage, new_memory("second")) == first + 1
    assert ids(storage) == [first, first + 1]


def test_a_connection_that_is_cut_during_a_call_is_an_error_and_nothing_is_stored(
    fragile: Cluster, storage: PostgresStorage
) -> None:
    for attempt in (read_meanwhile, write_meanwhile):
        with pytest.raises(DatabaseError, match=LOST):
            attempt(fragile, storage)
    with storage.read() as reader:
        assert reader.tags.canonical() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_server_that_is_away_is_an_error_until_it_is_back(
    fragile: Cluster, storage: PostgresStorage, how: signal.Signals
) -> None:
    first = add(storage, new_memory("first"))
    fragile.stop(how)
    try:
        for attempt in (lambda: ids(storage), lambda: add(storage, new_memory("lost")), storage.version):
            with pytest.raises(DatabaseError, match=AWAY):
                attempt()
    finally:
        fragile.start()
    assert ids(storage) == [first]
    assert add(storage, new_memory("second")) == first + 1


def test_a_writer_waits_for_others_only_so_long(
    open_memory: Callable[[], PostgresStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.05)
    one, other = open_memory(), open_memory()
    with one.write() as holder:
        holder.cursor()
        with pytest.raises(DatabaseLockError, match="repeating the call is safe"), other.write() as writer:
            writer.cursor()
    with other.write() as writer:
        writer.cursor()


def test_a_writer_that_waits_can_be_cancelled(open_memory: Callable[[], PostgresStorage]) -> None:
    one, other = open_memory(), open_memory()
    call = Call()
    refused: list[bool] = []

    def wait() -> None:
        current_call.set(call)
        with pytest.raises(CancelledCallError), other.write() as writer:
            writer.cursor()
        refused.append(True)

    with one.write() as holder:
        holder.cursor()
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        call.cancelled = True
        thread.join(20)
        assert refused


def test_all_connections_in_use_is_an_error_that_says_so(
    storage: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "LOCK_TIMEOUT_SECONDS", 0.05)
    blocks = [storage.read() for _ in range(OF_ONE_PROCESS)]
    for block in blocks:
        block.__enter__()
    try:
        with pytest.raises(DatabaseLockError, match="were in use for too long"):
            ids(storage)
    finally:
        for block in blocks:
            block.__exit__(None, None, None)
    assert ids(storage) == []


def test_a_session_that_has_lost_its_named_statements_is_sent_them_without_names(storage: PostgresStorage) -> None:
    for _ in range(7):  # psycopg names a statement after five uses
        before = ids(storage)
    with storage.read() as reader:
        # psycopg would notice a plain one
        reader.connection.raw.execute("do $$ begin execute 'deallocate all'; end $$")
    assert ids(storage) == before


def test_the_first_error_of_a_batch_is_raised_though_others_follow_while_it_is_sent(storage: PostgresStorage) -> None:
    others = [Statement("select length(%s::text)", ("x" * length,)) for length in range(0, 60_000, 200)]
    for _ in range(3):
        with pytest.raises(DatabaseError) as failure, storage.read() as reader:
            reader.connection.raw.together(Statement("select 1 / 0"), *others)
        assert not isinstance(failure.value, UnreachableError), f"{failure.value}"


def test_an_error_of_the_server_tells_no_sql_and_no_content(storage: PostgresStorage) -> None:
    sql = "insert into canonical_tags (tag, created_at) values ('secret words', null)"
    with pytest.raises(DatabaseError) as raised, storage.write() as writer:
        writer.connection.raw.later(sql)
    said = repr(raised.value) + repr(raised.value.__cause__)
    assert "The database server reported a failure. Nothing was changed" in said
    assert not [word for word in ("secret", "insert", "canonical") if word in said]
    assert raised.value.__suppress_context__
    with storage.read() as reader:
        assert reader.tags.canonical() == []


def fail_unnoticed(writer: PostgresWriter) -> None:
    """Change something, and let a statement fail that nobody looks at."""
    writer.count_tag("tag", None, "2026")
    writer.cursor()
    with suppress(psycopg.errors.UndefinedTable):
        writer.connection.raw.execute("select * from nothing")


def test_a_transaction_after_a_failed_statement_is_not_acknowledged(storage: PostgresStorage) -> None:
    with pytest.raises(DatabaseError), storage.write() as writer:
        fail_unnoticed(writer)
    with storage.read() as reader:
        assert reader.tags.canonical() == []


def count_tag(storage: PostgresStorage) -> None:
    """Change something without reading anything."""
    with storage.write() as writer:
        writer.count_tag("tag", None, "2026")


def test_a_schema_of_a_newer_release_is_refused_by_new_and_by_running_processes(
    fragile: Cluster, storage: PostgresStorage, tmp_path: Path, open_memory: Callable[[], PostgresStorage]
) -> None:
    with psycopg.connect(fragile.url(), options=f"-c search_path={tmp_path.name}") as connection:
        connection.execute("update namespace set schema_version = schema_version + 1")
    with pytest.raises(DatabaseError, match="newer release"):
        ids(storage)
    with pytest.raises(DatabaseError, match="newer release"):
        add(storage, new_memory("x"))
    with pytest.raises(DatabaseError, match="newer release"):
        count_tag(storage)
    with pytest.raises(DatabaseError, match="newer release"):
        open_memory()
    with psycopg.connect(fragile.url(), options=f"-c search_path={tmp_path.name}") as connection:
        assert connection.execute("select 1 from canonical_tags").fetchall() == []


def test_a_writer_that_is_ended_in_a_deadlock_has_changed_nothing_and_may_repeat(
    fragile: Cluster, storage: PostgresStorage, tmp_path: Path
) -> None:
    memory_id = add(storage, new_memory("first"))
    other = psycopg.connect(fragile.url(), options=f"-c search_path={tmp_path.name} -c deadlock_timeout=60s")
    crossing = threading.Thread(target=lambda: other.execute("update namespace set revision = revision"), daemon=True)

    def cross() -> None:
        with storage.write() as writer:
            writer.count_tag("tag", None, "2026")
            writer.cursor()
            other.execute("select 1 from session_memories for update")
            crossing.start()
            with psycopg.connect(fragile.url(), autocommit=True) as watching:
                waits = "select 1 from pg_stat_activity where wait_event = 'transactionid' and pid = %s"
                eventually(lambda: watching.execute(waits, (other.info.backend_pid,)).fetchall())
            writer.record_access([memory_id], "2026")

    with other:
        with pytest.raises(DatabaseLockError, match="repeating the call is safe"):
            cross()
        crossing.join(60)
    with storage.read() as reader:
        assert reader.tags.canonical() == []
    count_tag(storage)


def test_a_server_without_free_connections_says_so_until_there_are_some(
    fragile: Cluster, storage: PostgresStorage
) -> None:
    first = add(storage, new_memory("first"))
    hang_up(fragile)
    with psycopg.connect(fragile.url(), autocommit=True) as watching:

        def others() -> int:
            return watching.execute(f"select count(*) from {CLIENTS}").fetchall()[0][0]

        with ExitStack() as stack:
            while others() < MOST_CONNECTIONS - 1:
                with suppress(psycopg.OperationalError):  # one that has been closed may not have ended
                    stack.enter_context(psycopg.connect(fragile.url()))
            for attempt in (lambda: ids(storage), lambda: add(storage, new_memory("second"))):
                with pytest.raises(DatabaseError, match="no connections left"):
                    attempt()
        eventually(lambda: others() == 0)
    assert ids(storage) == [first]
    assert add(storage, new_memory("second")) == first + 1


def test_a_memory_whose_connection_was_lost_while_its_tables_were_created_is_opened(
    fragile: Cluster, tmp_path: Path
) -> None:
    with proxy_to(fragile.folder) as proxy:
        proxy.confirmations_to_lose = 1
        with closing(opened(proxy.url("postgres"), tmp_path.name)) as storage:
            assert proxy.confirmations_to_lose == 0
            assert add(storage, new_memory("first")) == 1


def test_a_store_whose_confirmation_was_lost_is_an_error_and_its_repetition_names_the_id(
    fragile: Cluster, settings: Settings, tmp_path: Path
) -> None:
    report = {"memory_type": "report", "content": "# Outage", "agent_id": "a", "session_id": "s"}
    with proxy_to(fragile.folder) as proxy:
        url = f"{proxy.url('postgres')}?schema={tmp_path.name}"
        with SessionMemoryStore(url, settings, embedder=LatticeEmbedder()) as store:
            store.store_memory(**{**report, "content": "# Before"})
            proxy.confirmations_to_lose = 1
            with pytest.raises(DatabaseError, match="What a lost call has stored is not stored again"):
                store.store_memory(**report)
            with pytest.raises(DuplicateMemoryError, match="already exists with id 2"):
                store.store_memory(**report)
            assert store.count_memories() == 2


def test_a_writer_that_stops_in_a_transaction_is_ended_so_that_others_can_write(
    open_memory: Callable[[], PostgresStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_memory(), open_memory()
    count_tag(other)  # its connection is not the one that is ended
    monkeypatch.setitem(beginnings.WRITING, "idle_in_transaction_session_timeout", "100ms")
    with pytest.raises(DatabaseError, match=f"{LOST}|This process stopped"), one.write() as stopped:  # noqa: PT012
        stopped.cursor()
        count_tag(other)
        stopped.count_tag("other", None, "2026")
    count_tag(other)


def test_a_connection_that_is_cut_while_several_answers_are_awaited_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    said: list[str] = []

    def ask() -> None:
        with pytest.raises(DatabaseError) as raised, database.read() as connection:
            connection.together(Statement("select 1"), Statement("select pg_sleep(60)"))
        said.append(str(raised.value))

    with proxy_to(cluster.folder) as proxy:
        database = PostgresDatabase(proxy.url("postgres"), schema=tmp_path.name, dimensions=DIMENSIONS)
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        with psycopg.connect(cluster.url(), autocommit=True) as connection:
            waits = "select 1 from pg_stat_activity where wait_event = 'PgSleep' and application_name = 'vector-memory'"
            eventually(lambda: connection.execute(waits).fetchall())
            proxy.cut()
        asking.join(60)
        database.close()
    assert "The connection to the database server was lost" in said[0]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        # libpq makes such an error by itself, without a code, for an answer that was cut off.
        (psycopg.DatabaseError("server closed the connection unexpectedly"), "The connection to the database server"),
        (psycopg.DataError("text fields cannot contain NUL"), "The database server reported a failure"),
        (psycopg.errors.IdleInTransactionSessionTimeout(), "This process stopped for too long"),
        (psycopg.errors.TransactionTimeout(), "This process stopped for too long"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_that_ends_a_connection_asks_for_a_repetition(error: psycopg.Error, said: str) -> None:
    assert message_for(error).startswith(said)


LAST_WORDS = """
create function last_words() returns trigger language plpgsql as $$
begin
    raise warning 'terminating connection because of crash of another server process' using errcode = 'crash_shutdown';
    return null;
end $$;
create constraint trigger last_words after insert on memory.session_memories initially deferred
for each row execute function last_words();
"""


def test_a_commit_is_acknowledged_though_the_server_ends_the_connection_right_after_it(cluster: Cluster) -> None:
    """What it says then is read together with the confirmation."""
    url = cluster.create_database("last_words")
    with closing(opened(url)) as storage:
        add(storage, new_memory("first"))
        with psycopg.connect(url) as connection:
            connection.execute(LAST_WORDS)
        assert add(storage, new_memory("second")) == 2


class NeverWaiting:
    """A connection of libpq, which is asked for a result only when there is one."""

    def __init__(self, pgconn: Any) -> None:
        self._pgconn = pgconn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pgconn, name)

    def get_result(self) -> Any:
        assert not self._pgconn.is_busy(), "no other thread could run"
        return self._pgconn.get_result()


def test_an_answer_that_comes_in_pieces_stops_no_other_thread(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy_to(cluster.folder) as proxy, closing(opened(proxy.url("postgres"), tmp_path.name)) as storage:
        proxy.piece = 1
        assert add(storage, new_memory("first")) == 1
        for _ in range(20):
            with storage.read() as reader:
                assert reader.memories.ids(Scope()) == [1]
            connection = reader.connection.raw
            with monkeypatch.context() as patch:
                patch.setattr(connection, "pgconn", NeverWaiting(connection.pgconn))
                assert connection.is_usable()
