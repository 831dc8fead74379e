"""Whatever is in the folder, all possible files are indexed, and the status says what was skipped and why."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_files import change
from vector_memory.files import FileMemory
from vector_memory.files.folder import MemoryFolder
from vector_memory.indexing import indexer
from waiting import eventually

Open = Callable[..., FileMemory]


@pytest.fixture
def deep(folder: Path) -> Iterator[Path]:
    """A folder with 1,100 levels of folders, deeper than a path may be long."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("inner", dir_fd=descriptor)
        inner = os.open("inner", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    yield folder
    subprocess.run(["rm", "-rf", folder / "inner"], check=True)


def test_a_folder_1100_levels_deep_is_named_and_the_other_files_are_found(deep: Path, open_memory: Open) -> None:
    (deep / "plan.md").write_text("The rocket starts on Tuesday.")
    memory = open_memory()
    memory.start_background_work()
    assert memory.wait_for_words(60)
    eventually(lambda: "being indexed" not in (memory.search("rocket").message or ""))
    assert [hit.path for hit in memory.search("rocket").results] == ["memory/plan.md"]
    assert "100 folders deep" in (memory.status().message or "")


def test_files_that_cannot_be_indexed_are_named_with_the_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "good.md").write_text("Good.")
    os.mkfifo(folder / "pipe.md")
    (folder / "link.md").symlink_to(folder / "good.md")
    (folder / "loop").symlink_to(folder)
    (folder / "large.md").touch()
    os.truncate(folder / "large.md", 1 << 32)
    with Path(folder, os.fsdecode(b"\xff\x0a.md")).open("wb"), socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(folder)  # the path of a socket is short
        server.bind("socket.md")
        memory = MemoryFolder(folder)
        assert list(memory.scan()) == ["good.md"]
    reasons = {each.path: each.reason for each in memory.skipped}
    assert reasons.keys() == {"pipe.md", "link.md", "loop", "large.md", "socket.md", "\ufffd\ufffd.md"}
    assert reasons["loop"] == "it is a link to a folder"
    assert "UTF-8" in reasons["\ufffd\ufffd.md"]
    assert "link" in reasons["link.md"]


def test_a_folder_that_cannot_be_read_hides_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("closed", "open"):
        (folder / name).mkdir()
        (folder / name / "a.md").write_text("Words.")
    closed = (folder / "closed").stat().st_ino
    scandir = os.scandir

    def refuse(descriptor: int) -> object:
        if os.fstat(descriptor).st_ino == closed:
            raise PermissionError(13, "Permission denied")
        return scandir(descriptor)

    monkeypatch.setattr(os, "scandir", refuse)
    memory = MemoryFolder(folder)
    assert list(memory.scan()) == ["open/a.md"]
    assert [(each.path, each.reason) for each in memory.skipped] == [
        ("closed", "it cannot be read (Permission denied)")
    ]


def test_a_file_that_cannot_be_chunked_does_not_stop_others(
    folder: Path, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = indexer.chunk_document

    def fail(text: str, *rest: Any, **more: Any) -> object:
        if "odd" in text:
            raise RecursionError
        return cut(text, *rest, **more)

    monkeypatch.setattr(indexer, "chunk_document", fail)
    (folder / "a.md").write_text("An odd text.")
    (folder / "b.md").write_text("A good text.")
    memory = open_memory()
    memory.start_background_work()
    assert memory.wait_for_words(60)
    assert [hit.path for hit in memory.search("good").results] == ["memory/b.md"]
    assert "a.md" in (memory.status().message or "")


def test_an_answer_says_when_files_could_not_be_indexed(
    folder: Path, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_folder: MemoryFolder) -> None:
        raise RuntimeError

    monkeypatch.setattr(MemoryFolder, "scan", fail)
    (folder / "a.md").write_text("Words.")
    memory = open_memory()
    memory.start_background_work()
    memory.wait_for_words(60)
    message = memory.search("words").message or ""
    assert "could not be indexed" in message
    assert "being indexed" not in message


def test_an_index_whose_shadow_table_was_dropped_is_rebuilt(folder: Path, index_file: Path, open_memory: Open) -> None:
    (folder / "a.md").write_text("Some words.")
    with open_memory() as memory:
        memory.start_background_work()
        assert memory.wait_for_words(60)
    change(index_file, "drop table vec_chunk_search_rowids")
    again = open_memory()
    again.start_background_work()
    assert again.wait_for_words(60)
    assert [hit.path for hit in again.search("words").results] == ["memory/a.md"]
