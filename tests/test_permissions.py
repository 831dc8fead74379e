"""Every file that is ever made is for its owner only, whatever the umask allows (requirement S4)."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from lattice import LatticeEmbedder
from memory_files import SETTINGS
from original_files import unpacked
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.backup import back_up, restore_memory


@pytest.fixture(autouse=True)
def permissive_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of everything in a folder and its subfolders."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def test_the_memory_its_log_its_copies_and_its_exports_are_for_their_owner_only(tmp_path: Path) -> None:
    path, copy = tmp_path / "new" / "er" / "memory.db", tmp_path / "copy.db"
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as store:
        store.store_memory("report", "# T\n\nText.", session_id="s")
        store.write_document_to_file(1, "inner/a.md")
        store.write_document_to_file(1, "inner/a.md", overwrite=True)
        back_up(path, copy)
        found = modes(tmp_path)
    restore_memory(copy, path, overwrite=True)
    found |= modes(tmp_path)
    folders = {"new", "new/er", "new/er/exports", "new/er/exports/inner"}
    files = {"copy.db", "new/er/exports/.gitignore", "new/er/exports/inner/a.md"}
    files |= {f"new/er/memory.db{end}" for end in ("", "-wal", "-shm", ".before-restore")}
    assert found == {**dict.fromkeys(folders, 0o700), **dict.fromkeys(files, 0o600)}


def test_an_upgraded_file_with_its_log_and_its_copy_is_for_its_owner_only(tmp_path: Path) -> None:
    path = unpacked(tmp_path)
    other = apsw.Connection(str(path))  # somebody has the file open, so its log is there, for everybody
    other.execute("create table if not exists noted (at text)").fetchall()
    assert modes(tmp_path) == dict.fromkeys(("memory.db", "memory.db-wal", "memory.db-shm"), 0o644)
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()):
        names = ("memory.db", "memory.db-wal", "memory.db-shm", "memory.db.before-upgrade")
        assert modes(tmp_path) == dict.fromkeys(names, 0o600)
    other.close()
