"""What macOS needs so that an acknowledged write is on the disk. Tried with a system that claims to be macOS."""

import fcntl
import os
from pathlib import Path

import pytest

from vector_memory.storage.disk.filesystem import flush_to_disk
from vector_memory.storage.sqlite.database import Database

F_FULLFSYNC = 51


@pytest.mark.parametrize(("platform", "expected"), [("darwin", 1), ("linux", 0)])
def test_on_macos_a_commit_reaches_the_disk_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, expected: int
) -> None:
    monkeypatch.setattr("vector_memory.storage.sqlite.connecting.sys.platform", platform)
    database = Database(tmp_path / "memory.db", dimensions=16)
    try:
        with database.write() as connection:
            asked = [connection.pragma(name) for name in ("fullfsync", "checkpoint_fullfsync")]
    finally:
        database.close()
    assert asked == [expected, expected]


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
