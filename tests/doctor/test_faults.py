"""The doctor reports what is in the file; the table of faults says what finds damage and what a repair leaves."""

import json
import os
import re
import tomllib
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
from memory_files import (
    SETTINGS,
    WRITER,
    Modelless,
    bytes_of,
    change,
    contents,
    doctor,
    examine,
    found,
    garble,
    process,
    said,
)
from original_files import unpacked
from vector_memory.domain import Page, Scope
from vector_memory.errors import DatabaseError
from vector_memory.settings import DatabaseUrl, Settings
from vector_memory.storage.sqlite.inspection import inspect
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Level


class Fault(NamedTuple):
    """Statements that damage a memory, and a check that finds it."""

    sql: str
    check: str


FAULTS = {
    where: {name: Fault(sql, check) for check, faults in checks.items() for name, sql in faults.items()}
    for where, checks in tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8")).items()
}
REFUSED = FAULTS["refused"]
IN_FILE = FAULTS["anywhere"] | REFUSED | FAULTS["in_files"]
TABLE = [
    *(pytest.param("InFile", name, fault, id=f"{name}-InFile") for name, fault in IN_FILE.items()),
    *(
        pytest.param("InSchema", name, fault, id=f"{name}-InSchema")
        for name, fault in (FAULTS["anywhere"] | FAULTS["in_schemas"]).items()
    ),
]

REPAIRED = {
    "a text that is no text": ("cast(content as blob)", b"make database"),
    "metadata that are no JSON": ("metadata", "{}"),
    "a number among tags": ("tags", "[]"),
    "tags that are no JSON": ("tags", "[]"),
    "a title that is no text": ("title", "A\ufffd"),
    "chunks promised that are not there": ("auto_chunk", 0),
    "a sequence that is no number": ("title", None),
}
"""The value that a repair gives to a column."""

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
    columns = ("id", "cast(content as blob)", "content_hash", "title", "description", "turn")

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
    if request.param == "InFile":
        return InFile(request.getfixturevalue("path"))
    address = f"{shared_cluster().url()}&schema=test_{uuid4().hex}"
    store_all(address)
    return InSchema(address)


@pytest.mark.parametrize(("memory", "name", "fault"), TABLE, indirect=["memory"])
def test_a_fault_is_found_and_repaired_and_no_text_is_changed(
    memory: InFile | InSchema, name: str, fault: Fault
) -> None:
    column, value = REPAIRED.get(name, ("", None))
    texts = f"select {', '.join(set(memory.columns) - {column})} from session_memories"
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
    if column:
        repaired = f"select {column} from session_memories where content = 'make database'"
        assert memory.rows(repaired) == [(value,)]
    with SessionMemoryStore(memory.address, SETTINGS) as store:
        assert "word3" in store.search_chunks("word3", Scope("knowledge_base"), Page(limit=1)).results[0].chunk_content


@pytest.mark.parametrize("sql", REFUSED_BY_SQLITE)
def test_sqlite_refuses_values_of_another_type(path: Path, sql: str) -> None:
    with pytest.raises(apsw.ConstraintError, match="cannot store"):
        change(path, sql)


@pytest.mark.parametrize("keywords", ["lengths changed", "a block's unit_ids 8 bytes too short", "half a keyword"])
def test_several_kinds_of_damage_are_repaired_together(path: Path, keywords: str) -> None:
    for name in (keywords, "a chunk's text changed", "a key removed", "a memory removed without its passages"):
        change(path, IN_FILE[name].sql)
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
    change(path, "delete from vec_chunk_search where passage_id = 2; " + IN_FILE["a keyword row removed"].sql)
    modelless = doctor(path, Settings(embedding_model_path=tmp_path))
    before = contents(path)
    modelless.repair(modelless.examine(deep=True))
    assert found(examine(path)) == {"unindexed": Level.WARNING}
    assert "1 memory lacks vectors" in said(examine(path), "unindexed")
    assert contents(path) == before


def test_a_vector_of_zeros_is_found_without_a_model_too(path: Path, tmp_path: Path) -> None:
    change(path, IN_FILE["a vector of zeros"].sql)
    report = doctor(path, Settings(embedding_model_path=tmp_path)).examine(deep=True)
    assert found(report)["vectors"] == Level.PROBLEM


def test_missing_vectors_are_computed_while_a_server_writes(path: Path) -> None:
    change(path, IN_FILE["a memory without vectors"].sql)
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


@pytest.mark.parametrize("index", ["idx_created_at", "session_memories", "vec_chunk_search_rowids"])
def test_a_page_of_garbage_is_an_integrity_problem(path: Path, index: str) -> None:
    [(root,)] = InFile(path).rows(f"select rootpage from sqlite_schema where name = '{index}'")
    garble(path, root)
    report = examine(path)
    assert found(report) == {"integrity": Level.PROBLEM}
    assert "restore" in said(report, "integrity")


@pytest.mark.parametrize("damage", [lambda path: garble(path, 1, 100), lambda path: os.truncate(path, 5000)])
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


def test_no_finding_contains_stored_content(path: Path) -> None:
    change(path, "update memory_chunks set content = upper(content) where id = 2")
    change(path, "delete from memory_passages where memory_id = 3")
    change(path, "update session_memories set content_hash = 'x' where id = 4")
    report = examine(path)
    assert set(found(report)) == {"chunks", "passages", "text"}
    assert not re.search("word3|title|make database", json.dumps(report.as_json([])), re.IGNORECASE)
