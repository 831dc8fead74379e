"""The version of a memory in PostgreSQL, and its upgrade while a server of the release before still writes."""

import threading
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

from engine_memories import DIMENSIONS, add, new_memory
from vector_memory.domain import Scope
from vector_memory.errors import DatabaseError
from vector_memory.storage.postgres import migrations, schema
from vector_memory.storage.postgres.database import PostgresDatabase
from vector_memory.storage.postgres.storage import PostgresStorage
from waiting import eventually

WAITING = """
select count(*) from pg_stat_activity
where wait_event_type = 'Lock' and query like '%namespace%' and datname = current_database()
"""


@pytest.fixture
def url(database: Callable[[str], str]) -> str:
    return database("postgres")


def opened(url: str) -> PostgresStorage:
    return PostgresStorage(PostgresDatabase(url, dimensions=DIMENSIONS))


def create_first_version(url: str) -> None:
    """Create the tables as the first release did, before any migration."""
    with closing(opened(url)) as storage:
        add(storage, new_memory("a", session_id="s"))
    with psycopg.connect(url, options="-c search_path=memory,public") as connection:
        connection.execute("alter table pending_vectors drop column promised_at")
        connection.execute("update namespace set schema_version = %s", (schema.FIRST_VERSION,))


def test_the_version_counts_the_migrations() -> None:
    assert migrations.newest_version() == schema.VERSION


def test_a_memory_of_the_first_version_is_upgraded_once_the_writers_before_have_ended(url: str) -> None:
    def upgrade() -> None:
        with closing(opened(url)) as storage, storage.read() as reader:
            counted.append(reader.count(Scope()))

    counted: list[int] = []
    create_first_version(url)
    with psycopg.connect(url, options="-c search_path=memory,public") as writer:
        writer.execute("update namespace set revision = revision + 1")
        upgrading = threading.Thread(target=upgrade)
        upgrading.start()
        with psycopg.connect(url, autocommit=True) as watching:
            eventually(lambda: watching.execute(WAITING).fetchall() == [(1,)])
        writer.execute("update session_memories set title = 'Written during the upgrade'")
        writer.commit()
        upgrading.join()
        row = writer.execute("select schema_version, title from namespace, session_memories").fetchone()
    assert row == (schema.VERSION, "Written during the upgrade")
    assert counted == [1]


def test_a_memory_of_a_development_version_is_refused_with_what_to_do(url: str) -> None:
    create_first_version(url)
    with psycopg.connect(url, options="-c search_path=memory,public") as connection:
        connection.execute("update namespace set schema_version = 6")
    with pytest.raises(DatabaseError, match="Run `vector-memory export` with that version"):
        opened(url)
