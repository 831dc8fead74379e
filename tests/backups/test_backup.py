"""A copy is complete or does not exist; restoring keeps the previous file, and refusals change nothing."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from backups.conftest import memory
from forked import finished
from memory_files import SETTINGS, WRITER, bytes_of, change, contents, examine, flip, found, garble, process
from original_files import unpacked
from vector_memory.errors import DatabaseError, DatabaseLockError, ValidationError
from vector_memory.storage.disk.drafts import ABANDONED_SECONDS
from vector_memory.storage.disk.filesystem import log_index_of, log_of
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.backup import back_up, restore_memory

BACKING_UP = """
from vector_memory.upkeep.backup import back_up
from vector_memory.storage.sqlite import copying
copying.PAGES_PER_STEP = 1
def progress(done, total):
    if done > total / 2:
        print("half", flush=True)
        time.sleep(60)
back_up(path, more[0], overwrite=True, on_progress=progress)
"""
BACKING_UP_BY_COMMAND = """
import signal
from vector_memory.cli.main import main
from vector_memory.upkeep import backup
back_up = backup.back_up
def slow(source, target, *, on_progress, **options):
    def progress(done, total):
        print("begun", flush=True)
        time.sleep(60)
    back_up(source, target, on_progress=progress, **options)
backup.back_up = slow
sys.argv = ["vector-memory", "backup", str(more[0]), "--database-path", str(path)]
main()
"""
STORING = """
with SessionMemoryStore(path, settings) as store:
    for number in range(100_000):
        store.store_memory("report", f"Report {number}. " + "some words " * 50, session_id="s")
        more[0].with_suffix(".new").write_text(str(number))
        more[0].with_suffix(".new").replace(more[0])
        print(number, flush=True)
"""


def test_a_copy_is_healthy_private_and_complete(path: Path, folder: Path) -> None:
    before = bytes_of(folder)
    copied = back_up(path, folder.parent / "copy.db")
    assert (copied.memories, copied.size) == (2, (folder.parent / "copy.db").stat().st_size)
    assert contents(folder.parent / "copy.db") == contents(path)
    assert (folder.parent / "copy.db").stat().st_mode & 0o777 == 0o600
    assert found(examine(folder.parent / "copy.db")) == {}
    assert bytes_of(folder) == before


def test_a_copy_made_while_another_process_stores_contains_a_prefix_of_the_acknowledged_memories(
    path: Path, tmp_path: Path
) -> None:
    acknowledged, copy = tmp_path / "acknowledged", tmp_path / "copy.db"
    with process(STORING, path, acknowledged) as writer:
        for _ in range(3):
            before = int(acknowledged.read_text())
            back_up(path, copy, overwrite=True)
            assert writer.poll() is None
            stored = contents(copy)[2:]
            assert len(stored) > before
            assert [content.split(".")[0] for content in stored] == [
                f"Report {number}" for number in range(len(stored))
            ]
            assert found(examine(copy)) == {}
    assert len(contents(path)) >= int(acknowledged.read_text()) + 3 > len(stored) - 1


def test_a_backup_does_not_start_again_for_each_store(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vector_memory.storage.sqlite.copying.PAGES_PER_STEP", 1)
    steps: list[int] = []
    with SessionMemoryStore(path, SETTINGS) as store:

        def progress(done: int, _total: int) -> None:
            store.store_memory("report", f"Stored after step {len(steps)}", session_id="s")
            steps.append(done)

        back_up(path, tmp_path / "copy.db", on_progress=progress)
    assert steps == list(range(1, len(steps) + 1))
    assert len(contents(tmp_path / "copy.db")) == 2
    assert found(examine(tmp_path / "copy.db")) == {}


def test_a_backup_that_is_killed_leaves_no_copy_and_its_draft_is_removed_a_day_later(
    path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    with process(BACKING_UP, path, copy):
        pass
    assert not copy.exists()
    (draft,) = (file for file in tmp_path.iterdir() if file.is_file())
    yesterday = time.time() - ABANDONED_SECONDS - 1
    os.utime(draft, (yesterday, yesterday))
    back_up(path, tmp_path / "other.db")
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["other.db"]
    assert found(examine(tmp_path / "other.db")) == {}


def test_a_running_backup_keeps_its_draft_while_another_backup_runs(path: Path, tmp_path: Path) -> None:
    with process(BACKING_UP, path, tmp_path / "slow.db"):
        back_up(path, tmp_path / "quick.db")
        assert sorted(file.suffix for file in tmp_path.iterdir() if file.is_file()) == [".db", ".partial"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_backup_leaves_nothing(path: Path, tmp_path: Path, number: signal.Signals) -> None:
    before = sorted(tmp_path.iterdir())
    with process(BACKING_UP_BY_COMMAND, path, tmp_path / "copy.db") as backup:
        assert sorted(tmp_path.iterdir()) != before
        backup.send_signal(number)
        assert backup.wait(60) == 128 + number
    assert sorted(tmp_path.iterdir()) == before


def test_a_killed_backup_leaves_an_older_copy_unchanged(path: Path, tmp_path: Path) -> None:
    saved = tmp_path / "copy.db"
    back_up(path, saved)
    before = saved.read_bytes()
    with process(BACKING_UP, path, saved):
        pass
    assert saved.read_bytes() == before


def test_a_backup_that_fails_leaves_nothing(path: Path, tmp_path: Path) -> None:
    def fail(_done: int, _total: int) -> None:
        raise ZeroDivisionError

    before = sorted(tmp_path.iterdir())
    with pytest.raises(ZeroDivisionError):
        back_up(path, tmp_path / "copy.db", on_progress=fail)
    assert sorted(tmp_path.iterdir()) == before


def test_a_damaged_memory_is_not_copied_over_an_older_copy(path: Path, saved: Path, tmp_path: Path) -> None:
    older = tmp_path / "older.db"
    back_up(saved, older)
    flip(path)
    before = bytes_of(path.parent), older.read_bytes()
    with pytest.raises(DatabaseError, match="damaged"):
        back_up(path, older, overwrite=True)
    assert (bytes_of(path.parent), older.read_bytes()) == before


def test_a_copy_is_overwritten_only_on_request(path: Path, tmp_path: Path) -> None:
    saved = tmp_path / "copy.db"
    back_up(path, saved)
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", "A third one.", session_id="s")
    before = saved.read_bytes()
    with pytest.raises(ValidationError, match="--overwrite"):
        back_up(path, saved)
    assert saved.read_bytes() == before
    back_up(path, saved, overwrite=True)
    assert contents(saved) == contents(path)


def test_a_backup_over_a_database_in_use_is_refused(path: Path, saved: Path) -> None:
    with SessionMemoryStore(saved, SETTINGS), pytest.raises(ValidationError, match="in use"):
        back_up(path, saved, overwrite=True)


@pytest.mark.parametrize(
    ("target", "reason"), [("memory.db", "the memory itself"), (".", "not a file"), ("none/copy.db", "No such file")]
)
def test_an_invalid_target_is_refused(path: Path, target: str, reason: str) -> None:
    before = bytes_of(path.parent)
    with pytest.raises((ValidationError, DatabaseError), match=reason):
        back_up(path, path.parent / target, overwrite=True)
    assert bytes_of(path.parent) == before


def test_a_missing_memory_is_reported_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="There is no memory at"):
        back_up(tmp_path / "none.db", tmp_path / "copy.db")
    assert not list(tmp_path.iterdir())


def test_the_commands_say_what_they_did(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    made = finished("backup", copy, "--database-path", path)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("Copied 2 memories (0.")
    assert made.stdout.endswith(f" MB) to {copy}\n")
    put = finished("restore", copy, "--overwrite", "--database-path", path)
    assert (put.returncode, put.stderr) == (0, "")
    restored, kept = put.stdout.splitlines()
    assert restored.startswith("Restored 2 memories (0.")
    assert kept == f"The previous memory is kept in {path}.before-restore"


def test_the_documented_schedule_makes_a_copy_a_day_which_can_be_restored(path: Path, tmp_path: Path) -> None:
    """The line of the crontab, run twice as cron runs it: with sh, and with % unescaped."""
    page = (Path(__file__).parents[2] / "docs/storage.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^0 3 \* \* \*  (vector-memory backup .*)$", page, re.MULTILINE)
    command = (
        line.replace("\\%", "%").replace("/srv/backups", f"{tmp_path}").replace("/srv/memory/memory.db", f"{path}")
    )
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C"}
    before = contents(path)
    for _ in range(2):
        subprocess.run(["/bin/sh", "-c", command], env=environment, check=True, capture_output=True)
    (copy,) = tmp_path.glob("memory-???.db")
    memory(path, "Stored since.")
    assert contents(path) != before
    ended = finished("restore", copy, "--overwrite", "--database-path", path)
    assert ended.returncode == 0, ended.stderr
    assert contents(path) == before
    assert found(examine(path)) == {}


def test_a_refusal_is_one_line_and_ends_with_1(path: Path, saved: Path) -> None:
    for words in (("backup", saved), ("restore", saved)):
        ended = finished(*words, "--database-path", path)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith("vector-memory: ")
        assert ended.stderr.count("\n") == 1


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


@pytest.mark.parametrize(
    "damage",
    [flip, lambda path: garble(path, 1, 200), lambda path: os.truncate(path, 5000), lambda path: os.truncate(path, 0)],
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


def foreign(path: Path) -> None:
    path.unlink()
    change(path, "create table songs (title text)")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (
            lambda path: change(path, "insert into schema_migrations values (999, 'from the future', '2099')"),
            "newer release",
        ),
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
