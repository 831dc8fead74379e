"""A project in a Git repository, for tests of what Git does to a memory."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_files import SETTINGS
from vector_memory.domain import Scope
from vector_memory.store import SessionMemoryStore

NAME = "agent_session_memory.db"
REPORTS = Scope("report", session_id="s")

Git = Callable[..., str]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def git(project: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Return Git in a project with one commit, without anybody's configuration."""
    for name, value in {"CONFIG_GLOBAL": os.devnull, "CONFIG_SYSTEM": os.devnull}.items():
        monkeypatch.setenv(f"GIT_{name}", value)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "a")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.com")

    def run(*arguments: str | Path, at: Path = project) -> str:
        ran = subprocess.run(["git", "-C", at, *arguments], capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return os.fsdecode(ran.stdout)

    run("init", "-q", "-b", "main")
    (project / "code.py").write_text("print()\n")
    run("add", "-A")
    run("commit", "-qm", "First")
    return run


@pytest.fixture
def linked(git: Git, tmp_path: Path) -> Path:
    """A second checkout of the project, by `git worktree`."""
    folder = tmp_path / "linked"
    git("worktree", "add", "-q", folder)
    return folder


def seen(git: Git, **at: Path) -> list[str]:
    """Return the files that Git would add or commit."""
    status = git("-c", "core.quotePath=false", "status", "--porcelain", "-z", "--untracked-files=all", **at)
    return [line[3:] for line in status.split("\0") if line]


def store(project: Path, text: str) -> None:
    """Store and export a report in the default place, as one process does."""
    with SessionMemoryStore(project / "memory" / NAME, SETTINGS) as opened:
        opened.write_document_to_file(opened.store_memory("report", text, session_id="s").memory_id, f"{text}.md")


def store_in(database: Path) -> None:
    """Store a report in a database."""
    with SessionMemoryStore(database, SETTINGS) as opened:
        opened.store_memory("report", "One", session_id="s")


def stored(project: Path) -> list[str]:
    """Return the reports in the default place, the oldest first."""
    with SessionMemoryStore(project / "memory" / NAME, SETTINGS, read_only=True) as opened:
        return [memory.content for memory in opened.search_documents(None, REPORTS).results][::-1]
