"""A memory in PostgreSQL is upgraded while a server of the release before still writes."""

import threading
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

from engine_memories import DIMENSIONS, new_memory
from old_words import add_old, downgrade
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


def test_words_that_an_earlier_release_commits_during_the_upgrade_are_outdated_too(
    url: str,
) -> None:
    def opened() -> PostgresStorage:
        return PostgresStorage(PostgresDatabase(url, dimensions=DIMENSIONS))

    def upgrade() -> None:
        with closing(opened()) as storage, storage.read() as reader:
            counted.append(reader.upkeep.count_outdated())

    counted: list[int] = []
    with closing(opened()) as storage:
        add_old(storage, new_memory("a", session_id="s"), new_memory("b", session_id="t"))
        downgrade(storage)
    with psycopg.connect(url, options="-c search_path=memory,public") as writer:
        writer.execute("update namespace set revision = revision + 1")
        upgrading = threading.Thread(target=upgrade)
        upgrading.start()
        with psycopg.connect(url, autocommit=True) as watching:
            eventually(lambda: watching.execute(WAITING).fetchall() == [(1,)])
        writer.execute("insert into keyword_blocks (session_id, units) values ('u', 1)")
        writer.execute("update keyword_memories set block_id = 3 where memory_id = 2")
        writer.commit()
        upgrading.join()
    assert counted == [2]


def test_an_upgrade_leaves_the_tables_of_the_schema_of_pgvector_alone(url: str) -> None:
    with closing(PostgresStorage(PostgresDatabase(url, dimensions=DIMENSIONS))) as storage:
        downgrade(storage)
    columns = "select column_name from information_schema.columns where table_schema = 'public' and table_name = %s"
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("create table public.spare_memory_passages (id bigint)")
        PostgresStorage(PostgresDatabase(url, dimensions=DIMENSIONS)).close()
        assert other.execute(columns, ("spare_memory_passages",)).fetchall() == [("id",)]
