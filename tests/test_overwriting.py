"""Nothing that writes files ever replaces a database, whatever it is asked, nor disturbs one that is open."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import apsw
import pytest

from lattice import LatticeEmbedder
from memory_files import SETTINGS, WRITER, bytes_of, contents, process
from vector_memory.cli.commands.ingestion import text_in_file
from vector_memory.cli.logging_setup import _file_handler
from vector_memory.errors import ConfigurationError, DatabaseLockError, ValidationError
from vector_memory.files.folder import MemoryFolder
from vector_memory.reading.export import ExportFolders
from vector_memory.storage.sqlite.file_index import IndexDatabase
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.backup import back_up, restore_memory
from vector_memory.upkeep.export_lines import new_file

HOLDS_NO_LOCK = """
import fcntl, os, sys
fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
"""
"""Succeeds if no process holds the lock by which SQLite tells that it has a database open."""

Write = Callable[[Path], object]


def memory(path: Path) -> Path:
    with SessionMemoryStore(path, SETTINGS, embedder=LatticeEmbedder()) as store:
        store.store_memory("report", "# T\n\nPrecious.", session_id="s")
    return path


def holds_lock(path: Path) -> bool:
    return (
        subprocess.run([sys.executable, "-c", HOLDS_NO_LOCK, path], stderr=subprocess.DEVNULL, check=False).returncode
        != 0
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a closed memory, an index, a foreign database, and other names of the memory."""
    folder = tmp_path / "folder"
    folder.mkdir()
    memory(folder / "closed.db")
    IndexDatabase(folder / "index.sqlite", dimensions=8).close()
    connection = apsw.Connection(str(folder / "foreign.sqlite"))
    connection.execute("create table songs (title text)")
    connection.close()
    memory(folder / "memory.db")
    (folder / "hard.md").hardlink_to(folder / "memory.db")
    (folder / "link.md").symlink_to("memory.db")
    return folder


@pytest.fixture
def store(folder: Path) -> Iterator[SessionMemoryStore]:
    """A server's store, whose documents may be written to the folder that the memory is in."""
    with SessionMemoryStore(
        folder / "memory.db",
        SETTINGS,
        export_folders=[folder],
        other_databases=[folder / "later.sqlite"],
        embedder=LatticeEmbedder(),
    ) as opened:
        opened.store_memory("report", "# T\n\nMore.", session_id="s")
        yield opened


PRECIOUS = [
    "memory.db",
    "memory.db-wal",
    "memory.db-shm",
    "memory.db-journal",
    "Memory.db-WAL",
    "hard.md",
    "link.md",
    "closed.db",
    "closed.db-wal",
    "closed.db-journal",
    "index.sqlite",
    "index.sqlite-shm",
    "index.sqlite.words.lock",
    "index.sqlite.vectors.lock",
    "foreign.sqlite",
    "later.sqlite",
    "LATER.sqlite",
    "later.sqlite-wal",
]


def files(folder: Path) -> dict[str, int]:
    """Return a folder's contents as inodes: reading files would drop the locks under test."""
    return {file.name: file.lstat().st_ino for file in folder.iterdir()}


def is_refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except (ValidationError, ConfigurationError):
        return True
    return False


def test_no_export_of_a_server_replaces_or_becomes_a_database_file(folder: Path, store: SessionMemoryStore) -> None:
    before = files(folder)
    for overwrite in (True, False):
        written = [
            name
            for name in PRECIOUS
            if not is_refused(lambda name=name: store.write_document_to_file(1, name, overwrite=overwrite))  # type: ignore[misc]  # noqa: B023
        ]
        assert written == []
    assert files(folder) == before
    assert len(contents(folder / "closed.db")) == 1


def test_an_attempt_does_not_drop_the_locks_of_the_open_memory(folder: Path, store: SessionMemoryStore) -> None:
    attempts: list[Write] = [
        lambda path: store.write_document_to_file(1, path.name, overwrite=True),
        lambda path: back_up(folder / "closed.db", path, overwrite=True),
        lambda path: text_in_file(str(path)),
        lambda path: MemoryFolder(folder).read(path.name),
        lambda path: restore_memory(folder / "closed.db", path, overwrite=True),
        lambda path: _file_handler(path, []),
    ]
    for name in ("memory.db", "hard.md"):
        for attempt in attempts:
            with pytest.raises((ValidationError, DatabaseLockError, ConfigurationError)):
                attempt(folder / name)
    assert holds_lock(folder / "memory.db")
    store.store_memory("report", "# T\n\nStill.", session_id="s")
    assert len(contents(folder / "memory.db")) == 3


def test_no_command_replaces_or_becomes_a_database_file(folder: Path) -> None:
    path = folder / "memory.db"

    def write(target: Path) -> None:
        with new_file(target, overwrite=True, databases=[path]) as stream:
            stream.write(b"lines")

    writers: dict[str, Write] = {
        "export": write,
        "backup": lambda target: back_up(path, target, overwrite=True),
        "log": lambda target: _file_handler(target, [path]),
    }
    before = bytes_of(folder)
    written = [
        (kind, name)
        for kind, writer in writers.items()
        for name in PRECIOUS
        if (folder / name).exists() or name[-4:-3] == "-"
        if not is_refused(lambda writer=writer, name=name: writer(folder / name))  # type: ignore[misc]
    ]
    assert written == []
    assert bytes_of(folder) == before


def test_a_memory_that_another_process_has_open_is_not_replaced(folder: Path) -> None:
    with process(WRITER, folder / "busy.db") as writer:
        with pytest.raises(ValidationError):
            back_up(folder / "memory.db", folder / "busy.db", overwrite=True)
        with pytest.raises(ValidationError):
            ExportFolders([folder]).write("busy.db", b"", overwrite=True)
        assert writer.poll() is None


def test_a_memory_created_under_the_name_while_the_file_is_written_is_not_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.md").write_text("ordinary")
    synchronize = os.fsync

    def swap(descriptor: int) -> None:
        synchronize(descriptor)
        shutil.move(folder / "closed.db", folder / "a.md")

    monkeypatch.setattr(os, "fsync", swap)
    with pytest.raises(ValidationError, match="is a database"):
        ExportFolders([folder]).write("a.md", b"text", overwrite=True)
    assert contents(folder / "a.md") == ["# T\n\nPrecious."]


def test_a_file_that_appears_during_the_write_is_not_replaced_without_a_request(folder: Path) -> None:
    def write() -> None:
        with new_file(folder / "a.jsonl", overwrite=False, databases=[folder / "memory.db"]):
            (folder / "a.jsonl").write_text("mine")

    with pytest.raises(ValidationError, match="already exists"):
        write()
    assert (folder / "a.jsonl").read_text() == "mine"


@pytest.mark.parametrize("links", ["hard links", "none, as on a memory stick"])
def test_a_backup_replaces_a_backup_until_it_has_been_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch, links: str
) -> None:
    if links != "hard links":
        monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError(errno.EPERM, "Operation not permitted")))
    copy = folder / "copy.db"
    back_up(folder / "memory.db", copy)
    with pytest.raises(ValidationError, match="already exists"):
        back_up(folder / "memory.db", copy)
    back_up(folder / "memory.db", copy, overwrite=True)
    with pytest.raises(ValidationError, match="is a database"):
        ExportFolders([folder]).write("copy.db", b"", overwrite=True)
    SessionMemoryStore(copy, SETTINGS, embedder=LatticeEmbedder()).close()
    with pytest.raises(ValidationError, match="is a database"):
        back_up(folder / "memory.db", copy, overwrite=True)
    assert len(contents(copy)) == 1


def test_a_restored_file_is_a_memory_and_not_a_backup(folder: Path) -> None:
    back_up(folder / "memory.db", folder / "copy.db")
    for target in (folder / "new.db", folder / "closed.db"):
        restore_memory(folder / "copy.db", target, overwrite=True)
        with pytest.raises(ValidationError, match="is a database"):
            back_up(folder / "memory.db", target, overwrite=True)


def test_a_link_is_written_through_and_a_device_is_never_replaced(folder: Path) -> None:
    (folder / "latest").symlink_to("dated.jsonl")
    with new_file(folder / "latest", overwrite=False, databases=[folder / "memory.db"]) as stream:
        stream.write(b"lines")
    assert (folder / "latest").is_symlink()
    assert (folder / "dated.jsonl").read_bytes() == b"lines"
    terminal, end = os.openpty()
    with new_file(Path(os.ttyname(end)), overwrite=True, databases=[folder / "memory.db"]) as stream:
        stream.write(b"lines")
    assert os.read(terminal, 100) == b"lines"
    os.close(terminal)
    os.close(end)


def test_a_pipe_is_written_to(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with subprocess.Popen(["cat", folder / "pipe"], stdout=subprocess.PIPE) as reader:
        with new_file(folder / "pipe", overwrite=False, databases=[folder / "memory.db"]) as stream:
            stream.write(b"lines")
        assert reader.communicate()[0] == b"lines"
    assert (folder / "pipe").is_fifo()


def test_the_longest_name_that_the_disk_takes_can_be_written(folder: Path) -> None:
    for overwrite in (False, True):
        with new_file(folder / ("x" * 255), overwrite=overwrite, databases=[folder / "memory.db"]) as stream:
            stream.write(b"lines")


def test_two_exports_to_one_file_at_once_do_not_take_each_other_for_a_database(folder: Path) -> None:
    exports = ExportFolders([folder])
    exports.write("a.md", b"first", overwrite=False)
    with (folder / "a.md").open("rb"):
        exports.write("a.md", b"second", overwrite=True)
    assert (folder / "a.md").read_bytes() == b"second"


def test_no_export_replaces_a_file_that_the_server_is_writing_or_becomes_one_that_is_removed(folder: Path) -> None:
    """Its log would go on in a file without a name; a draft that is left over is deleted by the next export."""
    exports = ExportFolders([folder], [])
    with (folder / "server.log").open("a") as log:
        with pytest.raises(ValidationError, match="in use"):
            exports.write("server.log", b"# T", overwrite=True)
        log.write("kept")
    assert (folder / "server.log").read_text() == "kept"
    with pytest.raises(ValidationError, match="unfinished"):
        exports.write(f".vector-memory-{'0' * 16}.partial", b"# T", overwrite=True)
