"""Damaged or foreign tables are refused, named and repaired; nothing hangs, crashes or ends in a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from inside import storage_of
from memory_files import CHILD, SETTINGS, bytes_of, change, doctor, examine, found, said
from vector_memory.errors import DatabaseError
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.transactions import SqliteReader
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Level

ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r)"


def test_a_lost_text_is_a_problem_that_only_a_backup_solves(path: Path) -> None:
    change(path, f"drop table session_memories; create view session_memories as {ENDLESS} select n as id from r")
    before = bytes_of(path.parent)
    report, done = doctor(path).repair_all(examine(path))
    assert found(report) == {"tables": Level.PROBLEM}
    assert done[0].startswith("The repair failed: No memory in the file can be read, and nothing was changed.")
    assert bytes_of(path.parent) == before


def test_other_tables_views_and_indexes_in_the_file_are_ignored(path: Path) -> None:
    change(path, "create table other (a); create view another as select * from other; create index odd on other (a)")
    assert found(examine(path)) == {}
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", "Some words.", session_id="s")


def test_a_dropped_shadow_table_crashes_no_process(path: Path) -> None:
    change(path, "drop table vec_chunk_search_rowids")
    code = f"""{CHILD}
from vector_memory.errors import VectorMemoryError
try:
    with SessionMemoryStore(path, settings) as store:
        store.delete_memory(1)
except VectorMemoryError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert (ended.returncode, "doctor --fix" in ended.stdout) == (0, True), ended.stderr


def test_what_was_deleted_stays_gone_when_a_file_is_rebuilt(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS) as store:
        store.delete_memory(1)
    change(path, "drop index idx_content_hash")
    assert doctor(path).repair_all(examine(path))[1]
    with SessionMemoryStore(path, SETTINGS) as store, storage_of(store).read() as reader:
        assert [len(each) for each in reader.deletions.get_all()] == [1, 1]


def test_a_missing_block_of_vectors_is_reported(path: Path) -> None:
    change(path, "delete from vec_chunk_search_vector_chunks00 where rowid = 1")
    opened = Database(path, dimensions=16)
    with opened.read() as connection, pytest.raises(DatabaseError, match="doctor --fix"):
        SqliteReader(connection).vectors.candidates.vectors([1, 2, 3])
    opened.close()
    report = examine(path)
    assert found(report)["reading"] == Level.PROBLEM
    assert "index" in said(report, "reading")
