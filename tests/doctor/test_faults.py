"""The doctor reports what is in the file; the table of faults says what finds damage and what a repair leaves."""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

import apsw
import psycopg
import pytest
from psycopg import sql as parts

from clusters import shared_cluster
from doctor.conftest import store_all
from memory_files import SETTINGS, WRITER, Modelless, bytes_of, change, contents, doctor, examine, found, process, said
from original_files import unpacked
from vector_memory.domain import Page, Scope
from vector_memory.errors import DatabaseError
from vector_memory.settings import DatabaseUrl, Settings
from vector_memory.storage.sqlite.inspection import inspect
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Level

ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r)"


class Fault(NamedTuple):
    """Statements that damage a memory, a check that finds it, and the value that a repair gives to a column."""

    sql: str
    check: str
    column: str = ""
    value: Any = None


Faults = dict[str, tuple[str, str] | tuple[str, str, str, Any]]


ANYWHERE: Faults = {
    "a chunk in the wrong place": ("update memory_chunks set start_char = 1, end_char = 3 where id = 2", "chunks"),
    "a chunk's text changed": ("update memory_chunks set content = upper(content) where id = 2", "chunks"),
    "a passage beyond the text": ("update memory_passages set end_char = 9999 where memory_id = 3", "passages"),
    "a passage outside its chunk": ("update memory_passages set start_char = 0 where chunk_id = 3", "passages"),
    "a passage that begins within a word": (
        "update memory_passages set start_char = start_char + 1 where memory_id = 3",
        "passages",
    ),
    "an empty passage": ("update memory_passages set end_char = start_char where memory_id = 3", "passages"),
    "passages removed": ("delete from memory_passages where memory_id in (1, 3)", "passages"),
    "a chunk's passages removed": ("delete from memory_passages where chunk_id = 3", "passages"),
    "a memory superseded for too short a time": (
        "update memory_lifecycle set superseded_until = '2026-01-01' where memory_id = 1",
        "superseded",
    ),
    "a memory superseded by nothing": ("delete from supersessions", "superseded"),
    "a memory not superseded": ("delete from memory_lifecycle", "superseded"),
    "a keyword row removed": (
        "delete from keyword_postings where id = (select max(id) from keyword_postings)",
        "keywords",
    ),
    "a memory taken out of the keyword index": ("delete from keyword_memories where memory_id = 7", "keywords"),
    "the only memory of a block taken out": ("delete from keyword_memories where memory_id = 3", "keywords"),
    "a memory filed in another block": (
        "update keyword_memories set block_id = (select max(id) from keyword_blocks) where memory_id = 7",
        "keywords",
    ),
    "keywords of another kind": ("update keyword_blocks set kind = 'elsewhere' where id = 3", "keywords"),
    "half a keyword": (
        "update keyword_postings set postings = substr(postings, 5) where id = (select min(id) from keyword_postings)",
        "keywords",
    ),
    "a block that counts too few pieces": ("update keyword_blocks set units = 1", "keywords"),
    "blocks removed": ("delete from keyword_blocks", "counts"),
    **{
        f"a block's {column} {size} bytes too short": (
            f"update keyword_blocks set {column} = substr({column}, 1, length({column}) - {size}) where id = 1",
            "keywords",
        )
        for column, size in (("memory_ids", 8), ("sizes", 4), ("unit_ids", 8), ("lengths", 4), ("unit_ids", 3))
    },
    **{
        f"a block with another's {column}": (
            f"update keyword_blocks set {column} = (select {column} from keyword_blocks where id = 6) where id = 3",
            "keywords",
        )
        for column in ("memory_ids", "unit_ids", "lengths")
    },
    "chunks in other places": ("update memory_chunks set chunk_index = chunk_index + 100", "chunks"),
    "words that an earlier release indexed": ("update keyword_blocks set rules = 0", "outdated"),
    "a memory without vectors": (
        """
        delete from memory_passages where memory_id = 3;
        update session_memories set embedding_model_id = null where id = 3
        """,
        "unindexed",
    ),
    "a text changed": ("update session_memories set content = upper(content) where id = 3", "text"),
    "a word of a text changed": (
        "update session_memories set content = replace(content, 'word3', 'word4') where id = 1",
        "text",
    ),
    "a checksum changed": ("update session_memories set content_hash = 'x' where id = 3", "text"),
    "another model": ("update embedding_models set model = 'another'", "fingerprint"),
}

IN_SCHEMAS: Faults = {
    "vectors of another length": ("update memory_passages set embedding = array_fill(1, array[16])::vector", "vectors"),
    "a vector of another session": (
        "update memory_passages set session_id = 'other' where id = (select min(id) from memory_passages)",
        "index",
    ),
    "a passage of another memory's chunk": (
        "update memory_passages set chunk_id = (select max(id) from memory_chunks) where chunk_id = 1",
        "index",
    ),
    "an index removed": ("drop index idx_kind", "indexes"),
}

REFUSED: Faults = {
    "a shadow table of sqlite-vec dropped": ("drop table vec_chunk_search_rowids", "tables"),
    "a shadow table with other columns": (
        "drop table vec_session_search_rowids; create table vec_session_search_rowids (a, b)",
        "tables",
    ),
    "an endless view in place of a table": (
        f"""
        drop trigger removed_from_vec_chunk_search; drop table memory_passages;
        create view memory_passages as {ENDLESS} select n as id, n as memory_id from r
        """,
        "tables",
    ),
    "an endless view in place of the models": (
        f"drop table embedding_models; create view embedding_models as {ENDLESS} select n as id from r",
        "tables",
    ),
    "a table dropped": ("drop table keyword_postings", "tables"),
    "a column too many": ("alter table session_memories add column extra text", "tables"),
    "an index dropped": ("drop index idx_embedding_model", "tables"),
    "a trigger of somebody else": (
        "create trigger other after insert on session_memories begin delete from session_memories; end",
        "tables",
    ),
    "the record of the schema emptied": ("delete from schema_migrations", "tables"),
    "the record of the schema dropped": ("drop table schema_migrations", "tables"),
}
"""Files that cannot be opened before they are repaired."""

IN_FILES: Faults = REFUSED | {
    "a chunk removed": ("pragma foreign_keys = on; delete from memory_chunks where id = 3", "chunks"),
    "a model removed": ("delete from embedding_models", "references"),
    "a vector removed": ("delete from vec_chunk_search where passage_id = 2", "vectors"),
    "a whole memory's vector removed": (
        "delete from vec_session_search where passage_id = (select min(id) from memory_passages where memory_id = 4)",
        "vectors",
    ),
    "a vector of another passage": (
        """
        update vec_chunk_search set embedding = (select embedding from vec_chunk_search where passage_id = 1)
        where passage_id = 2
        """,
        "vectors",
    ),
    "a vector of zeros": ("update vec_chunk_search set embedding = zeroblob(64) where passage_id = 2", "vectors"),
    "a vector of nothing": (
        "insert into vec_chunk_search (passage_id, session_key, embedding) values (9999, 1, zeroblob(64))",
        "references",
    ),
    "sqlite-vec's own tables damaged": ("delete from vec_chunk_search_chunks", "references"),
    "vectors hidden": ("update vec_chunk_search_chunks set validity = zeroblob(4)", "references"),
    "vectors renamed": ("update vec_chunk_search_chunks set rowids = zeroblob(256)", "references"),
    "a list of vectors shortened": ("update vec_chunk_search_chunks set rowids = x'00'", "references"),
    "a block of vectors removed": ("delete from vec_chunk_search_vector_chunks00 where rowid = 1", "references"),
    "a vector outside its block": (
        "update vec_chunk_search_rowids set chunk_offset = -5 where rowid = 2",
        "references",
    ),
    "a signature removed": ("delete from vec_signatures where passage_id = 2", "index"),
    "a whole memory's signature removed": (
        "delete from vec_signatures where passage_id = (select min(id) from memory_passages where memory_id = 4)",
        "index",
    ),
    "a signature's unit changed": ("update vec_signatures set unit_id = unit_id + 1 where passage_id = 2", "index"),
    "signatures of zeros": ("update vec_signatures_vector_chunks00 set vectors = zeroblob(length(vectors))", "index"),
    "a passage of another memory's chunk": (
        "update memory_passages set chunk_id = (select max(id) from memory_chunks) where chunk_id = 1",
        "index",
    ),
    "a signature of another kind": (
        """
        create temp table changed as select * from vec_signatures where passage_id = 2;
        delete from vec_signatures where passage_id = 2;
        insert into vec_signatures (passage_id, kind_key, unit_id, signature)
        select 2, (select id from index_keys where name = 'input_prompt'), unit_id, vec_bit(signature) from changed
        """,
        "index",
    ),
    "a signature of nothing": (
        """
        insert into vec_signatures (passage_id, kind_key, unit_id, signature)
        values (9999, (select min(kind_key) from vec_signatures), 2, vec_bit(zeroblob(8)))
        """,
        "references",
    ),
    "signatures hidden": ("update vec_signatures_chunks set validity = zeroblob(128)", "references"),
    "signatures renamed": ("update vec_signatures_chunks set rowids = zeroblob(8192)", "references"),
    "a block of signatures removed": ("delete from vec_signatures_vector_chunks00 where rowid = 1", "references"),
    "a block of signatures shortened": (
        "update vec_signatures_vector_chunks00 set vectors = zeroblob(8) where rowid = 1",
        "references",
    ),
    "the units of signatures removed": ("delete from vec_signatures_metadatachunks00 where rowid = 1", "references"),
    "the units of signatures shortened": (
        "update vec_signatures_metadatachunks00 set data = zeroblob(8)",
        "references",
    ),
    "a key removed": ("delete from index_keys where name = 'report'", "index"),
    "a memory superseded by an earlier one": ("insert into supersessions values (7, 3)", "superseded"),
    "a memory removed without its chunks": ("delete from session_memories where id = 1", "keywords"),
    "a memory removed without its passages": ("delete from session_memories where id = 3", "keywords"),
    "a lifecycle of no memory": ("insert into memory_lifecycle (memory_id) values (99999)", "references"),
    "a link to no memory": ("insert into supersessions values (3, 99999)", "references"),
    "states of no passage": ("insert into token_states values (99999, x'0000')", "references"),
    "a keyword row of no block": ("insert into keyword_postings values (999999, x'0000000000000000')", "references"),
    "a keyword added": ("update keyword_postings set postings = cast(postings || postings as blob)", "keywords"),
    "lengths changed": ("update keyword_blocks set lengths = zeroblob(length(lengths))", "keywords"),
    "a unit removed from a block, but not its words": (
        "update keyword_blocks set unit_ids = cast(zeroblob(8) || substr(unit_ids, 9) as blob) where id = 1",
        "keywords",
    ),
    "a memory removed from a block, but not its words": (
        "update keyword_blocks set memory_ids = cast(zeroblob(8) || substr(memory_ids, 9) as blob) where id = 1",
        "keywords",
    ),
    "the sizes of memories swapped": (
        "update keyword_blocks set sizes = cast(substr(sizes, 5) || substr(sizes, 1, 4) as blob) where id = 1",
        "keywords",
    ),
    "a block removed": ("delete from keyword_blocks where id = 1; delete from keyword_memories", "keywords"),
    "a text that is no text": (
        "update session_memories set content = cast(x'ff80' as text) where id = 2",
        "rows",
        "cast(content as blob)",
        b"make database",
    ),
    "metadata that are no JSON": ("update session_memories set metadata = 'x' where id = 3", "rows", "metadata", "{}"),
    "a number among tags": ("update session_memories set tags = '[1]' where id = 3", "rows", "tags", "[]"),
    "tags that are no JSON": ("update session_memories set tags = '[' where id = 3", "rows", "tags", "[]"),
    "a title that is no text": (
        "update session_memories set title = cast(x'41ff' as text) where id = 3",
        "rows",
        "title",
        "A\ufffd",
    ),
    "chunks promised that are not there": (
        "update session_memories set auto_chunk = 1 where id = 3",
        "counts",
        "auto_chunk",
        0,
    ),
    "a sequence that is no number": (
        "update sqlite_sequence set seq = 'x'; update session_memories set title = title",
        "references",
        "title",
        None,
    ),
}

LASTING = {"text", "fingerprint"}
"""Checks whose faults no repair can end."""

DEEP = {"chunks", "passages", "vectors", "index", "keywords"}
"""Checks that only --deep makes."""

LINKS = """
    select older_id, newer_id from supersessions join session_memories o on o.id = older_id
    join session_memories n on n.id = newer_id where older_id < newer_id
"""

LEFT = {"a text that is no text": ["text"]}
"""What a repair leaves."""

WARNED = {"words that an earlier release indexed", "a memory without vectors"}
"""What is no problem: a server ends it."""

REFUSED_BY_SQLITE = (
    "update keyword_postings set postings = 'abc'",
    "update memory_chunks set start_char = 'x' where id = 2",
    "update session_memories set access_count = 'x'",
    "update embedding_models set model = x'00'",
    "update memory_passages set memory_id = cast(x'ff80' as text) where id = 2",
)


class InFile:
    """A memory that others change and read without the store."""

    usual: Mapping[str, Level] = MappingProxyType({})
    columns = ("id", "cast(content as blob)", "content_hash", "title", "description", "turn", "original_content")

    def __init__(self, address: Path) -> None:
        self.address = address

    def change(self, sql: str) -> None:
        change(self.address, f"pragma legacy_alter_table = on; {sql}")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return sorted(inspect(self.address, lambda connection: connection.execute(sql).fetchall()), key=repr)


class InSchema:
    """The same in PostgreSQL, where the tests connect as a superuser."""

    usual: Mapping[str, Level] = MappingProxyType({"role": Level.WARNING})
    columns = ("id", "content", "content_hash", "title", "description", "turn")

    def __init__(self, address: str) -> None:
        self.address = address

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        url = DatabaseUrl.parse(self.address)
        with psycopg.connect(url.conninfo(), autocommit=True) as connection:
            connection.execute(parts.SQL("set search_path to {}, public").format(parts.Identifier(url.schema)))
            connection.execute("set session_replication_role = replica")  # no foreign keys
            cursor = connection.execute(sql.encode())
            return sorted(cursor.fetchall(), key=repr) if cursor.description else []

    change = rows


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> InFile | InSchema:
    if request.param is InFile:
        return InFile(request.getfixturevalue("path"))
    address = f"{shared_cluster().url()}&schema=test_{uuid4().hex}"
    store_all(address)
    return InSchema(address)


TABLE = [
    pytest.param(engine, name, Fault(*fault), id=f"{name}-{engine.__name__}")
    for engine, faults in ((InFile, ANYWHERE | IN_FILES), (InSchema, ANYWHERE | IN_SCHEMAS))
    for name, fault in faults.items()
]


@pytest.mark.parametrize(("memory", "name", "fault"), TABLE, indirect=["memory"])
def test_a_fault_is_found_and_repaired_and_no_text_is_changed(
    memory: InFile | InSchema, name: str, fault: Fault
) -> None:
    texts = f"select {', '.join(set(memory.columns) - {fault.column})} from session_memories"
    memory.change(fault.sql)
    if name in REFUSED:
        with pytest.raises(DatabaseError, match="doctor --fix"):
            SessionMemoryStore(memory.address, SETTINGS)
    damaged, shallow = examine(memory.address), examine(memory.address, deep=False)
    assert found(damaged)[fault.check] == (Level.WARNING if name in WARNED else Level.PROBLEM)
    assert damaged.healthy == (name in WARNED)
    assert set(found(shallow)) - {"reading"} == set(found(damaged)) - DEEP - {"reading"}
    before, links = memory.rows(texts), memory.rows(LINKS)
    report, done = doctor(memory.address).repair_all(damaged)
    assert memory.rows(texts) == before
    assert memory.rows(LINKS) == links
    if fault.check in LASTING:
        assert (set(found(report)), done) == (set(found(damaged)), [])
        return
    assert "--fix" in said(damaged, fault.check)
    assert (found(report), bool(done)) == ({**memory.usual} | dict.fromkeys(LEFT.get(name, ()), Level.PROBLEM), True)
    if fault.column:
        repaired = f"select {fault.column} from session_memories where content = 'make database'"
        assert memory.rows(repaired) == [(fault.value,)]
    with SessionMemoryStore(memory.address, SETTINGS) as store:
        assert "word3" in store.search_chunks("word3", Scope("knowledge_base"), Page(limit=1)).results[0].chunk_content


@pytest.mark.parametrize("sql", REFUSED_BY_SQLITE)
def test_sqlite_refuses_values_of_another_type(path: Path, sql: str) -> None:
    with pytest.raises(apsw.ConstraintError, match="cannot store"):
        change(path, sql)


@pytest.mark.parametrize("keywords", ["lengths changed", "a block's unit_ids 8 bytes too short", "half a keyword"])
def test_several_kinds_of_damage_are_repaired_together(path: Path, keywords: str) -> None:
    for name in (keywords, "a chunk's text changed", "a key removed", "a memory removed without its passages"):
        change(path, (ANYWHERE | IN_FILES)[name][0])
    report, _ = doctor(path).repair_all(examine(path))
    assert found(report) == {}


def test_memories_without_vectors_are_a_warning_and_get_vectors(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS, embedder=Modelless()) as store:
        store.store_memory("report", "Stored without a model.", session_id="s")
    report = examine(path)
    assert (found(report), report.healthy) == ({"unindexed": Level.WARNING}, True)
    doctor(path).repair(report)
    assert found(examine(path)) == {}


def test_without_a_model_vectors_stay_as_they_are(path: Path, tmp_path: Path) -> None:
    change(path, "delete from vec_chunk_search where passage_id = 2; " + ANYWHERE["a keyword row removed"][0])
    modelless = doctor(path, Settings(embedding_model_path=tmp_path))
    before = contents(path)
    modelless.repair(modelless.examine(deep=True))
    assert found(examine(path)) == {"unindexed": Level.WARNING}
    assert "1 memory lacks vectors" in said(examine(path), "unindexed")
    assert contents(path) == before


def test_a_vector_of_zeros_is_found_without_a_model_too(path: Path, tmp_path: Path) -> None:
    change(path, IN_FILES["a vector of zeros"][0])
    report = doctor(path, Settings(embedding_model_path=tmp_path)).examine(deep=True)
    assert found(report)["vectors"] == Level.PROBLEM


def test_missing_vectors_are_computed_while_a_server_writes(path: Path) -> None:
    change(path, ANYWHERE["a memory without vectors"][0])
    with process(WRITER, path) as server:
        doctor(path).repair(examine(path))
        assert found(examine(path)) == {}
        assert server.poll() is None


def test_a_healthy_file_is_healthy(path: Path) -> None:
    report = examine(path)
    assert found(report) == {}
    assert report.healthy
    assert len(report.findings) == 27
    assert len(examine(path, deep=False).findings) == 22


def test_what_has_expired_is_no_damage(path: Path) -> None:
    change(path, "insert into memory_lifecycle (memory_id, expires_at) values (3, '2020-01-01T00:00:00.000000+00:00')")
    assert found(examine(path)) == {}


def test_damage_beside_what_has_expired_is_found(path: Path) -> None:
    change(
        path,
        """
        insert or replace into memory_lifecycle (memory_id, expires_at)
        select max(memory_id), '2020-01-01T00:00:00.000000+00:00' from keyword_memories
        group by block_id having count(*) > 1;
        update keyword_postings set postings = zeroblob(length(postings))
        where id / 256 in (select block_id from keyword_memories group by block_id having count(*) > 1)
        """,
    )
    assert "keywords" in found(examine(path))


def overwrite_root_of(path: Path, index: str) -> None:
    connection = apsw.Connection(str(path))
    ((root,),) = connection.execute("select rootpage from sqlite_schema where name = ?", (index,)).fetchall()
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\x55" * 4096)


def overwrite_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\x55" * 100)


@pytest.mark.parametrize("index", ["idx_created_at", "session_memories", "vec_chunk_search_rowids"])
def test_a_page_of_garbage_is_an_integrity_problem(path: Path, index: str) -> None:
    overwrite_root_of(path, index)
    report = examine(path)
    assert found(report) == {"integrity": Level.PROBLEM}
    assert "restore" in said(report, "integrity")


@pytest.mark.parametrize("damage", [overwrite_header, lambda path: os.truncate(path, 5000)])
def test_an_unreadable_file_is_reported(path: Path, damage: Callable[[Path], None]) -> None:
    damage(path)
    report = examine(path)
    assert set(found(report)) & {"file", "integrity"}
    assert not report.healthy


KINDS = {
    "newer release": ("insert into schema_migrations values (999, 'from the future', '2099')", Level.PROBLEM),
    "another program": (
        """
        drop table schema_migrations; drop table memory_passages; drop table memory_chunks;
        drop table keyword_memories; drop table keyword_postings
        """,
        Level.PROBLEM,
    ),
    "a development version": ("update schema_migrations set version = version - 15", Level.PROBLEM),
}


@pytest.mark.parametrize(("kind", "sql", "state"), [(kind, *rest) for kind, rest in KINDS.items()], ids=KINDS)
def test_a_file_with_another_schema_is_reported(path: Path, kind: str, sql: str, state: Level) -> None:
    change(path, sql)
    report = examine(path)
    assert found(report) == {"schema": state}
    assert kind in said(report, "schema")


def test_a_file_of_the_original_server_is_reported_and_unchanged(tmp_path: Path) -> None:
    path = unpacked(tmp_path)
    path.chmod(0o600)
    before = bytes_of(path.parent)
    report = examine(path)
    assert found(report) == {"schema": Level.WARNING}
    assert "original server" in said(report, "schema")
    assert doctor(path).repair(report) == []
    assert bytes_of(path.parent) == before


def test_an_empty_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.touch(mode=0o600)
    assert found(examine(path)) == {"schema": Level.WARNING}
    assert path.stat().st_size == 0


def test_a_missing_file_is_a_problem_and_stays_missing(tmp_path: Path) -> None:
    report = examine(tmp_path / "folder" / "memory.db")
    assert found(report) == {"file": Level.PROBLEM}
    assert "There is no memory at" in said(report, "file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sql", ["", "delete from vec_chunk_search", "delete from memory_chunks where id = 2"])
def test_examining_changes_nothing(path: Path, sql: str) -> None:
    if sql:
        change(path, sql)
    before = bytes_of(path.parent)
    examine(path)
    assert bytes_of(path.parent) == before


def test_examining_the_file_of_a_crashed_server_changes_nothing(path: Path) -> None:
    with process(WRITER, path):
        pass
    before = bytes_of(path.parent)
    assert len(before) == 3
    assert found(examine(path)) == {}
    assert (
        bytes_of(path.parent).items() >= {name: digest for name, digest in before.items() if "-shm" not in name}.items()
    )


def test_a_file_that_a_server_writes_is_healthy(path: Path) -> None:
    with process(WRITER, path) as server:
        for _ in range(3):
            assert found(examine(path)) == {}
        assert server.poll() is None


def test_no_finding_contains_stored_content(path: Path) -> None:
    change(path, "update memory_chunks set content = upper(content) where id = 2")
    change(path, "delete from memory_passages where memory_id = 3")
    change(path, "update session_memories set content_hash = 'x' where id = 4")
    report = examine(path)
    assert set(found(report)) == {"chunks", "passages", "text"}
    assert not re.search("word3|title|make database", json.dumps(report.as_json([])), re.IGNORECASE)
