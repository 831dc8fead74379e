"""The folder: no path leads out of it, and no entry is lost."""

import fcntl
import os
import subprocess
import sys
import threading
import unicodedata
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

import pytest

from vector_memory.errors import CancelledCallError, MemoryStorageError, NotFoundError, ValidationError
from vector_memory.files import folder as module
from vector_memory.files.folder import MemoryFolder
from vector_memory.storage.cancellation import Call, current_call
from vector_memory.storage.disk import filesystem as locking
from waiting import PATIENCE

Form = Literal["NFC", "NFD"]
NOON = datetime(2026, 2, 13, 12, 5)

WRITER = """
import sys
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args
from vector_memory.files.folder import MemoryFolder
folder = MemoryFolder(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    folder.append(f"{sys.argv[2]}-{number}.", None, datetime(2026, 2, 13, 12, 5))
"""


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.md"
    path.write_text("outside")
    return path


def read(folder: Path, path: str) -> bytes:
    memory = MemoryFolder(folder)
    return memory.read(memory.find(path))[0]


@pytest.mark.parametrize(
    "path",
    [
        "../secret.md",
        "memory/../../secret.md",
        "a/../../../secret.md",
        "/etc/passwd.md",
        "..",
        "memory",
        "MEMORY.txt",
        "a\0.md",
        ".git/x.md",
        ".hidden.md",
        "memory/.hidden.md",
        "../memory-evil/x.md",
        "x.md\n",
        f"{'x' * 300}.md",
    ],
)
def test_a_path_that_leads_out_or_names_no_markdown_is_refused(folder: Path, secret: Path, path: str) -> None:
    (folder.parent / "memory-evil").mkdir()
    (folder.parent / "memory-evil" / "x.md").write_text("outside")
    (folder / ".hidden.md").write_text("hidden")
    with pytest.raises(ValidationError):
        read(folder, path)
    assert secret.read_text() == "outside"


def test_links_are_not_followed_to_files_or_folders(folder: Path, secret: Path) -> None:
    (folder / "link.md").symlink_to(secret)
    (folder / "up").symlink_to(secret.parent)
    for path in ("link.md", "up/secret.md"):
        with pytest.raises(ValidationError):
            read(folder, path)
    assert MemoryFolder(folder).scan() == {}


def test_hard_links_are_not_followed_either(folder: Path, secret: Path) -> None:
    for name in ("link.md", "2026-02-13.md"):
        (folder / name).hardlink_to(secret)
    with pytest.raises(ValidationError, match="other names"):
        read(folder, "link.md")
    with pytest.raises(MemoryStorageError):
        MemoryFolder(folder).append("Entry.", None, NOON)
    assert MemoryFolder(folder).scan() == {}
    assert secret.read_text() == "outside"


@pytest.mark.parametrize("data", ["# Log\n".encode("utf-16"), b"# Caf\xe9\n", "# Log\n".encode("utf-16-le")])
def test_a_log_in_another_encoding_is_left_as_it_is(data: bytes, folder: Path) -> None:
    log = folder / "2026-02-13.md"
    log.write_bytes(data)
    with pytest.raises(MemoryStorageError, match="not text in UTF-8, and was not changed"):
        MemoryFolder(folder).append("Entry.", None, NOON)
    assert log.read_bytes() == data


def test_a_folder_replaced_by_a_link_after_the_check_leads_nowhere(folder: Path, secret: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "secret.md").write_text("inside")
    memory = MemoryFolder(folder)
    path = memory.find("notes/secret.md")
    (folder / "notes").rename(folder / "old")
    (folder / "notes").symlink_to(secret.parent)
    with pytest.raises(ValidationError):
        memory.read(path)


def test_a_pipe_is_neither_read_nor_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.md")
    assert MemoryFolder(folder).scan() == {}
    with pytest.raises(ValidationError):
        read(folder, "pipe.md")


def test_paths_are_those_that_searches_show_or_relative_to_the_folder(folder: Path) -> None:
    (folder / "memory").mkdir()
    (folder / "a.md").write_text("outer")
    (folder / "memory" / "a.md").write_text("inner")
    (folder / "memory" / "b.md").write_text("only inner")
    assert read(folder, "a.md") == read(folder, "memory/a.md") == b"outer"
    assert read(folder, "memory/memory/a.md") == b"inner"
    assert read(folder, "memory/b.md") == b"only inner"
    with pytest.raises(NotFoundError):
        read(folder, "c.md")


def test_all_markdown_files_are_found_except_hidden_and_large_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 10)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / ".obsidian").mkdir()
    for name in ("a.md", "B.MD", "deep/er/c.md", ".obsidian/x.md", ".y.md", "z.txt"):
        (folder / name).write_text("text")
    (folder / "long.md").write_text("x" * 11)
    (folder / os.fsdecode(b"\xff.md")).write_text("text")
    assert sorted(MemoryFolder(folder).scan()) == ["B.MD", "a.md", "deep/er/c.md"]
    with pytest.raises(ValidationError, match="longer"):
        read(folder, "long.md")


@pytest.mark.parametrize("written", get_args(Form))
@pytest.mark.parametrize("asked", get_args(Form))
def test_a_path_is_found_however_its_letters_are_composed(folder: Path, written: Form, asked: Form) -> None:
    path = "Zürich/café й 한국.md"
    file = folder / unicodedata.normalize(written, path)
    file.parent.mkdir()
    file.write_text("# Here")
    memory = MemoryFolder(folder)
    for name in (path, f"{folder.name}/{path}"):
        assert memory.find(unicodedata.normalize(asked, name)) == unicodedata.normalize(written, path)


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    assert MemoryFolder(tmp_path / "none").scan() == {}


def test_an_entry_is_added_under_a_heading_with_the_time_and_topic(folder: Path) -> None:
    memory = MemoryFolder(folder)
    assert memory.append("First.\n\n", "Deploy", NOON) == "2026-02-13.md"
    memory.append("Second.", None, NOON)
    assert (folder / "2026-02-13.md").read_text() == "## 12:05 — Deploy\n\nFirst.\n\n## 12:05\n\nSecond.\n"


def test_an_entry_starts_after_an_empty_line_however_the_file_ends(folder: Path) -> None:
    for left in ("Text", "Text\n", "Text\n\n"):
        (folder / "2026-02-13.md").write_text(left)
        MemoryFolder(folder).append("Entry.", None, NOON)
        assert (folder / "2026-02-13.md").read_text() == "Text\n\n## 12:05\n\nEntry.\n"


def test_an_entry_that_is_sent_twice_is_stored_once(folder: Path) -> None:
    memory = MemoryFolder(folder)
    for _ in range(2):
        memory.append("Entry.", "Topic", NOON)
    memory.append("Entry.", "Topic", NOON.replace(minute=6))
    assert (folder / "2026-02-13.md").read_text().count("Entry.") == 2


def test_a_missing_folder_is_created_for_its_owner_only(tmp_path: Path) -> None:
    MemoryFolder(tmp_path / "new" / "memory").append("Entry.", None, NOON)
    assert (tmp_path / "new" / "memory").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "memory" / "2026-02-13.md").stat().st_mode & 0o777 == 0o600


def test_a_log_that_is_a_link_is_not_changed(folder: Path, secret: Path) -> None:
    (folder / "2026-02-13.md").symlink_to(secret)
    with pytest.raises(MemoryStorageError):
        MemoryFolder(folder).append("Entry.", None, NOON)
    assert secret.read_text() == "outside"


def test_a_partial_write_is_undone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "2026-02-13.md").write_text("Before.\n")
    write = os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(module.os, "write", half)
    with pytest.raises(MemoryStorageError, match="No space"):
        MemoryFolder(folder).append("An entry that does not fit.", None, NOON)
    assert (folder / "2026-02-13.md").read_text() == "Before.\n"


def test_an_entry_goes_to_the_file_with_which_an_editor_replaced_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, lock = threading.Event(), fcntl.flock

    def note_and_lock(descriptor: int, operation: int) -> None:
        opened.set()
        lock(descriptor, operation)

    log = folder / "2026-02-13.md"
    log.write_text("Old.\n")
    descriptor = os.open(log, os.O_RDWR)
    lock(descriptor, fcntl.LOCK_EX)
    monkeypatch.setattr(fcntl, "flock", note_and_lock)
    writing = threading.Thread(target=MemoryFolder(folder).append, args=("Entry.", None, NOON))
    writing.start()
    assert opened.wait(PATIENCE)
    (folder / "draft").write_text("New.\n")
    (folder / "draft").rename(log)
    os.close(descriptor)
    writing.join()
    assert log.read_text() == "New.\n\n## 12:05\n\nEntry.\n"


@pytest.mark.parametrize(
    ("call", "error"),
    [(Call(cancelled=True), CancelledCallError), (Call(arrived_at=-60), MemoryStorageError)],
    ids=["cancelled", "too late"],
)
def test_a_call_that_times_out_on_a_locked_log_writes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: Call, error: type[Exception]
) -> None:
    monkeypatch.setattr(locking, "FILE_LOCK_TIMEOUT_SECONDS", 0.0)
    memory = MemoryFolder(folder)
    log = folder / memory.append("First.", None, NOON)
    before = log.read_bytes()

    def append() -> None:
        current_call.set(call)
        with pytest.raises(error):
            memory.append("Second.", None, NOON)
        refused.set()

    refused = threading.Event()
    with log.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        threading.Thread(target=append, daemon=True).start()
        assert refused.wait(PATIENCE)
    assert log.read_bytes() == before


def test_entries_of_several_processes_are_all_stored_whole(folder: Path) -> None:
    count, each = 4, 50
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(folder), f"w{name}", str(each)]) for name in range(count)
    ]
    assert [writer.wait(PATIENCE) for writer in writers] == [0] * count
    blocks = (folder / "2026-02-13.md").read_text().split("## 12:05\n\n")[1:]
    assert sorted(block.strip() for block in blocks) == sorted(f"w{w}-{n}." for w in range(count) for n in range(each))


def test_folders_of_others_are_not_listed_but_their_files_can_be_read(folder: Path, tmp_path: Path) -> None:
    for name in ("a.md", "exports/b.md", "exports/deep/c.md", "notes/exports/d.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (tmp_path / "link").symlink_to(folder / "exports")
    for others in ([folder / "exports"], [tmp_path / "link"]):
        memory = MemoryFolder(folder, others)
        assert sorted(memory.scan()) == ["a.md", "notes/exports/d.md"]
        assert memory.skipped == []
        assert memory.read(memory.find("memory/exports/b.md"))[0] == b"exports/b.md"
    for others in ([], [folder], [folder.parent], [tmp_path / "elsewhere"]):
        assert len(MemoryFolder(folder, others).scan()) == 4
