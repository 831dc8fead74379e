"""A memory in use, and a backup of another state."""

from pathlib import Path

import pytest

from memory_files import SETTINGS
from vector_memory.store import SessionMemoryStore


def memory(path: Path, *contents: str) -> Path:
    """Make a memory of these texts."""
    with SessionMemoryStore(path, SETTINGS) as store:
        for content in contents:
            store.store_memory("report", content, session_id="s")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A private folder."""
    made = tmp_path / "memory"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def path(folder: Path) -> Path:
    """The memory in use."""
    return memory(folder / "memory.db", "# Now\n\nWhat is there now.", "Something else.")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A backup of another state."""
    return memory(tmp_path / "saved.db", "# Then\n\nWhat was there then.")
