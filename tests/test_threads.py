"""Background threads survive any error."""

import threading
from pathlib import Path

import pytest

from inside import index_of, load_index
from memory_files import SETTINGS
from vector_memory.domain import Page, Scope
from vector_memory.search.index import loader as passage_index
from vector_memory.sessions.access_counts import AccessRecorder
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.feed import SqliteFeed
from vector_memory.storage.sqlite.storage import SqliteStorage
from vector_memory.storage.sqlite.transactions import SqliteWriter
from vector_memory.store import SessionMemoryStore


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_searches_are_answered_when_the_index_cannot_be_loaded_and_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError

    with SessionMemoryStore(tmp_path / "memory.db", SETTINGS) as store:
        store.store_memory("report", "Some words.", session_id="s")
        with monkeypatch.context() as damaged:
            damaged.setattr(SqliteFeed, "revision", broken)
            load_index(store)
            assert store.search_chunks("words", Scope("report"), Page(limit=5)).total_results == 1
        monkeypatch.setattr(passage_index, "RETRY_SECONDS", 0.0)
        assert store.search_chunks("words", Scope("report"), Page(limit=5)).total_results == 1
        index_of(store).wait_for_loading()
        assert index_of(store)._passages is not None


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_reads_are_counted_after_one_that_could_not_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    failed = threading.Event()

    def count(_writer: SqliteWriter, memory_ids: list[int], _now: str) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError
        counted.extend(memory_ids)

    monkeypatch.setattr(SqliteWriter, "record_access", count)
    database = Database(tmp_path / "memory.db", dimensions=16)
    recorder = AccessRecorder(SqliteStorage(database))
    recorder.record([1])
    assert failed.wait(30)
    recorder.record([2])
    recorder.close()
    database.close()
    assert counted == [2]
