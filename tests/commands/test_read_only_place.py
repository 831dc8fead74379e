"""A memory in a folder and a file that this user may only read."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forked import finished
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
def place(memory: Path) -> Iterator[Path]:
    """The memory in a folder of mode 0555, as a file of mode 0444, where others may enter the folders above.

    Not in a folder of pytest: each start of it closes these to others.
    """
    with tempfile.TemporaryDirectory(prefix="shared") as folder:
        path = Path(folder, "memory.db")
        shutil.copy(memory, path)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        yield path


def run(place: Path, copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return finished("-m", "nobody", place, copy, *words, env=os.environ | {"TIKTOKEN_CACHE_DIR": ""})


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_what_only_reads_needs_no_right_to_write(words: list[str], place: Path, memory: Path) -> None:
    """It answers as elsewhere, and leaves the folder as it is."""
    before = bytes_of(place.parent)
    ended = run(place, memory, *words)
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr or words == ["doctor"]
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


def test_a_place_that_cannot_be_entered_is_named(place: Path, memory: Path) -> None:
    place.parent.chmod(0)
    ended = run(place, memory, "search", "lock")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"vector-memory: No permission to open {place}: check the permissions of its folders.\n"
