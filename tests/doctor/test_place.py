"""The location of the file: permissions, log, file system, free space."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from memory_files import SETTINGS, doctor, examine, found, process, said
from vector_memory.storage.disk import filesystem
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Level

READER = """
with SessionMemoryStore(path, settings) as store, store._storage._database.read() as connection:
    connection.execute("select count(*) from session_memories").fetchall()
    print("reading", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("name", "mode", "state"),
    [("memory.db", 0o644, Level.PROBLEM), ("memory.db-wal", 0o660, Level.PROBLEM), (".", 0o755, Level.WARNING)],
)
def test_access_by_other_users_is_reported_and_removed(path: Path, name: str, mode: int, state: Level) -> None:
    place = path.parent / name
    place.touch()
    place.chmod(mode)
    report = examine(path)
    assert found(report) == {"permissions": state}
    assert f"({mode:o})" in said(report, "permissions")
    doctor(path).repair(report)
    assert found(examine(path)) == {}
    assert place.stat().st_mode & 0o077 == 0


def test_a_folder_that_holds_other_things_too_is_not_ours_to_close(path: Path) -> None:
    """But its real mode is told."""
    (path.parent / "main.py").touch()
    path.parent.chmod(0o755)
    report = examine(path)
    assert found(report) == {}
    assert said(report, "permissions").startswith("Only you can read the memory memory.db (600); others may enter its")
    assert f"{path.parent.name} (755)." in said(report, "permissions")


def test_a_long_log_is_a_warning(path: Path) -> None:
    log = filesystem.log_of(path)
    log.touch(mode=0o600)
    os.truncate(log, 20_000_001)
    report = examine(path)
    assert found(report) == {"log": Level.WARNING}
    assert "End long-running readers" in said(report, "log")


def test_deleted_bytes_that_wait_are_a_warning_until_they_can_be_erased(path: Path) -> None:
    with process(READER, path):
        with SessionMemoryStore(path, SETTINGS) as store:
            store.delete_memory(1)
        report, _ = doctor(path).repair_all(examine(path))
        assert found(report) == {"erasure": Level.WARNING}
        assert "End long-running readers" in said(report, "erasure")
    report, _ = doctor(path).repair_all(examine(path))
    assert found(report) == {}


@pytest.mark.parametrize("kind", ["nfs4", "9p"])
def test_a_shared_file_system_is_reported(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"27 1 254:0 / / rw - ext4 /dev/vda rw\n30 27 0:9 / {path.parent} rw - {kind} server:/x rw\n")
    monkeypatch.setattr(filesystem, "MOUNTS", mounts)
    report = examine(path)
    assert found(report) == {"file-system": Level.PROBLEM}
    assert f"({kind})" in said(report, "file-system")


@pytest.mark.parametrize(("free", "state"), [(1_000_000, Level.PROBLEM), (100_000_000, Level.WARNING)])
def test_a_full_disk_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: Level) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=free, used=0, free=free))
    assert found(examine(path)) == {"disk": state}
