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
from vector_memory.tenancy.registry import Registry

F_FULLFSYNC = 51


def flushed(connection: apsw.Connection) -> list[object]:
    return [connection.pragma(name) for name in ("fullfsync", "checkpoint_fullfsync")]


def test_every_commit_and_checkpoint_reaches_the_disk_itself(tmp_path: Path) -> None:
    """Also those of a restored or repaired memory, and of a revoked token. SQLite asks for it on macOS only."""
    database = Database(tmp_path / "memory.db", dimensions=16)
    try:
        with database.write() as connection:
            assert flushed(connection) == [1, 1]
    finally:
        database.close()
    with copying._exclusive_connection(tmp_path / "memory.db") as connection:
        assert flushed(connection) == [1, 1]
    with Registry(tmp_path).tables.transaction(writes=True) as teams:
        assert flushed(teams.connection.raw) == [1, 1]


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


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_folder_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bool] = []
    monkeypatch.setattr(drafts, "flush_to_disk", lambda one: flushed.append(stat.S_ISDIR(os.fstat(one).st_mode)))
    with drafts.draft_of(tmp_path / "file", drafts.Rules()) as draft:
        with draft.open() as stream:
            stream.write(b"content")
        draft.publish()
    assert flushed == [False, True]
