"""The doctor names what Git has of a memory, with the command that takes it out."""

import shlex
import subprocess
from pathlib import Path

import pytest

from memory_files import SETTINGS, doctor, examine, said
from repositories import NAME, Git, git, project, seen, store, store_in, stored
from vector_memory.settings import DatabaseUrl
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor import place as git_check
from vector_memory.upkeep.doctor.place import git_findings
from vector_memory.upkeep.doctor.report import Finding, Level

__all__ = ["git", "project"]


def finding(path: Path) -> Finding:
    [one] = git_findings(path)
    return one


def run_named(one: Finding, at: Path | None = None) -> None:
    """Run the command of Git that takes a memory out, as a finding names it."""
    [command] = [part for part in str(one.advice).split("`") if part.startswith("git ") and " rm " in part]
    subprocess.run(shlex.split(command), check=True, capture_output=True, cwd=at)


@pytest.mark.usefixtures("git")
def test_a_memory_that_git_does_not_track_is_fine(project: Path) -> None:
    store(project, "One")
    assert finding(project / "memory" / NAME).state is Level.OK
    assert said(examine(project / "memory" / NAME), "git").strip() == "Git does not track the memory."


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_tracked_memory_and_exports_are_a_problem_and_the_command_takes_them_out(
    project: Path, git: Git, is_committed: bool
) -> None:
    """Also when they have changed since they were staged, and only they."""
    path = project / "memory" / NAME
    store(project, "One")
    (project / "memory" / "MEMORY.md").write_text("A note.")
    git("add", "-f", "memory")
    if is_committed:
        git("commit", "-qm", "All")
    store(project, "Two")
    git("add", "-u")
    store(project, "Three")
    one = finding(path)
    assert one.state is Level.PROBLEM
    assert one.message.startswith(f"Git tracks memory/{NAME}, ")
    assert "memory/exports/One.md" in one.message
    run_named(one)
    assert git("ls-files", "memory").split() == ["memory/.gitignore", "memory/MEMORY.md"]
    git("commit", "-qm", "Without")
    assert finding(path).state is Level.OK
    assert stored(project) == ["One", "Two", "Three"]


def test_a_database_and_exports_in_any_folder_are_named_too(project: Path, git: Git) -> None:
    """But not a folder of the project that has the name of exports."""
    folder = project / "a [b]"
    (folder / "exports").mkdir(parents=True)
    (folder / "exports" / "table.csv").touch()
    (folder / "m").touch()
    (folder / "main.py").touch()
    git("add", "-A")
    one = finding(folder / "m")
    assert one.message.startswith("Git tracks a [b]/m: ")
    run_named(one)
    assert git("ls-files").split("\n")[:3] == ["a [b]/exports/table.csv", "a [b]/main.py", "code.py"]


def test_a_memory_that_another_branch_contains_is_a_problem_until_it_is_taken_out_there(
    project: Path, git: Git, tmp_path: Path
) -> None:
    """Even if this branch does not."""
    path, other = project / "memory" / NAME, tmp_path / "other checkout"
    git("checkout", "-qb", "feature")
    store(project, "One")
    git("add", "-f", path)
    git("commit", "-qm", "All")
    git("branch", "more")
    assert "also on other branches: more." in str(finding(path).advice)
    git("checkout", "-q", "main")
    store(project, "Two")
    git("branch", "-qD", "more")
    one = finding(path)
    assert one.state is Level.PROBLEM
    assert one.message.startswith("Other branches contain the memory: feature.")
    git("worktree", "add", "-q", other, "feature")
    run_named(one, other)
    git("commit", "-qm", "Without", at=other)
    assert finding(path).state is Level.OK
    git("checkout", "-q", "--detach", "feature")
    assert stored(project) == ["Two"]


def test_a_memory_that_git_would_add_is_a_warning_until_it_is_opened(project: Path, git: Git) -> None:
    store_in(project / "notes.db")
    (project / ".git" / "info" / "exclude").unlink()
    assert seen(git) == ["notes.db"]
    one = finding(project / "notes.db")
    assert one.state is Level.WARNING
    assert one.message.startswith("Git does not ignore notes.db: ")
    SessionMemoryStore(project / "notes.db", SETTINGS).close()
    assert finding(project / "notes.db").state is Level.OK


def test_exports_of_a_memory_on_a_server_are_named(project: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project))
    (project / "memory" / "exports").mkdir(parents=True)
    (project / "memory" / "exports" / "a.md").touch()
    git("add", "-A")
    [one] = git_findings(DatabaseUrl.parse("postgresql:///team"))
    assert one.message.startswith("Git tracks memory/exports/a.md: ")
    run_named(one)
    assert git("ls-files").split() == ["code.py"]


def test_where_the_folder_of_the_project_is_not_known_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "${HOME}")
    assert list(git_findings(DatabaseUrl.parse("postgresql:///team"))) == []


@pytest.mark.parametrize("script", [None, "exit 1", "exec sleep 60", "kill -9 $$"])
def test_if_git_does_not_answer_nothing_is_said(
    project: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    git("status")
    if script:
        (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if script else str(tmp_path))
    monkeypatch.setattr(git_check, "SECONDS", 0.5)
    assert list(git_findings(project / "memory" / NAME)) == []


def test_variables_of_git_name_no_other_repository(
    project: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook of Git."""
    store(project, "One")
    git("init", "-q", tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", "nowhere")
    assert finding(project / "memory" / NAME).state is Level.OK


def test_the_doctor_leaves_the_repository_as_it_is(project: Path, git: Git) -> None:
    store(project, "One")
    git("add", "-f", "memory")
    path = project / "memory" / NAME
    doctor(path).repair_all(examine(path))
    assert f"memory/{NAME}" in git("ls-files").split()
