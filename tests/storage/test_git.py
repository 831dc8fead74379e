"""Git never sees a memory: no command of it commits, overwrites, stashes or deletes one."""

import os
from pathlib import Path

import pytest

from memory_files import SETTINGS
from repositories import NAME, Git, git, project, seen, store, store_in, stored
from vector_memory.domain.callers import Permission
from vector_memory.extras.teams.registry import Registry
from vector_memory.files import FileMemory
from vector_memory.reading.export import ExportFolders
from vector_memory.storage.disk.ignoring import REMARK
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.backup import back_up, restore_memory

__all__ = ["git", "project"]

RULES, LIST = "memory/.gitignore", ".git/info/exclude"
ODD_NAMES = ["a b ", "[a]*?", "#x !y\\", "ünï", "line\nend", "line\u2028end", "-x"]


@pytest.mark.parametrize("lost", ["nothing", RULES, LIST])
def test_memories_of_two_branches_are_one_whatever_is_added_and_checked_out(project: Path, git: Git, lost: str) -> None:
    """Even if one of the two lists of rules is lost after each store."""

    def stored_and_committed(text: str) -> None:
        store(project, text)
        (project / lost).unlink(missing_ok=True)
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", text)

    git("checkout", "-qb", "feature")
    stored_and_committed("One")
    git("checkout", "-q", "main")
    stored_and_committed("Two")
    git("checkout", "-q", "feature")
    stored_and_committed("Three")
    git("checkout", "-q", "main")
    assert stored(project) == ["One", "Two", "Three"]
    assert git("log", "--all", "--name-only", "--format=").split() == ["code.py"]


@pytest.mark.parametrize("lost", ["nothing", RULES, LIST])
def test_stashing_and_cleaning_leave_a_memory_where_it_is(project: Path, git: Git, lost: str) -> None:
    store(project, "One")
    (project / lost).unlink(missing_ok=True)
    (project / "new.py").write_text("")
    git("stash", "-qu")
    git("clean", "-fdq")
    git("clean", "-fdq")
    git("add", "-A")
    assert seen(git) == []
    assert stored(project) == ["One"]
    assert (project / "memory" / "exports" / "One.md").is_file()


def test_rules_that_were_lost_are_there_again_at_the_next_start_and_no_list_grows(project: Path, git: Git) -> None:
    store(project, "One")
    (project / RULES).unlink()
    (project / LIST).unlink()
    with SessionMemoryStore(project / "memory" / NAME, SETTINGS):
        assert (project / RULES).read_text() == f"{REMARK}\n*\n"
        assert (project / LIST).read_text() == f"{REMARK}\n/memory/*\n"
    store(project, "Two")
    assert (project / LIST).read_text() == f"{REMARK}\n/memory/*\n"
    assert seen(git) == []


def test_what_is_added_to_the_folder_of_a_memory_later_is_ignored_too(project: Path, git: Git) -> None:
    """By each of the two lists, unless the user's own rules include it."""
    store(project, "One")
    (project / "memory" / "MEMORY.md").write_text("A note.")
    (project / RULES).unlink()
    assert seen(git) == []
    (project / RULES).write_text("*\n!.gitignore\n!*.md\n")
    store(project, "Two")
    assert seen(git) == [RULES, "memory/MEMORY.md"]


def test_a_folder_with_files_of_the_project_hides_none_of_them(project: Path, git: Git) -> None:
    """But what this program has written there."""
    (project / "memory").mkdir()
    (project / "memory" / "MEMORY.md").write_text("A note.")
    with FileMemory(project / "memory", SETTINGS, index_file=project.parent / "index.sqlite") as files:
        files.write("An entry.")
    store(project, "One")
    (project / "memory" / "arena.c").write_text("int main;")
    (project / "memory" / ".vector-memory-0123456789abcdef.partial").write_text("A copy that was not finished.")
    assert seen(git) == ["memory/MEMORY.md", "memory/arena.c"]
    (project / RULES).unlink()
    assert seen(git) == ["memory/MEMORY.md", "memory/arena.c"]


def test_rules_of_the_user_stay_and_the_memory_is_ignored_all_the_same(project: Path, git: Git) -> None:
    (project / "memory").mkdir()
    (project / RULES).write_text("mine")
    store(project, "One")
    assert (project / RULES).read_text() == "mine"
    assert seen(git) == [RULES]


def test_daily_logs_are_ignored_when_they_are_all_there_is(project: Path, git: Git) -> None:
    with FileMemory(project / "memory", SETTINGS, index_file=project.parent / "index.sqlite") as files:
        files.write("An entry.")
        (project / RULES).unlink()
        assert seen(git) == []
        files.write("Another entry.")
    store(project, "One")
    assert (project / RULES).read_text() == f"{REMARK}\n*\n"


def test_exports_are_ignored_where_the_memory_is_in_a_database_on_a_server(project: Path, git: Git) -> None:
    ExportFolders([project / "memory" / "exports"]).write("a/b.md", b"A report.", overwrite=False)
    assert seen(git) == []


@pytest.mark.parametrize("name", ["notes.db", "m", *ODD_NAMES])
def test_a_database_in_any_folder_of_a_repository_is_ignored_by_its_name_alone(
    project: Path, git: Git, name: str
) -> None:
    folder = project / "da ta [1]"
    folder.mkdir()
    (folder / "main.py").touch()
    (folder / "exports").mkdir()
    (folder / "exports" / "table.csv").touch()
    store_in(folder / name)
    assert not (folder / ".gitignore").exists()
    assert seen(git) == ["da ta [1]/exports/table.csv", "da ta [1]/main.py"]


def test_an_export_folder_that_is_created_beside_a_database_is_ignored(project: Path, git: Git) -> None:
    with SessionMemoryStore(project / "notes.db", SETTINGS) as opened:
        opened.write_document_to_file(opened.store_memory("report", "One", session_id="s").memory_id, "a/b.md")
    assert seen(git) == []
    (project / "exports" / ".gitignore").unlink()
    assert seen(git) == []


def test_a_folder_for_namespaces_is_ignored_with_all_that_is_in_it(project: Path, git: Git) -> None:
    registry = Registry(project / "data")
    registry.create("team")
    registry.tokens.create("ann", "team", Permission.WRITE)
    store_in(registry.address("team"))
    assert seen(git) == []


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_folder_of_any_name_can_have_a_memory(project: Path, git: Git, name: str) -> None:
    folder = project / name
    folder.mkdir()
    store(folder, "One")
    before = (project / LIST).read_bytes()
    store(folder, "Two")
    assert (project / LIST).read_bytes() == before
    (folder / RULES).unlink()
    assert seen(git) == []


def test_a_copy_is_ignored_and_a_restored_memory_before_it_is_opened(project: Path, git: Git, tmp_path: Path) -> None:
    store_in(tmp_path / "notes.db")
    back_up(tmp_path / "notes.db", project / "copy.db")
    restore_memory(tmp_path / "notes.db", project / "memory" / NAME)
    assert seen(git) == []


@pytest.mark.parametrize("target", ["folder", "file"])
def test_links_to_a_memory_are_ignored(project: Path, git: Git, tmp_path: Path, target: str) -> None:
    """Git would delete them, and the next store would begin an empty memory."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if target == "folder":
        (project / "memory").symlink_to(elsewhere)
    else:
        (project / "memory").mkdir()
        store_in(elsewhere / "memory.db")
        (project / "memory" / NAME).symlink_to(elsewhere / "memory.db")
    store(project, "Two")
    git("clean", "-fdq")
    git("clean", "-fdq")
    assert seen(git) == []
    assert stored(project)[-1] == "Two"


@pytest.mark.parametrize("before", [b"", b"# mine\n*.log", b"\xff\r\n*.log\r\n"])
def test_the_list_of_the_repository_keeps_what_others_wrote(project: Path, git: Git, before: bytes) -> None:
    own = project / LIST
    own.write_bytes(before)
    own.chmod(0o664)
    own.rename(own.with_name("kept"))
    own.symlink_to("kept")
    (project / "x.log").touch()
    store(project, "One")
    assert own.is_symlink()
    assert own.read_bytes().startswith(before)
    assert own.stat().st_mode & 0o777 == 0o664
    assert seen(git) == (["x.log"] if not before else [])


def test_a_list_in_another_encoding_is_not_changed(project: Path, git: Git) -> None:
    (project / LIST).write_text("*.log\n", encoding="utf-16")
    before = (project / LIST).read_bytes()
    store(project, "One")
    assert (project / LIST).read_bytes() == before
    assert seen(git) == []


@pytest.mark.parametrize("name", [RULES, LIST])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link to nothing"])
@pytest.mark.usefixtures("git")
def test_rules_that_cannot_be_written_stop_no_store(project: Path, name: str, kind: str) -> None:
    (project / "memory").mkdir()
    place = project / name
    place.unlink(missing_ok=True)
    {"pipe": os.mkfifo, "folder": Path.mkdir, "link to nothing": lambda path: path.symlink_to("a/b")}[kind](place)
    store(project, "One")
    assert stored(project) == ["One"]


def test_a_repository_without_a_folder_for_its_list_gets_one(project: Path, git: Git) -> None:
    (project / LIST).unlink()
    (project / LIST).parent.rmdir()
    store(project, "One")
    (project / RULES).unlink()
    assert seen(git) == []


def test_reading_writes_no_rules(project: Path, git: Git) -> None:
    store(project, "One")
    (project / RULES).unlink()
    before = (project / LIST).read_bytes()
    assert stored(project) == ["One"]
    assert not (project / RULES).exists()
    assert (project / LIST).read_bytes() == before
    assert seen(git) == []


def test_outside_a_repository_the_folder_has_its_rules_before_it_is_one(project: Path) -> None:
    store(project, "One")
    assert (project / RULES).read_text() == f"{REMARK}\n*\n"
