"""Statements that are sent together, and often get names: a failure is named, and hinders nothing afterwards."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from clusters import Cluster
from engine_memories import add, new_memory, opened
from inside import database_of
from vector_memory.errors import DatabaseError, DatabaseLockError
from vector_memory.extras.postgres import connecting, database
from vector_memory.extras.postgres.database import PostgresStorage

UNTIL_NAMED = 5
"""The next time after so many, psycopg gives a statement a name."""


@pytest.fixture
def storage(cluster: Cluster, tmp_path: Path) -> Iterator[PostgresStorage]:
    with closing(opened(cluster.url(), tmp_path.name)) as storage:
        yield storage


def divide(storage: PostgresStorage, divisor: int) -> None:
    """Change something, in a batch that fails for 0 before its second statement."""
    with database_of(storage).write() as connection:
        assert connection.state.revision > 0
        connection.later("select 1 / %s", (divisor,))
        connection.later("select 2 + %s", (divisor,))


def test_a_change_that_fails_where_a_statement_gets_its_name_does_not_let_the_next_ones_fail(
    storage: PostgresStorage,
) -> None:
    for _ in range(UNTIL_NAMED):
        divide(storage, 1)
    with pytest.raises(DatabaseError):
        divide(storage, 0)
    for _ in range(UNTIL_NAMED + 2):
        divide(storage, 1)
    assert names_of(storage) >= {"select 1 / $1", "select 2 + $1"}


def names_of(storage: PostgresStorage) -> set[str]:
    """Return the statements that have a name in the session of the server."""
    with database_of(storage).read() as connection:
        return {statement for (statement,) in connection.execute("select statement from pg_prepared_statements")}


def test_a_writer_who_waits_for_another_where_its_statements_get_names_still_gives_them_names(
    cluster: Cluster, storage: PostgresStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(UNTIL_NAMED):
        divide(storage, 1)
    with psycopg.connect(cluster.url()) as other, monkeypatch.context() as patched:
        patched.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.2)
        other.execute(f'update "{tmp_path.name}".namespace set revision = revision'.encode())
        with pytest.raises(DatabaseLockError):
            divide(storage, 1)
    for _ in range(UNTIL_NAMED + 1):
        divide(storage, 1)
    assert any("schema_version" in statement for statement in names_of(storage))


def test_a_statement_that_returns_other_types_since_its_table_was_altered_can_be_repeated(
    cluster: Cluster, storage: PostgresStorage, tmp_path: Path
) -> None:
    def titles() -> list[str]:
        with database_of(storage).read() as connection:
            assert connection.state
            return [title for (title,) in connection.execute("select title from session_memories")]

    add(storage, new_memory("text"))
    before = [titles() for _ in range(UNTIL_NAMED + 1)][-1]
    with psycopg.connect(cluster.url()) as other:
        other.execute(f'alter table "{tmp_path.name}".session_memories alter column title type varchar'.encode())
    with pytest.raises(DatabaseError, match="repeat the call"):
        titles()
    assert titles() == before


def test_a_connection_to_a_server_that_cannot_say_its_timeline_is_kept_and_gives_names(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "SAID", "case when true then generate_series(1, 2) end")
    url = f"{cluster.url()}&connect_timeout=60"  # a pool of its own
    with closing(opened(url, tmp_path.name)) as storage:
        with database_of(storage).read() as connection:
            assert connection.hides_timeline
            kept = connection.info.backend_pid
        for _ in range(UNTIL_NAMED + 1):
            divide(storage, 1)
        assert names_of(storage) >= {"select 2 + $1"}
        with database_of(storage).read() as connection:
            assert connection.info.backend_pid == kept
