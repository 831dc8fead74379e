"""Restoring: the previous file is kept, and refusals change nothing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memory_files import WRITER, bytes_of, contents, examine, flip, found, process
from original_files import unpacked
from vector_memory.errors import DatabaseError, DatabaseLockError, ValidationError
from vector_memory.maintenance.backup import restore_memory
from vector_memory.storage.disk.filesystem import log_index_of, log_of

REPLACING = """
from vector_memory.storage.sqlite import copying
copying.PAGES_PER_STEP = 1
def progress(done, total):
    if done > total / 2:
        print("half", flush=True)
        time.sleep(60)
copying.replace_database(more[0], more[0].with_name("kept"), lambda _: path, progress)
"""


def test_a_restore_replaces_the_memory_and_keeps_the_previous_one(path: Path, saved: Path) -> None:
    before, file = path.read_bytes(), path.stat().st_ino
    restored = restore_memory(saved, path, overwrite=True)
    assert (restored.memories, restored.kept) == (1, path.with_name("memory.db.before-restore"))
    assert contents(path) == contents(saved)
    assert path.with_name("memory.db.before-restore").read_bytes() == before
    assert {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {
        "memory.db": 0o600,
        "memory.db.before-restore": 0o600,
    }
    assert path.stat().st_ino == file, "a process that opens the file now would else go on with the old one"
    assert found(examine(path)) == {}


def test_a_replaced_memory_can_be_restored_and_kept_copies_are_not_lost(path: Path, saved: Path) -> None:
    now = contents(path)
    restore_memory(saved, path, overwrite=True)
    again = restore_memory(path.with_name("memory.db.before-restore"), path, overwrite=True)
    assert contents(path) == now
    assert again.kept == path.with_name("memory.db.before-restore-2")
    assert contents(again.kept) == contents(saved)


def test_a_memory_is_replaced_only_on_request(path: Path, saved: Path) -> None:
    before = bytes_of(path.parent)
    with pytest.raises(ValidationError, match="--overwrite"):
        restore_memory(saved, path)
    assert bytes_of(path.parent) == before


def test_a_memory_that_another_process_has_open_is_not_replaced(path: Path, saved: Path) -> None:
    with process(WRITER, path) as writer:
        with pytest.raises(DatabaseLockError, match="stop the servers"):
            restore_memory(saved, path, overwrite=True)
        assert writer.poll() is None
    assert contents(path)[:2] == ["# Now\n\nWhat is there now.", "Something else."]
    assert sorted(file.name for file in path.parent.iterdir()) == ["memory.db", "memory.db-shm", "memory.db-wal"]


def test_a_memory_whose_server_crashed_is_kept_with_its_log(path: Path, saved: Path) -> None:
    with process(WRITER, path):
        pass
    now = contents(path)
    restored = restore_memory(saved, path, overwrite=True)
    assert contents(path) == contents(saved)
    assert not log_of(path).exists()
    assert not log_index_of(path).exists()
    assert found(examine(path)) == {}
    assert restored.kept is not None
    assert contents(restored.kept) == now


def header(path: Path) -> None:
    """Damage the first bytes of a file."""
    with path.open("r+b") as file:
        file.write(b"\x55" * 200)


@pytest.mark.parametrize(
    "damage", [flip, header, lambda path: os.truncate(path, 5000), lambda path: os.truncate(path, 0)]
)
@pytest.mark.parametrize("crashed", [False, True])
def test_a_damaged_memory_can_be_replaced(
    path: Path, saved: Path, damage: Callable[[Path], None], *, crashed: bool
) -> None:
    if crashed:
        with process(WRITER, path):
            pass
    damage(path)
    before = path.read_bytes()
    restored = restore_memory(saved, path, overwrite=True)
    assert contents(path) == contents(saved)
    assert found(examine(path)) == {}
    assert restored.kept.read_bytes() == before


def test_a_killed_restore_leaves_the_memory_unchanged(path: Path, saved: Path) -> None:
    now = contents(path)
    with process(REPLACING, saved, path):
        pass
    connection = apsw.Connection(str(path))  # rolls back the unfinished transaction
    assert connection.pragma("integrity_check") == "ok"
    connection.close()
    assert contents(path) == now


def test_a_missing_memory_is_created_and_a_leftover_log_is_not_applied_to_it(path: Path, saved: Path) -> None:
    with process(WRITER, path):
        pass
    path.unlink()
    assert restore_memory(saved, path).kept is None
    assert not log_of(path).exists()
    assert contents(path) == contents(saved)
    assert found(examine(path)) == {}
    assert log_of(path.with_name("memory.db.before-restore")).exists()


def test_a_memory_is_restored_into_a_new_private_folder(saved: Path, tmp_path: Path) -> None:
    restore_memory(saved, tmp_path / "new" / "memory.db")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert found(examine(tmp_path / "new" / "memory.db")) == {}


def test_a_copy_of_the_original_servers_file_is_restored_as_it_is(tmp_path: Path) -> None:
    original = unpacked(tmp_path / "copy")
    restore_memory(original, tmp_path / "memory.db")
    assert contents(tmp_path / "memory.db") == contents(original)


def newer(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("insert into schema_migrations values (999, 'from the future', '2099')")
    connection.close()


def foreign(path: Path) -> None:
    path.unlink()
    connection = apsw.Connection(str(path))
    connection.execute("create table songs (title text)")
    connection.close()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (newer, "newer release"),
        (foreign, "is not a memory"),
        (lambda path: path.write_text("notes " * 1000), "is not a memory"),
        (lambda path: os.truncate(path, 0), "is not a memory"),
        (flip, "damaged"),
        (Path.unlink, "There is no memory at"),
    ],
    ids=["newer", "foreign", "text", "empty", "damaged", "missing"],
)
@pytest.mark.parametrize("there", [True, False])
def test_a_source_that_is_not_an_intact_memory_is_refused_and_nothing_is_changed(
    path: Path, saved: Path, damage: Callable[[Path], object], reason: str, *, there: bool
) -> None:
    damage(saved)
    if not there:
        shutil.rmtree(path.parent)
        path.parent.mkdir()
    before = bytes_of(path.parent)
    with pytest.raises((DatabaseError, ValidationError), match=reason):
        restore_memory(saved, path, overwrite=True)
    assert bytes_of(path.parent) == before


def test_a_memory_is_not_restored_from_itself(path: Path) -> None:
    with pytest.raises(ValidationError, match="the memory itself"):
        restore_memory(path, path, overwrite=True)
