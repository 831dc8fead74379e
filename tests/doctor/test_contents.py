"""The doctor reports what is in the file and does not change it."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memory_files import WRITER, bytes_of, change, doctor, examine, found, process, said
from original_files import unpacked
from vector_memory.maintenance.doctor.report import Level


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
