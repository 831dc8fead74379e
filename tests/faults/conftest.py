"""Small disks, to be filled up."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """Mount a file system in memory."""
    folder.mkdir()
    with mount("-t", "tmpfs", "-o", options, "none", folder):
        yield folder


@contextmanager
def mount(*arguments: str | Path) -> Iterator[None]:
    """Run `mount`, and undo it at the end; the last argument is where."""
    command = ["mount", *map(str, arguments)]
    mounting = subprocess.run(command, capture_output=True, check=False)
    if mounting.returncode:
        pytest.skip(f"mounting is not permitted here: {mounting.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", command[-1]], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    with mounted(tmp_path / "small", "size=2m") as folder:
        yield folder


@pytest.fixture
def disk_for_few_files(tmp_path: Path) -> Iterator[Path]:
    """A file system for two files and its root."""
    with mounted(tmp_path / "few", "size=1m,nr_inodes=3") as folder:
        yield folder
