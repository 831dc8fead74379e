"""However a connection is lost, the call says so and asks to be repeated."""

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from clusters import Cluster
from engine_memories import DIMENSIONS, add, new_memory
from faults.proxy import proxy_to
from vector_memory.domain import Scope
from vector_memory.errors import DatabaseError
from vector_memory.storage.postgres.database import PostgresDatabase
from vector_memory.storage.postgres.errors import message_for
from vector_memory.storage.postgres.statement import Statement
from vector_memory.storage.postgres.storage import PostgresStorage
from waiting import eventually


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
    with closing(PostgresStorage(PostgresDatabase(url, dimensions=DIMENSIONS))) as storage:
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
    with proxy_to(cluster.folder) as proxy:
        storage = PostgresStorage(PostgresDatabase(proxy.url("postgres"), schema=tmp_path.name, dimensions=DIMENSIONS))
        proxy.piece = 1
        with closing(storage):
            assert add(storage, new_memory("first")) == 1
            for _ in range(20):
                with storage.read() as reader:
                    assert reader.memories.ids(Scope()) == [1]
                connection = reader.raw
                with monkeypatch.context() as patch:
                    patch.setattr(connection, "pgconn", NeverWaiting(connection.pgconn))
                    assert connection.is_usable()
