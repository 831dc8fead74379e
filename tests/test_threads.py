"""The thread that counts reads survives any error."""

import threading
from pathlib import Path

import pytest

from vector_memory.reading.documents import AccessRecorder
from vector_memory.storage.sqlite.database import Database, SqliteStorage
from vector_memory.storage.sqlite.transactions import SqliteWriter


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
