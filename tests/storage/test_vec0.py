"""sqlite-vec: the release whose tables the adapter reads."""

from importlib.metadata import version
from pathlib import Path

import apsw
import numpy as np
import pytest

from vector_memory.storage.knn import MAX_K
from vector_memory.storage.sqlite import schema, vec0
from vector_memory.storage.sqlite.vec0.blocks import are_blocks_consistent, read_vectors

SRC = Path(vec0.__file__).parents[2].parent


@pytest.fixture
def connection() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    vec0.load_vector_search(connection)
    connection.execute(schema.VECTOR_TABLE.format(table="vectors", dimensions=4, rows=schema.PARTITION_ROWS))
    rows = np.arange(400, dtype=np.float32).reshape(100, 4)
    connection.executemany(
        "insert into vectors values (?, ?, 1, 1, 1, 1, ?)",
        [(number + 1, number % 3, row.tobytes()) for number, row in enumerate(rows)],
    )
    return connection


def test_the_installed_release_is_the_one_that_the_adapter_was_written_for(connection: apsw.Connection) -> None:
    """A newer one may keep vectors in another way: compare `vec0` with its sources before raising the bound."""
    assert version("sqlite-vec") == vec0.VERSION
    assert connection.execute("select vec_version()").get == f"v{vec0.VERSION}"


def test_the_tables_of_a_vec0_table_are_those_that_the_adapter_names(connection: apsw.Connection) -> None:
    names = [name for (name,) in connection.execute("select name from sqlite_schema where name like 'vectors_%'")]
    assert {name.removeprefix("vectors_") for name in names} == vec0.SHADOW_TABLES.keys()
    for suffix, columns in vec0.SHADOW_TABLES.items():
        rows = connection.execute("select lower(name) from pragma_table_info(?)", (f"vectors_{suffix}",))
        assert columns <= {name for (name,) in rows} | {"rowid"}


def test_it_answers_no_query_for_more_neighbours_than_the_limit(connection: apsw.Connection) -> None:
    sql = "select count(*) from (select passage_id from vectors where embedding match ? and k = ?)"
    query = np.zeros(4, np.float32).tobytes()
    assert connection.execute(sql, (query, MAX_K)).get == 100
    with pytest.raises(apsw.SQLError):
        connection.execute(sql, (query, MAX_K + 1))


def test_vectors_read_in_blocks_are_those_that_a_query_gives_also_after_the_table_was_renamed(
    connection: apsw.Connection,
) -> None:
    connection.execute("delete from vectors where passage_id % 7 = 0")
    for table in ("vectors", "renamed"):
        if table == "renamed":
            vec0.rename_table(connection, "vectors", "renamed")
        rows = connection.execute(f"select passage_id, embedding from {table} order by passage_id").fetchall()
        ids, vectors = read_vectors(connection, table, 4, list(range(1, 101)))
        assert list(zip(ids.tolist(), [vector.tobytes() for vector in vectors], strict=True)) == rows
        assert are_blocks_consistent(connection, table, 4)


def test_no_other_module_names_the_tables_of_sqlite_vec() -> None:
    suffixes = ("_rowids", "_vector_chunks00", "metadatachunks")
    named = {
        path.relative_to(SRC).as_posix()
        for path in SRC.rglob("*.py")
        if any(suffix in path.read_text(encoding="utf-8") for suffix in suffixes)
    }
    assert named == {"storage/sqlite/vec0/blocks.py", "storage/sqlite/vec0/__init__.py"}
