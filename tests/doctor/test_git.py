"""The doctor names what Git tracks of a memory."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from memory_files import examine, found, said
from vector_memory.maintenance.doctor.report import State


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


def test_a_tracked_memory_is_a_problem_and_the_command_takes_it_out(repository: Path, path: Path) -> None:
    report = examine(path)
    assert found(report) == {"git": State.PROBLEM}
    assert "Git tracks 2 files of the memory: exports/a.md, memory.db." in said(report, "git")
    [finding] = [one for one in report.parts["place"] if one.name == "git"]
    assert finding.advice is not None
    assert "on each of the branches feature, main" in finding.advice or "main, feature" in finding.advice
    subprocess.run(shlex.split(finding.advice.split("`")[3]), check=True, capture_output=True)
    git(repository, "commit", "-qm", "Without")
    assert path.is_file()
    assert "Git tracks" not in said(examine(path), "git")


def test_a_memory_that_only_another_branch_contains_is_a_problem_until_it_is_taken_out_there(
    repository: Path, path: Path, tmp_path: Path
) -> None:
    git(repository, "rm", "-rq", "--cached", "--", str(path), str(path.parent / "exports"))
    git(repository, "commit", "-qm", "Without")
    report = examine(path)
    assert "Other branches contain the memory: feature." in said(report, "git")
    [finding] = [one for one in report.parts["place"] if one.name == "git"]
    assert finding.advice is not None
    other = tmp_path / "other checkout"
    git(repository, "worktree", "add", "-q", str(other), "feature")
    subprocess.run(shlex.split(finding.advice.split("`")[5]), check=True, capture_output=True, cwd=other)
    git(other, "commit", "-qm", "Without")
    assert "git" not in found(examine(path))
    before = path.read_bytes()
    git(repository, "checkout", "-q", "--detach", "feature")
    assert path.read_bytes() == before


def test_an_untracked_memory_is_fine(path: Path) -> None:
    git(path.parent.parent, "init", "-q")
    assert said(examine(path), "git").strip() == "Git does not track the memory."


def test_without_git_nothing_is_said(repository: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    assert "git" not in {finding.name for finding in examine(path).parts["place"]}
