"""What starts on a full disk says so and changes nothing; what is open keeps reading."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine_memories import add, found_by_words, new_memory, open_sqlite
from faults.conftest import mounted
from faults.workload import content, memory, open_store, search
from forked import finished
from memory_files import examine, said
from old_words import add_old, index_again
from servers import QUICK, Server
from vector_memory.domain import MemoryKind
from vector_memory.errors import DatabaseError
from vector_memory.storage.base import Storage
from vector_memory.storage.disk.filesystem import log_of
from vector_memory.store import SessionMemoryStore

PLACE = {"agent_id": "a", "session_id": "s", "session_iter": 1}
FULL = "disk or the database is full.*free some space"


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
def test_a_memory_is_not_opened_on_a_full_disk_and_opens_complete_when_there_is_space(
    small_disk: Path, left: Callable[[Path], None]
) -> None:
    path = small_disk / "memory.db"
    left(path)
    ballast = fill(small_disk)
    with pytest.raises(DatabaseError, match=FULL):
        open_store(path)
    ballast.unlink()
    with open_store(path) as store:
        store.store_memory(**memory(1))
        assert search(store, 0)
        assert [store.get_memory_by_id(number).memory.content for number in (1, 2)] == [content(0), content(1)]


def test_a_memory_is_not_opened_where_no_file_can_be_created(disk_for_few_files: Path) -> None:
    path = disk_for_few_files / "memory.db"
    original = disk_for_few_files.parent / "memory.db"
    ended(original)
    shutil.copy(original, path)
    fill(disk_for_few_files)
    with pytest.raises(DatabaseError, match=FULL):
        open_store(path)


def test_a_file_whose_words_cannot_be_indexed_again_for_lack_of_space_is_searched_and_finished_later(
    tmp_path: Path,
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
        os.truncate(ballast, ballast.stat().st_size - 350_000)
        with closing(open_sqlite(disk)) as storage:
            assert found(storage) == ([1], [])
            add(storage, new_memory("small"))
            ballast.unlink()
            index_again(storage)
            assert found(storage) == ([1], [1])
            with storage.read() as reader:
                assert reader.memories.get(1).content == words
                assert reader.upkeep.portions.count_outdated() == 0


def test_a_running_server_reads_on_a_full_disk_and_commands_say_what_to_do(small_disk: Path) -> None:
    path = small_disk / "memory.db"
    with SessionMemoryStore(path) as store:
        store.store_memory("report", "The cache is cold.", **PLACE)
    with Server(small_disk) as server:
        server.hello().call("search_reports_specific_chunks", query="cold cache")
        ballast = fill(small_disk)
        found = server.call("search_reports_specific_chunks", query="cold cache")
        refused = server.call("store_report", content="Another one.", **PLACE)
        ballast.unlink()
        stored = server.call("store_report", content="Another one.", **PLACE)
        server.end("SIGTERM")
    assert found["total_results"] == 1
    assert (refused["success"], refused["error"]) == (False, "DatabaseError")
    assert re.search(FULL, refused["message"])
    assert stored["success"]
    fill(small_disk)
    ran = finished("stats", "--database-path", path, env={**os.environ, **QUICK})
    assert ran.returncode == 1
    assert re.search(FULL, ran.stderr)


@pytest.mark.parametrize("left", [ended, killed])
def test_the_doctor_reads_a_memory_on_a_full_disk_and_says_that_nothing_can_be_stored(
    small_disk: Path, left: Callable[[Path], None]
) -> None:
    path = small_disk / "memory.db"
    left(path)
    fill(small_disk)
    report = examine(path)
    assert "is readable" in said(report, "file")
    assert "cannot start" in said(report, "disk")
