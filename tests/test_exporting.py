"""Exports stay inside their folders."""

import itertools
import os
import threading
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from faults.effort import effort
from vector_memory.errors import MemoryStorageError, ValidationError
from vector_memory.reading.export import ExportFolders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "exports"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """An empty folder that nothing may be written to."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def swap(folder: Path, outside: Path) -> None:
    """Put a folder aside and a link in its place."""
    folder.rename(folder.with_name(f"{folder.name}.aside"))
    folder.symlink_to(outside)


@pytest.fixture
def exports(folder: Path) -> ExportFolders:
    return ExportFolders([folder])


def test_a_relative_path_starts_at_the_first_folder(exports: ExportFolders, folder: Path) -> None:
    path = exports.write("reports/may.md", b"text", overwrite=False)
    assert path == folder / "reports" / "may.md"
    assert path.read_bytes() == b"text"


def test_an_absolute_path_inside_any_of_the_folders_is_allowed(tmp_path: Path) -> None:
    exports = ExportFolders([tmp_path / "one", tmp_path / "two"])
    assert exports.write(str(tmp_path / "two" / "a.md"), b"", overwrite=False) == tmp_path / "two" / "a.md"


@pytest.mark.parametrize(
    "path", ["../a.md", "a/../../b.md", "/etc/cron.d/a", "/dev/null", "", " ", ".", "..", "a\0.md", "folder/", "~/../a"]
)
def test_paths_that_lead_outside_or_name_no_file_are_refused(exports: ExportFolders, folder: Path, path: str) -> None:
    with pytest.raises(ValidationError, match="output_path"):
        exports.write(path, b"text", overwrite=True)
    assert not folder.exists() or list(folder.iterdir()) == []


@pytest.mark.parametrize("more", ["-evil", " ", "'", '"', ".", "\u200b", "\n"])
def test_a_sibling_whose_name_begins_like_the_folder_is_outside(
    tmp_path: Path, exports: ExportFolders, more: str
) -> None:
    (tmp_path / f"exports{more}").mkdir()
    with pytest.raises(ValidationError, match="outside"):
        exports.write(str(tmp_path / f"exports{more}" / "a.md"), b"", overwrite=False)
    assert list((tmp_path / f"exports{more}").iterdir()) == []


@pytest.mark.parametrize("place", [".", "out"])
def test_a_link_on_the_way_to_the_file_is_not_followed(
    outside: Path, folder: Path, exports: ExportFolders, place: str
) -> None:
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).symlink_to(outside)
    with pytest.raises(ValidationError, match="link"):
        exports.write(f"{place}/a.md", b"", overwrite=True)
    assert list(outside.iterdir()) == []


def test_a_folder_replaced_by_a_link_after_it_was_created_is_not_followed(
    outside: Path, folder: Path, exports: ExportFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkdir

    def make_and_swap(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        make(name, mode, dir_fd=dir_fd)
        if name == "reports":
            swap(folder / name, outside)

    monkeypatch.setattr("vector_memory.reading.export.os.mkdir", make_and_swap)
    with pytest.raises(ValidationError, match="link"):
        exports.write("reports/a.md", b"text", overwrite=False)
    assert list(outside.iterdir()) == []


def test_a_folder_replaced_by_a_link_after_it_was_opened_leads_nowhere_else(
    outside: Path, folder: Path, exports: ExportFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_it = os.open

    def swap_and_open(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            swap(folder / "reports", outside)
        return open_it(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr("vector_memory.reading.export.os.open", swap_and_open)
    exports.write("reports/a.md", b"text", overwrite=False)
    assert list(outside.iterdir()) == []
    assert (folder / "reports.aside" / "a.md").read_bytes() == b"text"


@pytest.mark.parametrize("becomes", ["a link", "a folder"])
def test_a_file_swapped_just_before_it_is_replaced_leads_nowhere_else(
    outside: Path, folder: Path, exports: ExportFolders, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    def swap_and_rename(draft: str, name: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(outside / "precious") if becomes == "a link" else (folder / name).mkdir()
        rename(draft, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    (outside / "precious").write_text("mine")
    exports.write("a.md", b"first", overwrite=False)
    rename = os.rename
    monkeypatch.setattr("vector_memory.reading.export.os.rename", swap_and_rename)
    with nullcontext() if becomes == "a link" else pytest.raises(ValidationError):
        exports.write("a.md", b"second", overwrite=True)
    assert (outside / "precious").read_text() == "mine"
    assert {path.name for path in folder.iterdir()} == {".gitignore", "a.md"}


def test_nothing_is_written_outside_while_a_folder_is_repeatedly_replaced_by_a_link(
    outside: Path, folder: Path, exports: ExportFolders
) -> None:
    ended = threading.Event()

    def swap_on() -> None:
        for number in itertools.count():
            # Writing creates the folder again whenever it is missing.
            with suppress(OSError):
                (folder / "reports").rename(folder / f"aside {number}")
                (folder / "reports").symlink_to(outside)
                (folder / "reports").unlink()
            if ended.is_set():
                return

    swapping = threading.Thread(target=swap_on)
    swapping.start()
    written = 0
    try:
        for number in range(effort(quick=60, long=1_000)):
            with suppress(ValidationError, MemoryStorageError):
                exports.write(f"reports/{number}.md", b"text", overwrite=number % 2 == 0)
                written += 1
    finally:
        ended.set()
        swapping.join()
    assert list(outside.iterdir()) == []
    assert written > 0


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_link_as_file_is_not_followed(
    tmp_path: Path, folder: Path, exports: ExportFolders, *, overwrite: bool
) -> None:
    folder.mkdir()
    target = tmp_path / "precious"
    target.write_text("mine")
    (folder / "a.md").symlink_to(target)
    with pytest.raises(ValidationError):
        exports.write("a.md", b"other", overwrite=overwrite)
    assert target.read_text() == "mine"


def test_a_file_is_replaced_only_on_request(exports: ExportFolders) -> None:
    path = exports.write("a.md", b"first", overwrite=False)
    with pytest.raises(ValidationError, match="overwrite=true"):
        exports.write("a.md", b"second", overwrite=False)
    assert path.read_bytes() == b"first"
    exports.write("a.md", b"second", overwrite=True)
    assert path.read_bytes() == b"second"
    assert {file.name for file in path.parent.iterdir()} == {".gitignore", "a.md"}


def test_a_pipe_or_folder_instead_of_the_file_is_refused(folder: Path, exports: ExportFolders) -> None:
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "inner").mkdir()
    for name in ("pipe", "inner"):
        with pytest.raises(ValidationError):
            exports.write(name, b"", overwrite=True)


def test_a_failed_write_leaves_no_partial_file(
    folder: Path, exports: ExportFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vector_memory.reading.export.os.fsync", fail)
    with pytest.raises(MemoryStorageError, match="No space left"):
        exports.write("a.md", b"text", overwrite=False)
    assert [path.name for path in folder.iterdir()] == [".gitignore"]


def test_names_with_spaces_and_quotes_are_just_names(exports: ExportFolders) -> None:
    assert exports.write('it\'s "done" .md ', b"x", overwrite=False).name == 'it\'s "done" .md '
