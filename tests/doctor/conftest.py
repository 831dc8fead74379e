"""A healthy file for every test."""

import shutil
from pathlib import Path

import pytest

from memory_files import SETTINGS
from vector_memory.store import SessionMemoryStore

DOCUMENT = "# Title\n\n" + "\n\n".join(f"## Part {number}\n\n" + f"word{number} " * 20 for number in range(6))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy file."""
    path = tmp_path_factory.mktemp("template") / "memory.db"
    store_all(path)
    return path


def store_all(address: Path | str) -> None:
    """Store memories: 1, 2 and 7 are chunked, 3 and 4 are not, 5 belongs to no session, 6 has tags, 7 supersedes 1."""
    with SessionMemoryStore(address, SETTINGS) as store:
        store.store_memory("report", DOCUMENT, session_id="s", agent_id="a", task_code="t")
        store.store_memory("working_memory", f"Ünïcode 数据 🙂. {DOCUMENT}", session_id="s", agent_id="b")
        store.store_memory("system_memory", "make database", session_id="s", agent_id="a")
        store.store_memory("input_prompt", "Why? " * 300, session_id="s", session_iter=2)
        store.store_memory("knowledge_base", DOCUMENT, title="Lasting")
        store.tagged.store("Redis needs a password.", tags=["redis", "ops"], category="decision")
        store.store_memory("report", "# Short\n\nThe report of another agent.", session_id="s", agent_id="b")
        store.supersede(7, 1)


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    """A copy of the healthy file in a folder of its own."""
    folder = tmp_path / "memory"
    folder.mkdir(mode=0o700)
    return Path(shutil.copy(template, folder / "memory.db"))
