"""A checkout made by `git worktree` uses the memory of its main checkout, on every way to it."""

import json
import os
from pathlib import Path

import pytest

from commands.conftest import Run, run, surroundings
from memory_files import contents
from repositories import NAME, Git, git, linked, project, seen, store, store_in, stored
from transcripts.conftest import Write, user, write
from vector_memory.clients.reading.importing import read_own
from vector_memory.domain import MemoryKind, Project, Scope
from vector_memory.server.app import project_at
from vector_memory.settings import DatabaseLocation, FileLocations, export_folder_of, project_of
from vector_memory.settings import locations as repository
from vector_memory.settings.locations import checkouts, main_checkout, real_path, repository_of
from vector_memory.storage.disk.ignoring import keep_out_of_git
from vector_memory.store import SessionMemoryStore

__all__ = ["git", "linked", "project", "run", "surroundings", "write"]

PLUGIN = Path(__file__).parents[1] / "plugin" / ".mcp.json"


def test_every_place_of_a_linked_checkout_is_in_the_main_one(
    project: Path, linked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session in a folder of it is one of the project; a folder that a flag or an editor names is used as it is."""
    (linked / "src").mkdir()
    for folder, named in ((linked, project), (linked / "src", project / "src"), (project, project)):
        monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(folder))
        address = DatabaseLocation().address()
        assert address == project / "memory" / NAME
        assert DatabaseLocation(working_dir=folder).address() == named / "memory" / NAME
        assert FileLocations().folder() == project / "memory"
        assert export_folder_of(address) == project / "memory" / "exports"
        assert project_at(address) == Project(str(project), owns_memory=True)


def test_a_folder_that_has_a_memory_keeps_it(project: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """So do folders in it, and a repository inside another; a folder outside any repository is a project."""
    (project / "src" / "deep").mkdir(parents=True)
    store(project / "src", "One")
    git("init", "-q", str(project / "inner"))
    (project / "inner" / "src").mkdir()
    alone = project.parent / "alone"
    alone.mkdir()
    expected = {project / "src" / "deep": project / "src", project / "inner" / "src": project / "inner", alone: alone}
    for folder, owner in expected.items():
        monkeypatch.chdir(folder)
        assert DatabaseLocation().address() == owner / "memory" / NAME
        assert project_of(folder) == owner


@pytest.mark.usefixtures("git")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_does_not_get_the_memory(project: Path) -> None:
    """Anybody can make one in a folder for all, such as /tmp, and would read what is stored."""
    (project / "src").mkdir()
    os.chown(project, 65534, 65534)
    assert project_of(project / "src") == project / "src"


@pytest.mark.usefixtures("git")
def test_memory_files_that_a_folder_of_the_repository_has_already_are_used_there(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory itself is that of the repository."""
    notes = project / "src" / "memory" / "notes.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("# Notes")
    monkeypatch.chdir(project / "src")
    assert FileLocations().folder() == notes.parent
    assert DatabaseLocation().address() == project / "memory" / NAME


@pytest.mark.usefixtures("git")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_repository_that_somebody_else_made_around_a_folder_is_not_its_own(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever may write to /tmp could have a memory stored there."""
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert DatabaseLocation().address() == project / "memory" / NAME
    os.chown(project / ".git", 12345, 12345)
    assert DatabaseLocation().address() == project / "src" / "memory" / NAME


def test_past_sessions_of_the_repository_are_found_from_a_folder_in_it(
    project: Path, linked: Path, run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VECTOR_MEMORY_DATABASE_PATH")
    name = str(project).replace("/", "-").replace("_", "-")
    write(user("Why?", cwd=str(project), sessionId="s0"), name=f"../{name}/s0.jsonl")
    (linked / "src").mkdir()
    monkeypatch.chdir(linked / "src")
    assert "Stored 1 memory" in run("import-sessions", "--client", "claude").out
    assert contents(project / "memory" / NAME) == ["Why?"]


def test_a_project_is_the_same_by_all_its_paths(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a link to it, or to a folder above it; also of its memory."""
    link = tmp_path / "link"
    link.symlink_to(project)
    above = tmp_path / "above"
    above.symlink_to(tmp_path)
    for folder in (link, above / project.name):
        monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(folder))
        assert DatabaseLocation().address() == project / "memory" / NAME
        assert project_at(folder / "memory" / NAME) == Project(str(project), owns_memory=True)
        assert FileLocations().folder() == project / "memory"
        assert main_checkout(folder) == project


def test_a_path_in_another_case_is_the_same_where_the_disk_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on most disks of macOS."""
    written = Path(str(project).swapcase())
    assert real_path(written) == written
    monkeypatch.setattr(repository, "_is_same", lambda one, other: str(one).casefold() == str(other).casefold())
    assert real_path(written) == real_path(project) == project
    assert real_path(written / "New") == project / "New"


def test_the_plugin_names_no_folder_of_the_checkout_for_memory_files() -> None:
    [server] = json.loads(PLUGIN.read_text(encoding="utf-8"))["mcpServers"].values()
    assert not {"CWE_MEMORY_DIR", "VECTOR_MEMORY_MEMORY_DIR"} & set(server["env"])


def test_commands_in_a_linked_checkout_use_the_memory_of_the_main_one(
    project: Path, linked: Path, git: Git, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VECTOR_MEMORY_DATABASE_PATH")
    monkeypatch.chdir(linked)
    Path("note.md").write_text("# A note")
    assert run("ingest", "note.md", "--session", "s").code == 0
    assert contents(project / "memory" / NAME) == ["# A note"]
    assert not (linked / "memory").exists()
    assert seen(git) == []
    assert seen(git, at=linked) == ["note.md"]


def test_sessions_in_a_linked_checkout_are_sessions_of_the_project(
    project: Path, linked: Path, run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they are imported, with the project that hooks name; not those of a clone of it."""
    monkeypatch.delenv("VECTOR_MEMORY_DATABASE_PATH")
    for number, folder in enumerate([project, linked, linked / "src", linked.with_name("linked-2")]):
        name = str(folder).replace("/", "-").replace("_", "-")
        write(user("Why?", cwd=str(folder), sessionId=f"s{number}"), name=f"../{name}/s{number}.jsonl")
    for folder in (linked, project):
        monkeypatch.chdir(folder)
        run("import-sessions", "--client", "claude")
        with SessionMemoryStore(project / "memory" / NAME, read_only=True) as opened:
            found = opened.search_scoped(Scope(MemoryKind.INPUT_PROMPT)).results
        assert {one.session_id: one.metadata for one in found} == {
            "s0": {"project": str(project)},
            "s1": {"project": str(project)},
            "s2": {"project": str(project)},
        }


def test_hooks_read_the_transcript_of_a_session_in_a_linked_checkout(
    project: Path, linked: Path, write: Write, tmp_path: Path
) -> None:
    session_id = json.loads(write(user("Why?", cwd=str(linked))).read_text())["sessionId"]
    own = write(user("Why?", cwd=str(linked)), name=f"{session_id}.jsonl")
    assert read_own(own, session_id, project) is not None
    assert read_own(own, session_id, tmp_path / "other") is None


def test_a_memory_in_the_main_checkout_is_ignored_in_all(project: Path, linked: Path, git: Git) -> None:
    store(project, "One")
    store_in(linked / "notes.db")
    assert seen(git) == seen(git, at=linked) == []
    git("clean", "-fdq", at=linked)
    assert stored(project) == ["One"]
    assert (linked / "notes.db").exists()


def test_a_checkout_with_relative_paths_is_known(project: Path, linked: Path) -> None:
    """As newer releases of Git write them."""
    (linked / ".git").write_text("gitdir: ../project/.git/worktrees/linked\n")
    (project / ".git" / "worktrees" / "linked" / "gitdir").write_text("../../../../linked/.git\n")
    assert main_checkout(linked) == project
    assert checkouts(project) == [project, linked]


def test_a_folder_that_names_a_repository_which_does_not_list_it_has_a_memory_of_its_own(
    project: Path, linked: Path, tmp_path: Path
) -> None:
    """Else whoever gives away a folder could have its agents read the memory of another project."""
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / ".git").write_text((linked / ".git").read_text())
    assert main_checkout(forged) == forged
    own = forged / "git"
    own.mkdir()
    for name, text in {"HEAD": "", "commondir": f"{project}/.git", "gitdir": f"{forged}/.git"}.items():
        (own / name).write_text(text)
    (forged / ".git").write_text(f"gitdir: {own}")
    assert main_checkout(forged) == forged


def test_a_submodule_is_a_project_of_its_own(project: Path, git: Git, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git("clone", "-q", project, other)
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", other, "sub")
    assert main_checkout(project / "sub") == project / "sub"
    store(project / "sub", "One")
    assert seen(git, at=project / "sub") == []
    (project / "sub" / "memory" / ".gitignore").unlink()
    assert seen(git, at=project / "sub") == []


def test_a_repository_apart_from_its_checkout_keeps_the_list(project: Path, git: Git, tmp_path: Path) -> None:
    git("init", "-q", "--separate-git-dir", tmp_path / "apart")
    store(project, "One")
    (project / "memory" / ".gitignore").unlink()
    assert seen(git) == []


@pytest.mark.parametrize("bare", ["bare.git", "hub/.git"])
def test_checkouts_of_a_bare_repository_have_memories_of_their_own(
    project: Path, git: Git, tmp_path: Path, bare: str
) -> None:
    git("clone", "-q", "--bare", project, tmp_path / bare)
    checkout = tmp_path / bare.replace(".git", "feature")
    git("worktree", "add", "-q", checkout, at=tmp_path / bare)
    assert main_checkout(checkout) == checkout
    store(checkout, "One")
    (checkout / "memory" / ".gitignore").unlink()
    assert seen(git, at=checkout) == []


@pytest.mark.parametrize("content", [b"", b"gitdir: nowhere", b"\xff\0", b"something else"])
def test_what_is_no_repository_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert repository_of(tmp_path) is None
    keep_out_of_git(tmp_path / "memory.db")
