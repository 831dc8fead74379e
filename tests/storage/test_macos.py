"""What macOS needs so that an acknowledged write is on the disk. Tried with a system that claims to be macOS."""

import fcntl
import os
import stat
from pathlib import Path

import apsw
import pytest

from vector_memory.storage.disk import drafts
from vector_memory.storage.disk.filesystem import flush_to_disk
from vector_memory.storage.sqlite import copying
from vector_memory.storage.sqlite.database import Database
from vector_memory.tenancy.quotas import Quota
from vector_memory.tenancy.registry import FolderRegistry
from vector_memory.tenancy.tokens import Permission

F_FULLFSYNC = 51


def flushed(connection: apsw.Connection) -> list[object]:
    return [connection.pragma(name) for name in ("fullfsync", "checkpoint_fullfsync")]


def test_every_commit_and_checkpoint_reaches_the_disk_itself(tmp_path: Path) -> None:
    """Also those of a restored or repaired memory. SQLite asks for it on macOS only."""
    database = Database(tmp_path / "memory.db", dimensions=16)
    try:
        with database.write() as connection:
            assert flushed(connection) == [1, 1]
    finally:
        database.close()
    with copying._exclusive_connection(tmp_path / "memory.db") as connection:
        assert flushed(connection) == [1, 1]


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_is_flushed_from_the_cache_of_the_disk_too_or_at_least_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    calls: list[str] = []

    def noted(_descriptor: int, command: int) -> int:
        calls.append("full" if command == F_FULLFSYNC else "other")
        if fails:
            raise OSError
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", F_FULLFSYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", noted)
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    with (tmp_path / "file").open("wb") as file:
        flush_to_disk(file.fileno())
    assert calls == (["full", "fsync"] if fails else ["full"])


def test_a_revoked_token_and_a_quota_are_on_the_disk_when_the_command_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the folder that names their file."""
    registry = FolderRegistry(tmp_path / "data")
    registry.create("team")
    registry.tokens.create("ann", "team", Permission.WRITE)
    flushed: list[bool] = []
    monkeypatch.setattr(drafts, "flush_to_disk", lambda one: flushed.append(stat.S_ISDIR(os.fstat(one).st_mode)))
    registry.tokens.revoke("ann")
    registry.set_quota("team", Quota(memories=7))
    assert flushed == [False, True] * 2
    assert registry.quota("team").memories == 7
