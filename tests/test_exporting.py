"""Exports stay inside their folders."""

import os
import stat
from pathlib import Path

import pytest

from vector_memory.errors import MemoryStorageError, ValidationError
from vector_memory.exporting import ExportFolders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "exports"


@pytest.fixture
def exports(folder: Path) -> ExportFolders:
    return ExportFolders([folder])


def test_a_relative_path_is_meant_from_the_first_folder(exports: ExportFolders, folder: Path) -> None:
    path = exports.write("reports/may.md", b"text", overwrite=False)
    assert path == folder / "reports" / "may.md"
    assert path.read_bytes() == b"text"


def test_files_and_folders_are_for_their_owner_only(exports: ExportFolders) -> None:
    path = exports.write("reports/may.md", b"text", overwrite=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_absolute_path_inside_any_of_the_folders_is_allowed(tmp_path: Path) -> None:
    exports = ExportFolders([tmp_path / "one", tmp_path / "two"])
    assert exports.write(str(tmp_path / "two" / "a.md"), b"", overwrite=False) == tmp_path / "two" / "a.md"


@pytest.mark.parametrize(
    "path",
    ["../a.md", "a/../../b.md", "/etc/cron.d/a", "/dev/null", "", " ", ".", "..", "a\0.md", "folder/", "~/../a"],
)
def test_paths_that_lead_outside_or_name_no_file_are_refused(exports: ExportFolders, folder: Path, path: str) -> None:
    with pytest.raises(ValidationError, match="output_path"):
        exports.write(path, b"text", overwrite=True)
    assert not folder.exists() or list(folder.iterdir()) == []


def test_a_sibling_whose_name_begins_like_the_folder_is_outside(tmp_path: Path, exports: ExportFolders) -> None:
    with pytest.raises(ValidationError, match="outside"):
        exports.write(str(tmp_path / "exports-evil" / "a.md"), b"", overwrite=False)


def test_a_link_as_parent_is_not_followed(tmp_path: Path, folder: Path, exports: ExportFolders) -> None:
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    with pytest.raises(ValidationError, match="link"):
        exports.write("out/a.md", b"", overwrite=True)
    assert not (tmp_path / "a.md").exists()


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


def test_a_file_is_replaced_only_when_asked(exports: ExportFolders) -> None:
    path = exports.write("a.md", b"first", overwrite=False)
    with pytest.raises(ValidationError, match="overwrite=true"):
        exports.write("a.md", b"second", overwrite=False)
    assert path.read_bytes() == b"first"
    exports.write("a.md", b"second", overwrite=True)
    assert path.read_bytes() == b"second"
    assert [file.name for file in path.parent.iterdir()] == ["a.md"]


def test_a_pipe_or_folder_in_the_place_of_the_file_is_refused(folder: Path, exports: ExportFolders) -> None:
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "inner").mkdir()
    for name in ("pipe", "inner"):
        with pytest.raises(ValidationError):
            exports.write(name, b"", overwrite=True)


def test_a_write_that_fails_leaves_no_part_of_a_file(
    folder: Path, exports: ExportFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vector_memory.exporting.os.fsync", fail)
    with pytest.raises(MemoryStorageError, match="No space left"):
        exports.write("a.md", b"text", overwrite=False)
    assert list(folder.iterdir()) == []


def test_names_with_spaces_and_quotes_are_just_names(exports: ExportFolders) -> None:
    assert exports.write('it\'s "done" .md ', b"x", overwrite=False).name == 'it\'s "done" .md '
