"""sqlite-vec: the release whose tables the adapter reads, and that it reads from them what was written."""

import math
import re
from collections.abc import Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from pydantic import ValidationError, create_model

from engine_memories import add, new_memory, open_sqlite
from engines import execute
from lattice import DIMENSIONS as LATTICE
from lattice import LatticeEmbedder
from vector_memory.answers.models import Score, Share, Value
from vector_memory.domain import TRAITS, MemoryKind, Scope
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.queries.passages import FIRST_MODEL
from vector_memory.storage.scoring import Numbers, Vectors
from vector_memory.storage.sqlite import schema, vec0
from vector_memory.storage.sqlite.connecting import load_vector_search
from vector_memory.storage.sqlite.schema import SIGNATURE_TABLE, SIGNATURES_PER_BLOCK, tables_of
from vector_memory.storage.sqlite.vec0 import (
    BLOCKS,
    BLOCKS_AT_ONCE,
    Chosen,
    are_blocks_consistent,
    estimate,
    likeliest_passages,
    passages_at,
    read_blocks,
    read_vectors,
)
from vector_memory.store import SessionMemoryStore

CHUNK_TABLE = tables_of(FIRST_MODEL).chunks

SHADOW_TABLES = {
    "info": "key value",
    "chunks": "chunk_id size sequence_id partition00 validity rowids",
    "rowids": "rowid id chunk_id chunk_offset",
    "vector_chunks00": "rowid vectors",
}
"""The tables of a vec0 table, by the suffixes of their names, and their columns."""

SRC = Path(vec0.__file__).parents[2]
DIMENSIONS = 100
"""Of the vectors whose signatures are written: these have two words, the second of which is not full."""


@pytest.fixture
def connection() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    load_vector_search(connection)
    connection.execute(schema.vector_tables(4)[CHUNK_TABLE])
    connection.execute(schema.vector_tables(DIMENSIONS)[SIGNATURE_TABLE])
    rows = np.arange(400, dtype=np.float32).reshape(100, 4)
    connection.executemany(
        f"insert into {CHUNK_TABLE} values (?, ?, ?)",
        [(number + 1, number % 3, row.tobytes()) for number, row in enumerate(rows)],
    )
    return connection


def test_the_installed_release_is_the_one_that_the_adapter_was_written_for(connection: apsw.Connection) -> None:
    """A newer one may keep vectors in another way: compare `vec0` with its sources before raising the bound."""
    assert version("sqlite-vec") == vec0.VERSION
    assert connection.execute("select vec_version()").get == f"v{vec0.VERSION}"


def test_the_tables_of_a_vec0_table_are_those_that_the_adapter_names(connection: apsw.Connection) -> None:
    for table, more in ((CHUNK_TABLE, {}), (SIGNATURE_TABLE, {"metadatachunks00": "rowid data"})):
        columns = "(select group_concat(lower(c.name), ' ') from pragma_table_info(s.name) c)"
        found = connection.execute(f"select name, {columns} from sqlite_schema s where name glob ?", (f"{table}_*",))
        assert {str(name).removeprefix(f"{table}_"): own for name, own in found} == SHADOW_TABLES | more


WANTED = {
    "all": range(-5, 200),
    "nothing": (),
    "one": (34,),
    "neighbours": range(30, 60),
    "far apart": (99, 1, 50, 77, 10**15),
    "every third": range(1, 101, 3),
}


@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED)
def test_vectors_read_from_the_blocks_are_those_that_a_query_gives(
    connection: apsw.Connection, wanted: Sequence[int]
) -> None:
    connection.execute(f"delete from {CHUNK_TABLE} where passage_id % 7 = 0")
    rows = connection.execute(f"select passage_id, embedding from {CHUNK_TABLE} order by passage_id").fetchall()
    ids, vectors = read_vectors(connection, CHUNK_TABLE, 4, list(wanted))
    found = list(zip(ids.tolist(), [vector.tobytes() for vector in vectors], strict=True))
    assert found == [row for row in rows if row[0] in wanted]
    assert are_blocks_consistent(connection, CHUNK_TABLE, 4)


class AllUnits:
    """Words that are worth nothing: every unit is in the scope."""

    def of(self, unit_ids: Numbers) -> Vectors:
        return np.where(unit_ids != 0, np.float32(0), np.float32(-np.inf))

    def best(self, count: int) -> Numbers:  # noqa: ARG002
        return np.empty(0, np.int64)


KINDS = (3, 8)
QUERY = np.ones(DIMENSIONS, np.float32) / 10
Signed = dict[int, tuple[int, bytes]]
"""By the ids of passages, the id of the unit and the signature."""


def write_signatures(connection: apsw.Connection, first: int, count: int) -> None:
    """Write signatures of passages of both kinds, whose ids and units ascend from `first` on."""
    rows = np.random.default_rng(first).integers(0, 256, (count, 16), np.uint8)
    rows[:, (DIMENSIONS + 7) // 8 :] = 0
    connection.executemany(
        f"insert into {SIGNATURE_TABLE} (passage_id, kind_key, unit_id, signature) values (?, ?, ?, vec_bit(?))",
        [(number, KINDS[number % 2], 10**10 + number // 3, row.tobytes()) for number, row in enumerate(rows, first)],
    )


def read_signatures(connection: apsw.Connection, kind: int) -> Signed:
    """Return what `signatures` reads of a kind."""
    sql = f"select chunk_id from {SIGNATURE_TABLE}_chunks where partition00 = ? order by chunk_id"
    blocks = [number for (number,) in connection.execute(sql, (kind,))]
    units = np.empty((len(blocks), SIGNATURES_PER_BLOCK), np.int64)
    read_blocks(connection, f"{SIGNATURE_TABLE}_metadatachunks00", "data", blocks, units)
    chosen = Chosen(10**6)
    estimate(connection, f"{SIGNATURE_TABLE}_vector_chunks00", blocks, units, QUERY, AllUnits(), chosen)
    found = chosen.best()
    assert found is not None
    ids = passages_at(connection, SIGNATURE_TABLE, blocks, found.rows).tolist()
    assert len(ids) == len(set(ids))
    own = zip(units.ravel()[found.rows].tolist(), [each.tobytes() for each in found.signatures], strict=True)
    return dict(zip(ids, own, strict=True))


def test_signatures_read_in_blocks_are_those_that_were_written_also_after_deletions_and_new_ones(
    connection: apsw.Connection,
) -> None:
    count = (BLOCKS_AT_ONCE + 1) * SIGNATURES_PER_BLOCK * 2 + 50
    write_signatures(connection, 1, count)
    connection.execute(f"delete from {SIGNATURE_TABLE} where passage_id % 5 = 0 or passage_id between 4000 and 9000")
    write_signatures(connection, count + 1, 700)
    for kind in KINDS:
        sql = f"select passage_id, unit_id, signature from {SIGNATURE_TABLE} where kind_key = ?"
        written: list[Any] = connection.execute(sql, (kind,)).fetchall()
        assert read_signatures(connection, kind) == {number: (unit, row) for number, unit, row in written}
        newest = likeliest_passages(connection, SIGNATURE_TABLE, kind, QUERY, AllUnits(), len(written), 1)
        assert set(newest.passage_ids.tolist()) >= {number for number, *_ in written[-SIGNATURES_PER_BLOCK:]}
        everything = likeliest_passages(connection, SIGNATURE_TABLE, kind, QUERY, AllUnits(), len(written), None)
        assert (set(everything.passage_ids.tolist()), everything.complete) == ({one for one, *_ in written}, True)
    assert are_blocks_consistent(connection, SIGNATURE_TABLE, DIMENSIONS)
    nothing = likeliest_passages(connection, SIGNATURE_TABLE, None, QUERY, AllUnits(), 10, None)
    assert (len(nothing.passage_ids), len(nothing.unit_ids), nothing.complete) == (0, 0, True)


@pytest.mark.parametrize(
    "damage",
    [
        "delete from {table}_vector_chunks00",
        "delete from {table}_metadatachunks00",
        "update {table}_vector_chunks00 set vectors = zeroblob(8)",
        "update {table}_metadatachunks00 set data = 7",
        "update {table}_chunks set rowids = zeroblob(8)",
    ],
)
def test_damaged_blocks_of_signatures_are_noticed(connection: apsw.Connection, damage: str) -> None:
    write_signatures(connection, 1, 100)
    connection.execute(damage.format(table=SIGNATURE_TABLE))
    assert not are_blocks_consistent(connection, SIGNATURE_TABLE, DIMENSIONS)
    with pytest.raises(DamagedError):
        likeliest_passages(connection, SIGNATURE_TABLE, KINDS[0], QUERY, AllUnits(), 10, None)


def test_each_block_is_checked_by_its_key(connection: apsw.Connection) -> None:
    """Otherwise SQLite looks at all blocks for each of them: minutes in a memory of a million passages."""
    sql = BLOCKS.format(table=SIGNATURE_TABLE, suffix="vector_chunks00", column="vectors", length=1)
    plan = [row[3] for row in connection.execute(f"explain query plan {sql}")]
    assert [step.split()[0] for step in plan] == ["SCAN", "SEARCH"]


@pytest.mark.parametrize("kind", [MemoryKind.REPORT, MemoryKind.INPUT_PROMPT])
def test_a_removed_memory_leaves_no_byte_among_the_signatures(tmp_path: Path, kind: MemoryKind) -> None:
    with closing(open_sqlite(tmp_path)) as storage:

        def rows() -> dict[str, list[tuple[Any, ...]]]:
            named = execute(storage, f"select name from sqlite_schema where name glob '{SIGNATURE_TABLE}_*'")
            return {name: execute(storage, f"select * from {name}") for (name,) in named}

        add(storage, new_memory("alpha beta", kind))
        before = rows()
        removed = add(storage, new_memory("gamma delta words", kind))
        assert rows() != before
        with storage.write() as writer:
            writer.delete(removed)
        assert rows() == before


def test_no_other_module_names_the_tables_of_sqlite_vec() -> None:
    suffixes = ("_rowids", "_vector_chunks00", "metadatachunks")
    named = {
        path.relative_to(SRC).as_posix()
        for path in SRC.rglob("*.py")
        if any(suffix in path.read_text(encoding="utf-8") for suffix in suffixes)
    }
    assert named == {"storage/sqlite/vec0.py"}


def test_sqlite_vec_compares_nothing_and_filters_by_integers_only() -> None:
    """Its searches put vectors of zeros first, and end with an error for a range of texts; it limits `k` to 4,096."""
    assert set(re.findall(r"\n +\w+ (\w+)", " ".join(schema.vector_tables(4).values()))) == {"integer", "float", "bit"}
    searches = re.compile(r"\b(embedding|signature)\s+match\b|\bvec_distance_")
    assert [path.name for path in SRC.rglob("*.py") if searches.search(path.read_text(encoding="utf-8"))] == []


def test_a_statement_that_binds_a_numpy_number_fails_in_every_test(tmp_path: Path) -> None:
    with closing(open_sqlite(tmp_path)) as storage, storage.write() as writer:
        assert writer.connection.raw.execute("select typeof(?)", (1,)).get == "integer"
        for number in (np.int64(1), np.float32(1), np.bool_(1)):
            with pytest.raises(AssertionError, match="binds"):
                writer.connection.raw.execute("select ?", (number,))


@pytest.mark.parametrize("number", [math.nan, math.inf, 3e38, 9.0])
@pytest.mark.parametrize("kind", [MemoryKind.REPORT, MemoryKind.WORKING_MEMORY])
def test_a_damaged_vector_puts_no_nan_into_an_answer_and_its_text_not_first(
    store: SessionMemoryStore, kind: MemoryKind, number: float
) -> None:
    for text in ("The red fox runs.", "A blue whale swims.", "Green frogs jump."):
        store.store_memory(kind, text, session_id="s", agent_id="a")
    table = f"{tables_of(FIRST_MODEL)[not TRAITS[kind].chunked]}_vector_chunks00"
    ((vectors,),) = execute(store, f"select vectors from {table}")
    damaged = np.frombuffer(vectors, np.float32).copy()
    damaged[:LATTICE] = np.copysign(number, LatticeEmbedder.vector("blue whale"))
    execute(store, f"update {table} set vectors = ?", damaged.tobytes())
    for search in (store.search_memories, store.search_chunks, store.search_sections, store.search_documents):
        answer = search("blue whale", Scope(kind=kind))
        assert "red fox" not in repr(answer.results[0])
        assert "nan" not in repr(answer.model_dump())


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [float, Share, Score])
def test_no_answer_can_be_made_with_a_number_that_json_does_not_have(number: float, kind: Any) -> None:
    """FastMCP would send null in its place, which no client accepts where the schema names a number."""
    answer = create_model("Answer", __base__=Value, number=kind | None)
    assert answer(number=0.5)["number"] == 0.5
    with pytest.raises(ValidationError, match="finite"):
        answer(number=number)
