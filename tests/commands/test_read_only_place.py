"""A memory in a folder and a file that this user may only read."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nobody
from memory_files import bytes_of

READING = [
    ["search", "lock"],
    ["show", "2"],
    ["stats"],
    ["sessions"],
    ["timeline", "outage"],
    ["export", "outage"],
    ["doctor"],
]


@pytest.fixture
def place(memory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The memory in a folder of mode 0555, as a file of mode 0444; others may enter the folders above."""
    folder = tmp_path_factory.mktemp("shared")
    for above in (folder, *folder.parents[:-2]):
        above.chmod(above.stat().st_mode | 0o055)
    path = folder / "memory.db"
    shutil.copy(memory, path)
    path.chmod(0o444)
    folder.chmod(0o555)
    return path


def run(place: Path, copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, nobody.__file__, place, copy, *words],
        env=os.environ | {"TIKTOKEN_CACHE_DIR": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_what_only_reads_needs_no_right_to_write(words: list[str], place: Path, memory: Path) -> None:
    """It answers as elsewhere, and leaves the folder as it is."""
    before = bytes_of(place.parent)
    ended = run(place, memory, *words)
    assert (ended.returncode, ended.stderr) == (0, "") if words != ["doctor"] else ended.returncode == 0
    assert bytes_of(place.parent) == before
    if words == ["doctor"]:
        told = " ".join(ended.stdout.split())
        assert f"memory.db (444) and its folder {place.parent.name} (555) have to be writable" in told


def test_what_writes_says_why_it_cannot(place: Path, memory: Path) -> None:
    ended = run(place, memory, "delete", "1", "--yes")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "vector-memory: The database cannot be written: check the permissions of its file and folder. "
        f"The file is {place}.\n"
    )
