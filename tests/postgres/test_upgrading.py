"""A memory in PostgreSQL is upgraded while a server of the release before still writes."""

import threading
from contextlib import closing
from pathlib import Path

import psycopg

from clusters import Cluster
from engine_memories import DIMENSIONS, new_memory
from old_words import add_old, downgrade
from vector_memory.storage.postgres.database import PostgresDatabase
from vector_memory.storage.postgres.storage import PostgresStorage
from waiting import eventually

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%namespace%'"


def test_words_that_an_earlier_release_commits_during_the_upgrade_are_outdated_too(
    cluster: Cluster, tmp_path: Path
) -> None:
    def opened() -> PostgresStorage:
        return PostgresStorage(PostgresDatabase(cluster.url(), schema=tmp_path.name, dimensions=DIMENSIONS))

    def upgrade() -> None:
        with closing(opened()) as storage, storage.read() as reader:
            counted.append(reader.upkeep.count_outdated())

    counted: list[int] = []
    with closing(opened()) as storage:
        add_old(storage, new_memory("a", session_id="s"), new_memory("b", session_id="t"))
        downgrade(storage)
    with psycopg.connect(cluster.url(), options=f'-c search_path="{tmp_path.name}",public') as writer:
        writer.execute("update namespace set revision = revision + 1")
        upgrading = threading.Thread(target=upgrade)
        upgrading.start()
        with psycopg.connect(cluster.url(), autocommit=True) as watching:
            eventually(lambda: watching.execute(WAITING).fetchall() == [(1,)])
        writer.execute("insert into keyword_blocks (session_id, units) values ('u', 1)")
        writer.execute("update keyword_memories set block_id = 3 where memory_id = 2")
        writer.commit()
        upgrading.join()
    assert counted == [2]


def test_an_upgrade_leaves_the_tables_of_the_schema_of_pgvector_alone(cluster: Cluster, tmp_path: Path) -> None:
    database = PostgresDatabase(cluster.url(), schema=tmp_path.name, dimensions=DIMENSIONS)
    with closing(PostgresStorage(database)) as storage:
        downgrade(storage)
    columns = "select count(*) from information_schema.columns where table_name = 'spare_memory_passages'"
    with psycopg.connect(cluster.url(), autocommit=True) as other:
        other.execute("create table public.spare_memory_passages (id bigint)")
        try:
            PostgresStorage(PostgresDatabase(cluster.url(), schema=tmp_path.name, dimensions=DIMENSIONS)).close()
            assert other.execute(columns).fetchall() == [(1,)]
        finally:
            other.execute("drop table public.spare_memory_passages")
