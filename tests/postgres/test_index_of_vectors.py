"""The optional index of vectors answers searches of large scopes, and never makes an answer worse than it must be."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import psycopg
import pytest

from clusters import Cluster
from forked import finished
from vector_memory.domain import MemoryKind, Scope
from vector_memory.errors import DatabaseError, DatabaseLockError
from vector_memory.extras.postgres import approximate, candidates
from vector_memory.extras.postgres.candidates import passage_filter
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.database import PostgresDatabase
from vector_memory.extras.postgres.doctor import PRESENT_INDEXES, faulty_indexes, inspected
from vector_memory.extras.postgres.statement import fetch_column
from vector_memory.extras.postgres.transactions import PostgresConnection
from vector_memory.storage.connection import Queries
from vector_memory.storage.scoring import Numbers, Vectors
from waiting import eventually

DIMENSIONS = 32
PASSAGES = 4_000
FAR, FARTHEST = 300, "far"
"""So many passages with this task have the vectors that are farthest from the pole."""

SCHEMA = "memory"
NUMBERS = itertools.count()
SHARES = (2, 10, 100, 1_000)
"""A task of this number has one in so many passages."""

MODEL = "insert into embedding_models values (1, 'toy', %(length)s, 'fp32', 'toy', true)"
FILL = """
insert into session_memories (
    id, memory_type, agent_id, session_id, session_iter, task_code, content, content_length, content_bytes, tags,
    metadata, came_from, trust, content_hash, created_at, updated_at, accessed_at, access_count, auto_chunk,
    chunk_count, turn
)
select i, 'input_prompt', 'a', 's', 1, %(task)s, 'text', 4, 4, '{}', '{}', '{}', 0, i::text, '2026', '2026', '2026', 0,
    false, 0, i
from unnest(%(ids)s::bigint[]) i
"""
FILL_PASSAGES = """
insert into memory_passages (
    id, model_id, memory_id, start_char, end_char, memory_type, agent_id, session_id, session_iter, task_code, embedding
) select m.id, 1, m.id, 0, 4, m.memory_type, m.agent_id, m.session_id, 1, m.task_code,
    (%(vectors)s::real[])[(w.number - 1) * %(length)s + 1 : w.number * %(length)s]::vector
from unnest(%(ids)s::bigint[]) with ordinality w(id, number) join session_memories m on m.id = w.id
"""


def unit_vectors(count: int, seed: int) -> Any:
    made = np.random.default_rng(seed).standard_normal((count, DIMENSIONS)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def pole(count: int = 1) -> Any:
    """Vectors of one direction, which no random one comes near."""
    made = unit_vectors(count, 6) / 8
    made[:, 0] += 1
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> str:
    """A database with a memory of many passages, whose tasks let through one in 2, 10, 100 and 1,000 of them, or the
    farthest ones.

    Creating an index waits for all older transactions of its database: no other test has any there.
    """
    url = cluster.create_database(f"indexed_{next(NUMBERS)}")  # the tests of this file may not follow each other
    made = np.concatenate([unit_vectors(PASSAGES, 1), -pole(FAR)])
    ids = np.arange(1, PASSAGES + FAR + 1)
    shares = [max((share for share in SHARES if number % share == 0), default=0) for number in ids[:PASSAGES]]
    tasks = np.array([*map(str, shares), *[FARTHEST] * FAR])
    database = PostgresDatabase(url, schema=SCHEMA, dimensions=DIMENSIONS)
    with database.write() as connection:
        connection.execute(MODEL, {"length": DIMENSIONS})
        for task in np.unique(tasks):
            own = ids[tasks == task]
            connection.execute(FILL, {"task": f"{task}", "ids": own})
            connection.execute(FILL_PASSAGES, {"ids": own, "vectors": made[tasks == task], "length": DIMENSIONS})
    database.close()
    return url


@pytest.fixture
def connection(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A connection in a transaction, on a memory with the index, for which any scope is large."""
    monkeypatch.setattr(approximate, "EXACT_PASSAGES", 0)
    approximate.change(url, SCHEMA)
    database = PostgresDatabase(url, schema=SCHEMA, dimensions=DIMENSIONS)
    with database.read() as connection:
        yield connection
    database.close()


def scopes() -> list[Scope]:
    return [Scope(MemoryKind.INPUT_PROMPT), *(Scope(MemoryKind.INPUT_PROMPT, task_code=f"{s}") for s in (0, *SHARES))]


def plans_of(connection: Connection, scope: Scope) -> list[str]:
    """Return the plans of the statements that search a scope."""
    plans: list[str] = []
    send = Connection.send

    def explained(connection: Connection, statements: Any) -> Any:
        asked = ["limit %(k)s" in statement.sql for statement in statements]
        if any(asked):
            place = asked.index(True)
            question = statements[place]._replace(sql=f"explain {statements[place].sql}", binary=False)
            answers = send(connection, [*statements[:place], question, *statements[place + 1 :]])
            plans.append("\n".join(line for (line,) in answers[place].fetchall()))
        return send(connection, statements)

    connection.together()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "send", explained)
        nearest_units(connection, scope, unit_vectors(1, 3)[0], 200)
    return plans


def nearest(
    connection: Connection, scope: Scope, query: Vectors, count: int, *, approximately: bool = True
) -> tuple[Numbers, Vectors, bool]:
    """Return the units and vectors of the nearest passages, and whether they are exact."""
    own = PostgresConnection(connection)
    return Queries(own).run(candidates.nearest(own, scope, "p.model_id = 1", query, count, approximately=approximately))


def nearest_units(connection: Connection, scope: Scope, query: Vectors, count: int) -> Numbers:
    """Return the units of the passages that are nearest, or nearly so."""
    return nearest(connection, scope, query, count)[0]


def test_the_application_decides_whether_a_search_uses_the_index(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = Scope(MemoryKind.INPUT_PROMPT, task_code="2")
    monkeypatch.setattr(approximate, "EXACT_PASSAGES", PASSAGES // 10)
    assert [approximate.NAME in plan for plan in plans_of(connection, half)] == [True]
    monkeypatch.setattr(approximate, "EXACT_PASSAGES", PASSAGES)
    assert [approximate.NAME in plan for plan in plans_of(connection, half)] == [False]


def test_an_answer_is_complete_where_the_index_finds_too_few(connection: Connection) -> None:
    rare = Scope(MemoryKind.INPUT_PROMPT, task_code="1000")
    assert len(nearest_units(connection, rare, unit_vectors(1, 4)[0], 200)) == PASSAGES // 1_000
    connection.execute("select set_config('hnsw.max_scan_tuples', '1', true)")
    tenth = Scope(MemoryKind.INPUT_PROMPT, task_code="10")
    assert len(nearest_units(connection, tenth, unit_vectors(1, 5)[0], 300)) == 300


def test_an_answer_of_the_farthest_passages_is_complete_where_the_index_stops_for_lack_of_memory(
    connection: Connection,
) -> None:
    farthest, query, wanted = Scope(MemoryKind.INPUT_PROMPT, task_code=FARTHEST), pole()[0], 200
    of_model, all_of_scope = "p.model_id = 1", passage_filter(farthest)
    condition = all_of_scope._replace(sql=f"{all_of_scope.sql} and {of_model}")
    connection.execute("select set_config('hnsw.max_scan_tuples', '1000000', true)")
    assert approximate.nearest(connection, condition, of_model, query, wanted) is not None
    connection.execute("select set_config('work_mem', '64kB', true)")
    assert approximate.nearest(connection, condition, of_model, query, wanted) is None
    units, _, is_exact = nearest(connection, farthest, query, wanted)
    all_far, vectors, _ = nearest(connection, farthest, query, FAR, approximately=False)
    assert is_exact
    assert units.tolist() == all_far[np.argsort(-(vectors @ query), kind="stable")][:wanted].tolist()


def state_of_index(url: str) -> tuple[list[str], bool]:
    """Return the faulty indexes, and whether searches use the one of vectors."""
    with inspected(url, SCHEMA) as connection:
        everything = passage_filter(Scope(MemoryKind.INPUT_PROMPT))
        return faulty_indexes(connection), approximate.is_usable(connection, everything, "model_id = 1")


def test_an_index_that_was_not_completed_is_not_used_and_is_replaced(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "EXACT_PASSAGES", 0)
    approximate.change(url, SCHEMA)
    invalid = f"update pg_index set indisvalid = %s where indexrelid = '{SCHEMA}.{approximate.NAME}'::regclass"
    with psycopg.connect(url) as connection:
        connection.execute(invalid, (False,))
    assert state_of_index(url) == ([approximate.NAME], False)
    approximate.change(url, SCHEMA)
    assert state_of_index(url) == ([], True)
    approximate.change(url, SCHEMA, drop=True)
    assert state_of_index(url) == ([], False)


def test_one_process_at_a_time_creates_or_drops_the_index(url: str) -> None:
    with approximate.maintained(url, SCHEMA):
        for drop in (False, True):
            with pytest.raises(DatabaseLockError, match="Another process is creating or dropping the index"):
                approximate.change(url, SCHEMA, drop=drop)
    approximate.change(url, SCHEMA, drop=True)


def test_a_process_that_changed_the_index_blocks_no_other_when_its_connection_ends_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Connection.close
    with monkeypatch.context() as patch, ExitStack() as later:
        patch.setattr(Connection, "close", lambda connection: later.callback(close, connection))
        approximate.change(url, SCHEMA)
        with pytest.raises(ZeroDivisionError), approximate.maintained(url, SCHEMA):
            raise ZeroDivisionError
        approximate.change(url, SCHEMA, drop=True)


def test_an_index_that_is_being_built_is_neither_used_nor_faulty(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "EXACT_PASSAGES", 0)
    approximate.change(url, SCHEMA, drop=True)
    building = threading.Thread(target=approximate.change, args=(url, SCHEMA), daemon=True)
    with psycopg.connect(url) as older, psycopg.connect(url, autocommit=True) as watching:
        older.execute("begin isolation level repeatable read")
        older.execute("select 1")  # the end of building waits for its snapshot
        building.start()
        waits = "select 1 from pg_stat_progress_create_index where phase ~ 'waiting for old snapshots'"
        eventually(lambda: watching.execute(waits).fetchall())
        assert state_of_index(url) == ([], False)
        older.rollback()
        building.join()
    approximate.change(url, SCHEMA, drop=True)


def test_only_the_index_of_the_memory_itself_is_created_and_dropped(database: Callable[[str], str]) -> None:
    url = database("postgres")
    for memory in ("memory", "public"):  # all have the schema of pgvector in their path
        PostgresDatabase(url, schema=memory, dimensions=DIMENSIONS).close()
    approximate.change(url, "public")
    with pytest.raises(DatabaseError, match="no memory in this schema"):
        approximate.change(url, "absent", drop=True)
    approximate.change(url, "memory", drop=True)
    with inspected(url, "public") as connection:
        assert approximate.NAME in fetch_column(connection, PRESENT_INDEXES)
    approximate.change(url, "public", drop=True)
    with pytest.raises(DatabaseError, match="no memory in this schema"):
        approximate.change(url, "absent")
    with inspected(url, "public") as connection:
        assert approximate.NAME not in fetch_column(connection, PRESENT_INDEXES)


def test_searches_of_filtered_scopes_find_the_ten_nearest_passages(connection: Connection) -> None:
    found, wanted = 0, 0
    for query in unit_vectors(20, 2):
        for scope in scopes():
            near = nearest_units(connection, scope, query, 200)[:10]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(approximate, "EXACT_PASSAGES", PASSAGES)
                exact = nearest_units(connection, scope, query, 200)[:10]
            assert len(near) == len(exact)
            found, wanted = found + len(np.intersect1d(near, exact)), wanted + len(exact)
    assert found >= 0.99 * wanted


def test_the_command_creates_and_drops_the_index(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        there = f"select to_regclass('{SCHEMA}.{approximate.NAME}') is not null"
        for flags, is_there in (((), True), (("--drop",), False)):
            ended = finished("database", "index", "--database-url", url, *flags)
            assert (ended.returncode, connection.execute(there).fetchall()) == (0, [(is_there,)]), ended.stderr
