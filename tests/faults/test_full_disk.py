"""Servers and commands started on a full disk can read, and say so."""

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from engine_memories import add, found_by_words, new_memory, open_sqlite
from faults.conftest import mounted
from faults.workload import content, memory, open_store, search
from forked import finished
from memory_files import be_of_first_version, create_file, examine, said
from old_words import add_old
from servers import QUICK, Server
from vector_memory.domain import MemoryKind
from vector_memory.errors import DatabaseError
from vector_memory.storage.base import Storage
from vector_memory.storage.disk.filesystem import log_of
from vector_memory.storage.sqlite.database import Database
from vector_memory.store import SessionMemoryStore

PLACE = {"agent_id": "a", "session_id": "s", "session_iter": 1}
READING_ONLY = "open for reading only.*free some space"


def fill(folder: Path) -> Path:
    """Take all space that is left, and return the file that has it."""
    ballast = folder / "ballast"
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return ballast


def ended(path: Path) -> None:
    """Leave a database with a memory, as a server does that ends."""
    with open_store(path) as store:
        store.store_memory(**memory(0))


def killed(path: Path) -> None:
    """Leave a database whose memory is only in its log, which was copied without the index."""
    original = path.parent.parent / path.name
    with open_store(original) as store:
        store.store_memory(**memory(0))
        # In another process: here closing the files would drop SQLite's locks.
        subprocess.run(["cp", original, log_of(original), path.parent], check=True)


@pytest.mark.parametrize("left", [ended, killed])
def test_a_memory_opened_on_a_full_disk_is_read_and_written_when_there_is_space(
    small_disk: Path, left: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = small_disk / "memory.db"
    left(path)
    ballast = fill(small_disk)
    with open_store(path) as store:
        store.start_background_work()
        assert search(store, 0)
        assert store.get_memory_by_id(1).memory.content == content(0)
        with pytest.raises(DatabaseError, match=READING_ONLY):
            store.store_memory(**memory(1))
        assert "open for reading only" in caplog.text
        ballast.unlink()
        store.store_memory(**memory(1))
        assert search(store, 0)
        assert store.get_memory_by_id(2).memory.content == content(1)
    assert "Access counts" not in caplog.text


def test_a_write_waits_for_the_read_that_goes_on_while_the_disk_was_full(small_disk: Path) -> None:
    with closing(open_sqlite(small_disk)) as earlier:
        add(earlier, new_memory("first"))
    ballast = fill(small_disk)
    with closing(open_sqlite(small_disk)) as storage, ThreadPoolExecutor() as threads:
        with storage.read():
            ballast.unlink()
            writing = threads.submit(add, storage, new_memory("second"))
            wait([writing], timeout=0.1)
        writing.result()


def test_a_write_does_not_wait_for_all_who_read_while_the_disk_was_full(small_disk: Path) -> None:
    """It waits for 5 seconds at most, and 40 readers of 0.2 seconds take 8."""
    with closing(open_sqlite(small_disk)) as earlier:
        add(earlier, new_memory("first"))
    ballast = fill(small_disk)
    stopping = threading.Event()

    def read_on(storage: Storage) -> None:
        while not stopping.is_set():
            with storage.read():
                stopping.wait(0.2)

    with closing(open_sqlite(small_disk)) as storage, ThreadPoolExecutor(40) as threads:
        for _ in range(40):
            threads.submit(read_on, storage)
        try:
            ballast.unlink()
            add(storage, new_memory("second"))
        finally:
            stopping.set()


def test_a_memory_can_be_read_where_no_file_can_be_created(disk_for_few_files: Path) -> None:
    path = disk_for_few_files / "memory.db"
    original = disk_for_few_files.parent / "memory.db"
    ended(original)
    shutil.copy(original, path)
    fill(disk_for_few_files)
    with open_store(path) as store:
        assert search(store, 0)
        with pytest.raises(DatabaseError, match=READING_ONLY):
            store.store_memory(**memory(1))


def test_a_file_that_needs_an_upgrade_is_refused_on_a_full_disk_and_unchanged(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = small_disk / "memory.db"
    with monkeypatch.context() as earlier:
        be_of_first_version(earlier)
        create_file(path)
    before = path.read_bytes()
    fill(small_disk)
    with pytest.raises(DatabaseError, match="free some space"):
        Database(path, dimensions=16)
    assert path.read_bytes() == before


@pytest.mark.parametrize("room", [0, 350_000])
def test_a_file_whose_words_cannot_be_indexed_again_for_lack_of_space_is_searched_and_finished_later(
    tmp_path: Path, room: int
) -> None:
    def found(storage: Storage) -> tuple[list[int], list[int]]:
        by_text, by_title = (found_by_words(storage, word, MemoryKind.INPUT_PROMPT) for word in ("word7", "ledger"))
        return by_text, by_title

    words = " ".join(f"word{number}" for number in range(50_000))
    with closing(open_sqlite(tmp_path)) as earlier:
        add_old(earlier, new_memory(words, MemoryKind.INPUT_PROMPT, title="Ledger"))
    with mounted(tmp_path / "small", "size=8m") as disk:
        shutil.copy(tmp_path / "memory.db", disk)
        ballast = fill(disk)
        os.truncate(ballast, ballast.stat().st_size - room)
        with closing(open_sqlite(disk)) as storage:
            assert found(storage) == ([1], [])
            with nullcontext() if room else pytest.raises(DatabaseError, match="free some space"):
                add(storage, new_memory("small"))
            ballast.unlink()
            storage.finish_upgrade(lambda _: [])
            assert found(storage) == ([1], [1])
            with storage.read() as reader:
                assert reader.memory(1).content == words
                assert reader.upkeep.portions.count_outdated() == 0


def test_a_file_replaced_on_a_full_disk_is_not_read_instead_of_the_opened_one(small_disk: Path) -> None:
    path = small_disk / "memory.db"
    ended(path)
    shutil.copy(path, small_disk / "other.db")
    fill(small_disk)
    with open_store(path) as store:
        assert search(store, 0)
        (small_disk / "other.db").rename(path)
        with pytest.raises(DatabaseError, match="Put the file back"):
            search(store, 0)


def command(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a memory."""
    return finished(*words, "--database-path", path, env={**os.environ, **QUICK})


def test_a_server_and_commands_started_on_a_full_disk_read_and_say_so(small_disk: Path) -> None:
    path = small_disk / "memory.db"
    with SessionMemoryStore(path) as store:
        store.store_memory("report", "The cache is cold.", **PLACE)
    ballast = fill(small_disk)
    with Server(small_disk) as server:
        found = server.hello().call("search_reports_specific_chunks", query="cold cache")
        refused = server.call("store_report", content="Another one.", **PLACE)
        stats, searched = command(path, "stats"), command(path, "search", "cache")
        ballast.unlink()
        stored = server.call("store_report", content="Another one.", **PLACE)
        server.end("SIGTERM")
        assert b"open for reading only" in server.errors()
    assert found["total_results"] == 1
    assert (refused["success"], refused["error"]) == (False, "DatabaseError")
    assert "open for reading only" in refused["message"]
    assert stored["success"]
    for ran in (stats, searched):
        assert ran.returncode == 0
        assert "open for reading only" in ran.stderr
    assert "report 1" in stats.stdout
    assert "The cache is cold." in searched.stdout


@pytest.mark.parametrize("left", [ended, killed])
def test_the_doctor_reads_a_memory_on_a_full_disk_and_says_that_nothing_can_be_stored(
    small_disk: Path, left: Callable[[Path], None]
) -> None:
    path = small_disk / "memory.db"
    left(path)
    fill(small_disk)
    report = examine(path)
    assert "is readable" in said(report, "file")
    assert "read-only" in said(report, "disk")
