"""A database that is moved, deleted or replaced while it is open, or whose log is."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from faults.conftest import mounted
from memory_files import create_file
from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import log_index_of, log_of
from vector_memory.storage.sqlite import identity
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.file_index import IndexDatabase
from vector_memory.storage.sqlite.identity import IN_USE, TABLE, is_locked
from vector_memory.storage.sqlite.rows import fetch_column

ADD = """
insert into session_memories (memory_type, agent_id, content, content_hash, created_at, updated_at, accessed_at)
values ('report', 'a', ?, 'hash', '2026', '2026', '2026')
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    """An open database with one memory, which is only in the log."""
    database = Database(path, dimensions=4)
    add(database, "first")
    yield database
    database.close()


def add(database: Database, text: str) -> None:
    with database.write() as connection:
        connection.execute(ADD, (text,))


def texts(database: Database) -> list[str]:
    with database.read() as connection:
        return fetch_column(connection, "select content from session_memories order by id")


def texts_in(path: Path) -> list[str]:
    """Return the contents of a reopened file."""
    database = Database(path, dimensions=4)
    try:
        return texts(database)
    finally:
        database.close()


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    create_file(other, 4)
    other.replace(path)


def leave_a_link(path: Path) -> None:
    """SQLite expects the log next to the target of the link; the open log is next to the link."""
    move(path)
    path.symlink_to("moved.db")


@pytest.mark.parametrize("harm", [move, delete, replace, leave_a_link])
def test_a_database_that_is_not_at_its_path_is_neither_written_nor_read(
    database: Database, path: Path, harm: Callable[[Path], None]
) -> None:
    harm(path)
    with pytest.raises(DatabaseError, match="Put the file back"):
        add(database, "second")
    with pytest.raises(DatabaseError, match="Put the file back"):
        texts(database)


def test_a_database_that_is_put_back_works_again_and_lacks_only_refused_memories(
    database: Database, path: Path
) -> None:
    kept = path.with_name("kept.db")
    path.rename(kept)
    with pytest.raises(DatabaseError):
        add(database, "second")
    kept.rename(path)
    add(database, "third")
    assert texts(database) == ["first", "third"]


def test_a_connection_that_was_opened_while_the_file_was_replaced_is_not_kept(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[apsw.Connection] = []

    def set_up_beside_the_exchange(connection: apsw.Connection, _: str) -> None:
        made.append(connection)
        path.rename(path.with_name("kept.db"))

    monkeypatch.setattr("vector_memory.storage.sqlite.database.set_up", set_up_beside_the_exchange)
    with pytest.raises(DatabaseError, match="Put the file back"):
        texts(database)
    with pytest.raises(apsw.ConnectionClosedError):
        made[0].changes()


@pytest.mark.parametrize("harm", ["delete", "replace"])
@pytest.mark.parametrize("companion", [log_of, log_index_of])
def test_without_its_own_log_a_database_is_neither_written_nor_read_until_the_log_is_put_back(
    database: Database, path: Path, companion: Callable[[Path], Path], harm: str
) -> None:
    kept = path.with_name("kept")
    companion(path).rename(kept)
    if harm == "replace":
        companion(path).write_bytes(b"")
    with pytest.raises(DatabaseError, match="write-ahead log"):
        add(database, "second")
    with pytest.raises(DatabaseError, match="write-ahead log"):
        texts(database)
    kept.replace(companion(path))
    add(database, "third")
    assert texts(database) == ["first", "third"]


def test_after_closing_a_moved_database_has_every_memory_and_nothing_is_left_at_its_old_path(
    database: Database, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    path.rename(tmp_path / "elsewhere" / "store.db")
    database.close()
    assert [file.name for file in tmp_path.iterdir()] == ["elsewhere"]
    assert texts_in(tmp_path / "elsewhere" / "store.db") == ["first"]


def test_after_closing_a_database_that_replaced_an_open_one_gets_nothing_of_its_log(
    database: Database, path: Path
) -> None:
    other = path.with_name("other.db")
    second = Database(other, dimensions=4)
    add(second, "of the other one")
    second.close()
    other.replace(path)
    database.close()
    assert not log_of(path).exists()
    assert texts_in(path) == ["of the other one"]


def test_a_moved_database_keeps_its_log_while_another_server_has_it_open(database: Database, path: Path) -> None:
    other = Database(path, dimensions=4)
    path.rename(path.with_name("moved.db"))
    other.close()
    path.with_name("moved.db").rename(path)
    add(database, "second")
    assert texts(database) == ["first", "second"]


def test_a_new_file_is_closed_before_another_thread_opens_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing it later would drop the locks of that thread's connection."""
    first, second, close = Database(path, dimensions=4), Database(path, dimensions=4), os.close
    other = threading.Thread(target=add, args=(second, "other"))

    def close_late(descriptor: int) -> None:
        monkeypatch.undo()
        other.start()
        other.join(0.3)
        close(descriptor)

    monkeypatch.setattr(os, "close", close_late)
    add(first, "first")
    other.join()
    assert is_locked(path, identity.SHARED)
    assert sorted(texts(first)) == ["first", "other"]
    for one in (first, second):
        one.close()


def test_no_database_is_created_next_to_an_orphaned_log(path: Path, tmp_path: Path) -> None:
    """SQLite would delete the log, which may hold the only copy of the latest memories."""
    server = Database(path, dimensions=4)
    add(server, "first")
    killed = tmp_path / "killed" / "store.db"
    killed.parent.mkdir()
    # In another process: here closing the files would drop SQLite's locks.
    subprocess.run(["cp", log_of(path), log_of(killed)], check=True)
    subprocess.run(["cp", path, tmp_path / "main.db"], check=True)
    server.close()
    before = log_of(killed).read_bytes()
    with pytest.raises(DatabaseError, match="write-ahead log"):
        Database(killed, dimensions=4)
    assert log_of(killed).read_bytes() == before
    assert not killed.exists()
    (tmp_path / "main.db").rename(killed)
    assert texts_in(killed) == ["first"]


def test_a_database_can_be_opened_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real" / "store.db")
    create_file(tmp_path / "real" / "store.db", 4)
    database = Database(link, dimensions=4)
    add(database, "first")
    assert texts(database) == ["first"]
    create_file(tmp_path / "other.db", 4)
    link.unlink()
    link.symlink_to(tmp_path / "other.db")
    with pytest.raises(DatabaseError, match="Put the file back"):
        add(database, "second")
    database.close()


def test_each_read_and_each_write_checks_the_files_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    texts(database)
    looks: list[str] = []
    stat = os.stat

    def counted(name: str, *, follow_symlinks: bool) -> os.stat_result:
        looks.append(f"{name} {follow_symlinks}")
        return stat(name, follow_symlinks=follow_symlinks)

    monkeypatch.setattr("vector_memory.storage.sqlite.identity.os.stat", counted)
    texts(database)
    assert len(looks) == len(set(looks)) == 4
    looks.clear()
    add(database, "second")
    assert len(looks) == len(set(looks)) == 4


def test_an_index_of_files_without_its_own_log_is_not_in_place(tmp_path: Path) -> None:
    """So that it is reopened, as if it had been replaced."""
    index = IndexDatabase(tmp_path / "index.sqlite", dimensions=4)
    assert index.is_in_place()
    log_of(index.path).unlink()
    assert not index.is_in_place()
    index.close()


OPEN = """
import sys
from pathlib import Path
from vector_memory.errors import DatabaseError
from vector_memory.storage.sqlite.database import Database
try:
    Database(Path(sys.argv[1]), dimensions=4).close()
except DatabaseError as error:
    print(error)
"""


def opened_elsewhere(path: Path) -> str:
    """Open a database in another process, and return what is wrong with it."""
    command = [sys.executable, "-c", OPEN, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(not TABLE.exists(), reason="the system does not tell who has locked a file")
def test_no_database_is_opened_with_the_log_of_one_that_a_server_still_has_open(database: Database, path: Path) -> None:
    """SQLite would mix the two. With a server that has this very file open, there is no problem."""
    assert opened_elsewhere(path) == ""
    kept = path.with_name("kept.db")
    path.rename(kept)
    assert "stop all servers" in opened_elsewhere(path)
    assert not path.exists()
    other = path.with_name("other.db")
    create_file(other, 4)
    before = other.read_bytes()
    other.rename(path)
    assert "stop all servers" in opened_elsewhere(path)
    assert path.read_bytes() == before
    kept.replace(path)
    assert texts(database) == ["first"]
    database.close()
    assert opened_elsewhere(path) == ""


@pytest.mark.usefixtures("database")
def test_a_lock_that_one_read_of_the_table_misses_is_still_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may leave out entries when the table changes while it is read."""
    number = log_index_of(path).stat().st_ino
    readings = iter(["", f"1: POSIX  ADVISORY  READ 1 {identity.device_of(path)}:{number} 128 128\n"])
    monkeypatch.setattr(identity, "TABLE", SimpleNamespace(read_text=lambda **_: next(readings, "")))
    assert is_locked(log_index_of(path), IN_USE)


def test_a_file_on_another_device_is_another_one_although_its_inode_has_the_same_number(tmp_path: Path) -> None:
    with mounted(tmp_path / "one", "size=4m") as one, mounted(tmp_path / "two", "size=4m") as two:
        server = Database(one / "store.db", dimensions=4)
        add(server, "first")
        create_file(tmp_path / "store.db", 4)
        name = two / "0"
        while inode(name) < inode(server.path):
            name = two / str(int(name.name) + 1)
        assert inode(name) == inode(server.path)
        name.write_bytes((tmp_path / "store.db").read_bytes())
        assert opened_elsewhere(name) == ""
        server.close()


def inode(path: Path) -> int:
    path.touch()
    return path.stat().st_ino
