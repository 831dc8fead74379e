"""A damaged file is repaired by copying what can be read of it; no readable memory is lost."""

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from forked import Forked
from inside import storage_of
from memory_files import CHILD, SETTINGS, WRITER, bytes_of, change, contents, doctor, examine, found, garble, process
from vector_memory.domain import MemoryFields, Scope
from vector_memory.storage.disk.filesystem import log_of
from vector_memory.storage.queries.portions import Portions
from vector_memory.storage.sqlite.salvage import Salvaged, salvage
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor import sqlite_memory
from vector_memory.upkeep.doctor.report import Level
from vector_memory.writing.holding import Holding

VALUE_LOST = "update session_memories set tags = '[1]' where id = 1"
STARTER = """
with SessionMemoryStore(path, settings) as store:
    print("opened", flush=True)
    print(store.store_memory("input_prompt", "Stored meanwhile.", session_id="s").memory_id, flush=True)
"""


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute(sql).fetchall()


def pages(path: Path, kind: str) -> list[int]:
    """Return the numbers of pages of the table of texts."""
    sql = f"select pageno from dbstat where name = 'session_memories' and pagetype = '{kind}' order by pageno"
    return [number for (number,) in rows(path, sql)]


def test_a_repair_keeps_the_old_bytes_the_ids_and_the_vectors(path: Path) -> None:
    change(path, "delete from keyword_postings")
    before, chunks = path.read_bytes(), "select id, content from memory_chunks order by id"
    kept = rows(path, chunks)
    report, done = doctor(path).repair_all(examine(path))
    assert done == ["Copied 7 memories into a new file. The damaged one is kept as memory.db.before-repair."]
    assert found(report) == {}
    assert path.with_name("memory.db.before-repair").read_bytes() == before
    assert {file.name for file in path.parent.iterdir()} == {"memory.db", "memory.db.before-repair"}
    assert rows(path, chunks) == kept


def test_a_repair_keeps_how_a_memory_came_its_evidence_and_what_is_held_back_or_deleted(path: Path) -> None:
    def kept(store: SessionMemoryStore) -> object:
        with storage_of(store).read() as reader:
            held, whole = reader.lifecycle.held(), Portions(reader).whole(ids, bare=True)
        return held, [(one.memory.came_from, one.evidence) for one in whole], store.count_memories()

    with SessionMemoryStore(path, SETTINGS) as store:
        facts: MemoryFields = {"sources": ["https://a.example"], "evidence": [{"path": "src/auth.py", "lines": "42"}]}
        ids = [store.store_memory("report", f"Found {n}.", session_id="s", **facts).memory_id for n in range(3)]
        store.delete_memory(ids[0], by="claude-code")
        Holding(storage_of(store)).quarantine([ids[1]], "why")
        before = kept(store)
    change(path, "delete from keyword_postings")
    doctor(path).repair_all(examine(path))
    assert path.with_name("memory.db.before-repair").exists()
    with SessionMemoryStore(path, SETTINGS) as store:
        assert kept(store) == before


def test_a_repair_gives_no_id_again_that_a_release_has_taken(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS) as store:
        Holding(storage_of(store)).quarantine([2, 3], "why")
        Holding(storage_of(store)).accept([2, 3])
        cursor = store.search_changes(Scope(session_id="s")).cursor
    change(path, "delete from sqlite_sequence; update memory_lifecycle set given_at = 1 << 60 where memory_id = 2")
    report, _ = doctor(path).repair_all(examine(path))
    assert found(report) == {}
    with SessionMemoryStore(path, SETTINGS) as store:
        new = store.store_memory("report", "# New\n\nAfter the repair.", session_id="s").memory_id
        answer = store.search_changes(Scope(session_id="s"), since=cursor)
        assert [one.id for one in answer.results] == [new]
        assert int(cursor) < new == int(answer.cursor)


def test_only_the_memory_whose_page_is_damaged_is_lost_and_is_named(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS) as store:
        lost = store.store_memory("input_prompt", "Long. " * 4000, session_id="s").memory_id
        store.store_memory("input_prompt", "The last one.", session_id="s")
    before = contents(path)
    garble(path, pages(path, "overflow")[0])
    report = examine(path)
    assert found(report) == {"integrity": Level.PROBLEM}
    report, done = doctor(path).repair_all(report)
    assert done[0].startswith("Copied 8 memories into a new file.")
    assert done[1] == f"Lost, because the file does not contain it completely: memory {lost}."
    assert found(report) == {}
    assert contents(path) == [text for text in before if not text.startswith("Long.")]


def test_what_stands_before_and_behind_a_page_that_cannot_be_read_is_copied(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS) as store:
        for number in range(24):
            store.store_memory("input_prompt", f"{number} {'words ' * 160}", session_id="s")
    before, leaves = contents(path), pages(path, "leaf")
    garble(path, leaves[len(leaves) // 2])
    _, done = doctor(path).repair_all(examine(path))
    after = contents(path)
    assert done[1].startswith("Lost, because the file does not contain it completely: ")
    assert after == [text for text in before if text in after]
    assert len(before) - 4 <= len(after) < len(before)


def test_a_file_of_which_nothing_can_be_read_is_left_as_it_is(path: Path) -> None:
    for page in pages(path, "leaf") + pages(path, "internal"):
        garble(path, page)
    before = bytes_of(path.parent)
    _, done = doctor(path).repair_all(examine(path))
    assert done[0].startswith("The repair failed: No memory in the file can be read, and nothing was changed.")
    assert bytes_of(path.parent) == before


def test_a_file_in_use_is_not_copied(path: Path) -> None:
    change(path, VALUE_LOST)
    with process(WRITER, path) as server:
        report, done = doctor(path).repair_all(examine(path))
        assert done[0].startswith("The repair failed: Another process has the database open: stop the servers")
        assert found(report) == {"rows": Level.PROBLEM}
        assert server.poll() is None
    assert not path.with_name("memory.db.before-repair").exists()


def test_a_server_that_starts_meanwhile_waits_and_what_it_stores_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(path, VALUE_LOST)
    before = contents(path)
    lines: list[str] = []
    started: list[Any] = []

    def slow(source: apsw.Connection, target: Path, *others: Any) -> Salvaged:
        started.append(Forked("-c", CHILD + STARTER, path, text=True))
        reader = threading.Thread(target=lambda: lines.extend(iter(started[0].stdout.readline, "")))
        reader.start()
        reader.join(1)
        assert not lines  # it waits for the lock
        started.append(reader)
        return salvage(source, target, *others)

    monkeypatch.setattr(sqlite_memory, "salvage", slow)
    doctor(path).repair(examine(path))
    started[1].join()
    started[0].communicate()
    assert lines == ["opened\n", "8\n"]
    assert contents(path) == [*before, "Stored meanwhile."]
    report = examine(path)
    assert report.healthy, report


def test_what_is_only_in_the_log_is_copied_too(path: Path) -> None:
    with process(WRITER, path):
        pass
    assert log_of(path).exists()
    change(path, VALUE_LOST)
    before = contents(path)
    report, _ = doctor(path).repair_all(examine(path))
    assert contents(path) == before
    assert "rows" not in found(report)
