"""Git never sees a memory: no command of it commits, overwrites, stashes or deletes one."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_files import SETTINGS
from vector_memory.domain import Scope
from vector_memory.settings import DatabaseLocation
from vector_memory.settings.repository import main_checkout, repository_of
from vector_memory.storage.disk.ignoring import REMARK, keep_out_of_git
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
        ran = subprocess.run(["git", "-C", at, *arguments], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    run("init", "-q", "-b", "main")
    (project / "code.py").write_text("print()\n")
    run("add", "-A")
    run("commit", "-qm", "First")
    return run


def store(project: Path, text: str) -> None:
    """Store and export a report in the default place, as one process does."""
    path = project / "memory" / NAME
    with SessionMemoryStore(path, SETTINGS) as opened:
        memory_id = opened.store_memory("report", text, session_id="s").memory_id
        opened.write_document_to_file(memory_id, f"{text}.md")


def stored(project: Path) -> list[str]:
    with SessionMemoryStore(project / "memory" / NAME, SETTINGS, read_only=True) as opened:
        return [memory.content for memory in opened.search_documents(None, REPORTS).results][::-1]


def test_memories_of_two_branches_are_one_whatever_is_added_and_checked_out(project: Path, git: Git) -> None:
    git("checkout", "-qb", "feature")
    store(project, "One")
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", "On a branch")
    git("checkout", "-q", "main")
    git("add", "-A")
    store(project, "Two")
    git("commit", "-q", "--allow-empty", "-m", "On main")
    git("checkout", "-q", "feature")
    store(project, "Three")
    git("checkout", "-q", "main")
    assert stored(project) == ["One", "Two", "Three"]
    assert git("log", "--all", "--name-only", "--format=").split() == ["code.py"]


def test_stashing_and_cleaning_leave_a_memory_where_it_is(project: Path, git: Git) -> None:
    store(project, "One")
    (project / "new.py").write_text("")
    git("stash", "-qu")
    git("clean", "-fdq")
    git("clean", "-fdq")
    git("add", "-A")
    assert git("status", "--porcelain", "--untracked-files=all") == ""
    assert stored(project) == ["One"]


def test_rules_that_were_lost_are_there_again_at_the_next_start(project: Path, git: Git) -> None:
    store(project, "One")
    rules, own = project / "memory" / ".gitignore", project / ".git" / "info" / "exclude"
    for lost in (rules, own):
        lost.unlink()
        assert git("status", "--porcelain", "--untracked-files=all") == ""
        store(project, f"After {lost.name}")
        assert lost.exists()
    before = own.read_bytes()
    store(project, "Three")
    assert own.read_bytes() == before


def test_a_folder_with_files_of_the_project_hides_none_of_them(project: Path, git: Git) -> None:
    (project / "memory").mkdir()
    (project / "memory" / "MEMORY.md").write_text("A note.")
    store(project, "One")
    (project / "memory" / "arena.c").write_text("int main;")
    assert git("status", "--porcelain", "--untracked-files=all").split()[1::2] == ["memory/MEMORY.md", "memory/arena.c"]


def test_rules_of_the_user_stay_and_the_memory_is_ignored_all_the_same(project: Path, git: Git) -> None:
    rules = project / "memory" / ".gitignore"
    rules.parent.mkdir()
    rules.write_text("mine")
    store(project, "One")
    assert rules.read_text() == "mine"
    assert git("status", "--porcelain", "--untracked-files=all") == "?? memory/.gitignore\n"


@pytest.mark.parametrize("name", ["notes.db", "a [b]*?.db", "#x !y\\.db", "ünï.db"])
def test_a_database_in_any_folder_of_a_repository_is_ignored_by_its_name_alone(
    project: Path, git: Git, name: str
) -> None:
    folder = project / "da ta [1]"
    folder.mkdir()
    with SessionMemoryStore(folder / name, SETTINGS) as opened:
        opened.store_memory("report", "One", session_id="s")
    (folder / "b.db").touch()
    assert not (folder / ".gitignore").exists()
    assert git("-c", "core.quotePath=false", "status", "--porcelain", "--untracked-files=all").splitlines() == [
        '?? "da ta [1]/b.db"'
    ]


def test_the_list_of_the_repository_keeps_what_others_wrote(project: Path, git: Git) -> None:
    own = project / ".git" / "info" / "exclude"
    own.write_bytes(b"# mine\n*.log\n\xff")
    store(project, "One")
    assert own.read_bytes().startswith(b"# mine\n*.log\n\xff\n# The memory of vector-memory")
    assert git("status", "--porcelain", "--untracked-files=all") == ""


def test_rules_that_cannot_be_written_stop_no_store(project: Path, git: Git) -> None:
    (project / ".git" / "info").rename(project / ".git" / "other")
    (project / ".git" / "info").touch()
    store(project, "One")
    assert stored(project) == ["One"]
    assert git("status", "--porcelain", "--untracked-files=all") == ""


def test_reading_writes_no_rules(project: Path, git: Git) -> None:
    store(project, "One")
    rules = project / "memory" / ".gitignore"
    rules.unlink()
    assert stored(project) == ["One"]
    assert not rules.exists()
    assert git("status", "--porcelain", "--untracked-files=all") == ""


def test_a_linked_checkout_uses_the_memory_of_the_main_one(
    project: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", linked)
    (linked / "src").mkdir()
    for folder, expected in ((linked, project), (linked / "src", project / "src"), (project, project)):
        monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(folder))
        assert DatabaseLocation().address() == expected / "memory" / NAME
    store(main_checkout(linked), "One")
    assert git("status", "--porcelain", "--untracked-files=all", at=linked) == ""
    assert git("status", "--porcelain", "--untracked-files=all") == ""


def test_a_database_inside_a_linked_checkout_is_ignored_there(git: Git, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", linked)
    with SessionMemoryStore(linked / "notes.db", SETTINGS) as opened:
        opened.store_memory("report", "One", session_id="s")
    assert git("status", "--porcelain", "--untracked-files=all", at=linked) == ""


def test_a_submodule_is_a_project_of_its_own(project: Path, git: Git, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git("clone", "-q", project, other)
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", other, "sub")
    assert main_checkout(project / "sub") == project / "sub"
    store(project / "sub", "One")
    assert git("status", "--porcelain", "--untracked-files=all", at=project / "sub") == ""
    found = repository_of(project / "sub" / "memory")
    assert found is not None
    assert found.git_folder == project / "sub" / "../.git/modules/sub"


def test_checkouts_of_a_bare_repository_have_memories_of_their_own(project: Path, git: Git, tmp_path: Path) -> None:
    git("clone", "-q", "--bare", project, tmp_path / "bare.git")
    git("worktree", "add", "-q", tmp_path / "linked", at=tmp_path / "bare.git")
    assert main_checkout(tmp_path / "linked") == tmp_path / "linked"


@pytest.mark.parametrize("content", [b"", b"gitdir: nowhere", b"\xff\0", b"something else"])
def test_what_is_no_repository_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert repository_of(tmp_path) is None
    keep_out_of_git(tmp_path / "memory.db")


def test_outside_a_repository_the_folder_has_its_rules_before_it_is_one(project: Path) -> None:
    store(project, "One")
    assert (project / "memory" / ".gitignore").read_text() == f"{REMARK}\n*\n"
