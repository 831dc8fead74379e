"""The doctor names what Git tracks of a memory."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from memory_files import examine, found, said
from vector_memory.maintenance.doctor.report import Report, State


@pytest.fixture
def repository(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose commits on two branches contain the memory and an export."""
    for name in ("GLOBAL", "SYSTEM"):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", os.devnull)
    folder = path.parent.parent
    (path.parent / "exports").mkdir()
    (path.parent / "exports" / "a.md").write_text("A report.")
    for arguments in ("init -qb main", "add -A -f", "commit -qm All", "branch feature"):
        git(folder, *arguments.split())
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments], check=True)


def test_a_tracked_memory_is_a_problem_until_the_command_has_taken_it_out_of_every_branch(
    repository: Path, path: Path
) -> None:
    report = examine(path)
    assert found(report) == {"git": State.PROBLEM}
    assert "Git tracks 2 files of the memory: exports/a.md, memory.db." in said(report, "git")
    assert "on each of these branches: " in said(report, "git")
    take_out(report, repository)
    assert path.is_file()
    after = examine(path)
    assert "Git tracks the memory on another branch." in said(after, "git")
    assert "on each of these branches: feature;" in said(after, "git")
    copy = path.read_bytes()
    git(repository, "checkout", "-qf", "feature")
    take_out(examine(path), repository)
    path.write_bytes(copy)
    assert "git" not in found(examine(path))


def take_out(report: Report, repository: Path) -> None:
    """Do what the doctor says, and commit."""
    [finding] = [one for one in report.parts["place"] if one.name == "git"]
    assert finding.advice is not None
    subprocess.run(shlex.split(finding.advice.split("`")[3]), check=True, capture_output=True)
    git(repository, "commit", "-qm", "Without")


def test_an_untracked_memory_is_fine(path: Path) -> None:
    git(path.parent.parent, "init", "-q")
    assert said(examine(path), "git").strip() == "Git does not track the memory."


def test_without_git_nothing_is_said(repository: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    assert "git" not in {finding.name for finding in examine(path).parts["place"]}
