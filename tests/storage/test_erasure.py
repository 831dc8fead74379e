"""Deleted text leaves the file and the log, whichever process completes it."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from faults.workload import memory, open_store, search
from memory_files import change, create_file, doctor, examine
from other_process import OtherProcess
from vector_memory.storage.sqlite import checkpointer
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.rows import fetch_value
from waiting import eventually

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


@pytest.mark.parametrize("end", [OtherProcess.close, OtherProcess.kill], ids=["ended", "killed"])
def test_data_deleted_during_a_read_is_erased_by_another_process_later(
    tmp_path: Path, end: Callable[[OtherProcess], None]
) -> None:
    path = tmp_path / "memory.db"
    with open_store(path) as store:
        memory_id = store.store_memory(**{**memory(0), "content": WORD}).memory_id
        other = OtherProcess(path)
        with reading(path):
            assert other.call("delete_memory", memory_id)["success"]
            end(other)
            assert is_anywhere(path)
        search(store, 0)
        eventually(lambda: not is_anywhere(path))


def test_data_deleted_during_a_read_is_erased_also_through_a_link_to_the_file(tmp_path: Path) -> None:
    path, link = tmp_path / "memory.db", tmp_path / "link.db"
    create_file(path, 4)
    link.symlink_to(path)
    with closing(Database(link, dimensions=4)) as database:
        with reading(path), database.write() as connection:
            checkpointer.count_delete(connection)

        def is_erased() -> bool:
            with database.read() as connection:
                return checkpointer.unerased(connection) is None

        eventually(is_erased)


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
