"""Deleted text leaves the file and the log: at once if nobody reads, otherwise when any process next uses the file."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import apsw
import pytest

from faults.workload import memory, open_store
from memory_files import change, create_file, doctor, examine
from other_process import OtherProcess
from vector_memory.storage.sqlite import checkpointer
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.rows import fetch_value

WORD = "xylophone-4711"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Hold the present state of a file, as a search does that is under way."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("begin")
        connection.execute("select count(*) from sqlite_schema").fetchall()
        yield


def is_anywhere(path: Path) -> bool:
    """Tell whether the word is in the file or in its log.

    Another process looks: this one would drop SQLite's locks by closing a file that it has open.
    """
    command = ["grep", "--quiet", "--text", WORD, path, path.with_name(f"{path.name}-wal")]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.parametrize(
    ("change", "end", "use"),
    [
        (("delete_memory", {}), OtherProcess.kill, "write"),
        (("amend_memory", {"title": "Another"}), OtherProcess.close, "write"),
        (("delete_memory", {}), OtherProcess.close, "close"),
        (("amend_memory", {"title": "Another"}), OtherProcess.kill, "opening"),
    ],
    ids=["deleted and killed, write", "amended and ended, write", "deleted, close", "amended and killed, opening"],
)
def test_data_deleted_during_a_read_is_erased_when_another_process_next_uses_the_file(
    tmp_path: Path, change: tuple[str, dict[str, str]], end: Callable[[OtherProcess], None], use: str
) -> None:
    path = tmp_path / "memory.db"
    with ExitStack() as stack:
        store = stack.enter_context(open_store(path))
        memory_id = store.store_memory(**{**memory(0), "title": WORD}).memory_id
        idle = stack.enter_context(closing(apsw.Connection(str(path))))  # SQLite itself deletes the log of the last one
        idle.execute("select count(*) from sqlite_schema").fetchall()
        other = OtherProcess(path)
        with reading(path):
            assert other.call(change[0], memory_id, **change[1])["success"]
            end(other)
            assert is_anywhere(path)
        match use:
            case "write":
                store.store_memory(**memory(1))
            case "close":
                store.close()
            case "opening":
                stack.enter_context(open_store(path))
        assert not is_anywhere(path)


def test_the_log_is_emptied_once_after_many_deletes(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "memory.db", dimensions=4)) as database:
        for _ in range(2):
            with database.write() as connection:
                checkpointer.count_delete(connection)
            assert (tmp_path / "memory.db-wal").stat().st_size > 0
        assert database.purge_deleted()
        assert (tmp_path / "memory.db-wal").stat().st_size == 0


def test_after_the_count_of_deletes_was_lost_everything_is_erased_again(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    create_file(path)
    change(path, "drop table erasure")
    doctor(path).repair(examine(path))
    with closing(apsw.Connection(str(path))) as connection:
        assert fetch_value(connection, "select count(*) from erasure") == 1


def test_a_delete_that_came_after_the_log_was_emptied_is_still_to_be_erased(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "memory.db", dimensions=4)) as database, database.write() as connection:
        checkpointer.count_delete(connection)
        first = checkpointer.unerased(connection)
        assert first is not None
        checkpointer.count_delete(connection)
        checkpointer.note_erased(connection, first)
        assert checkpointer.unerased(connection) == first + 1
        checkpointer.note_erased(connection, first + 1)
        assert checkpointer.unerased(connection) is None
