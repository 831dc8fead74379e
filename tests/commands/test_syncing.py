"""ingest --sync and --watch: memories follow their files."""

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from commands.conftest import TOY, Run
from engines import contents, place_of
from memory_files import process
from servers import QUICK
from vector_memory.domain import Scope
from vector_memory.store import SessionMemoryStore
from waiting import eventually


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of two files."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nFirst.")
    (folder / "b.md").write_text("# B\n\nSecond.")
    return folder


def sources(path: Path) -> list[str]:
    """Return the sources of all memories, in the order of their ids."""
    with SessionMemoryStore(path, TOY, read_only=True) as store:
        entries = [store.get_memory_by_id(number).memory for number in all_ids(path)]
    return [entry.metadata["source"] for entry in entries if entry]


def all_ids(path: Path) -> list[int]:
    """Return the ids of all memories of the session `notes`."""
    with SessionMemoryStore(path, TOY, read_only=True) as store:
        return [entry.memory_id for entry in store.get_timeline(Scope(session_id="notes")).entries]


def test_an_edited_file_replaces_what_came_of_it_before(notes: Path, tmp_path: Path, run: Run) -> None:
    """Its earlier text is found no more, and what is gone from the folder is deleted."""
    run("ingest", "notes", "--sync")
    (notes / "a.md").write_text("# A\n\nEdited.")
    (notes / "b.md").unlink()
    (notes / "c.md").write_text("# C\n\nThird.")
    assert run("ingest", "notes", "--sync").out.splitlines() == [
        "Updated: notes/a.md",
        "Removed: notes/b.md",
        "Stored 1 file in session notes; 1 updated; 0 unchanged; 1 removed; 0 failed.",
    ]
    assert contents(tmp_path / "memory.db") == ["# A\n\nEdited.", "# C\n\nThird."]
    again = run("ingest", "notes", "--sync", "--json").json
    assert {state: again[state] for state in ("stored", "updated", "unchanged", "removed", "failed")} == {
        "stored": 0,
        "updated": 0,
        "unchanged": 2,
        "removed": 0,
        "failed": 0,
    }


def test_without_sync_an_earlier_text_stays_and_that_is_said(notes: Path, tmp_path: Path, run: Run) -> None:
    run("ingest", "notes")
    (notes / "a.md").write_text("# A\n\nEdited.")
    assert "1 file had an earlier text, which is still stored: --sync replaces it." in run("ingest", "notes").out
    assert len(contents(tmp_path / "memory.db")) == 3
    assert run("ingest", "notes", "--sync").out.startswith("Updated: notes/a.md\nStored 0 files")
    assert sorted(contents(tmp_path / "memory.db")) == ["# A\n\nEdited.", "# B\n\nSecond."]


def test_a_renamed_file_keeps_one_memory_under_its_new_name(notes: Path, tmp_path: Path, run: Run) -> None:
    run("ingest", "notes", "--sync")
    (notes / "a.md").rename(notes / "z.md")
    assert run("ingest", "notes", "--sync").code == 0
    assert sorted(sources(tmp_path / "memory.db")) == ["notes/b.md", "notes/z.md"]


def test_only_the_folder_that_is_given_loses_what_is_gone(notes: Path, tmp_path: Path, run: Run) -> None:
    """Not another folder, another session or kind, nor what agents have stored; one file removes nothing."""
    other = tmp_path / "other"
    shutil.copytree(notes, other)
    (other / "a.md").write_text("# Other")
    (other / "b.md").write_text("# Another")
    run("ingest", "notes", "other", "--sync", "--session", "s")
    run("ingest", "notes", "--session", "t")
    run("ingest", "notes", "--session", "s", "--kind", "working_memory")
    for file in (notes / "b.md", other / "b.md"):
        file.unlink()
    assert "0 removed" in run("ingest", "notes/a.md", "--sync", "--session", "s").out
    assert run("ingest", "notes", "--sync", "--session", "s").out.startswith("Removed: notes/b.md\nStored 0 files")
    assert len(contents(tmp_path / "memory.db")) == 7


@pytest.mark.parametrize("data", [b" ", b"x" * 500_001, b"caf\xe9", "words".encode("utf-16")])
def test_a_file_without_a_text_that_can_be_stored_is_found_no_more(
    data: bytes, notes: Path, tmp_path: Path, run: Run
) -> None:
    """It was emptied, has grown over the limit or is in another encoding: the earlier text is in no file any more."""
    run("ingest", "notes", "--sync")
    (notes / "a.md").write_bytes(data)
    ended = run("ingest", "notes", "--sync")
    assert ended.code == 1
    assert ended.out.startswith("Removed: notes/a.md\nNot stored: notes/a.md: ")
    assert contents(tmp_path / "memory.db") == ["# B\n\nSecond."]


def test_a_file_that_cannot_be_read_now_keeps_its_memory(notes: Path, tmp_path: Path, run: Run) -> None:
    run("ingest", "notes", "--sync")
    (notes / "a.md").unlink()
    (notes / "a.md").symlink_to("nowhere")
    assert run("ingest", "notes", "--sync").code == 1
    assert len(contents(tmp_path / "memory.db")) == 2


def test_a_file_that_becomes_equal_to_another_leaves_no_earlier_text(notes: Path, tmp_path: Path, run: Run) -> None:
    """And once they differ again, both are found, whichever was edited."""
    path = tmp_path / "memory.db"
    run("ingest", "notes", "--sync")
    (notes / "a.md").write_text("# B\n\nSecond.")
    assert run("ingest", "notes", "--sync").code == 0
    assert contents(path) == ["# B\n\nSecond."]
    (notes / "b.md").write_text("# C")
    run("ingest", "notes", "--sync")
    assert dict(zip(sources(path), contents(path), strict=True)) == {
        "notes/a.md": "# B\n\nSecond.",
        "notes/b.md": "# C",
    }


@pytest.mark.parametrize("order", [["a.md", "b.md", "c.md"], ["c.md", "a.md", "b.md"]])
def test_files_that_exchange_their_names_exchange_their_sources(
    order: list[str], notes: Path, tmp_path: Path, run: Run
) -> None:
    path = tmp_path / "memory.db"
    (notes / "c.md").write_text("# C\n\nThird.")
    run("ingest", "notes", "--sync")
    texts = [(notes / name).read_text() for name in order]
    for name, text in zip(order, [*texts[1:], texts[0]], strict=True):
        (notes / name).write_text(text)
    assert "3 updated; 0 unchanged; 0 failed" in run("ingest", "notes", "--sync").out.replace("0 removed; ", "")
    for source, text in zip(sources(path), contents(path), strict=True):
        assert (tmp_path / source).read_text() == text
    assert "3 unchanged" in run("ingest", "notes", "--sync").out


@pytest.mark.parametrize("flags", [[], ["--kind", "knowledge_base"]])
@pytest.mark.parametrize("is_nested", [False, True])
def test_projects_that_share_a_memory_keep_their_documents_apart(
    flags: list[str], tmp_path: Path, run: Run, *, is_nested: bool
) -> None:
    """Also when all their paths are equal, and when one repository is inside the other."""
    first = tmp_path / "first"
    second = (first if is_nested else tmp_path) / "second"
    for project in (first, second):
        (project / "docs").mkdir(parents=True)
        (project / ".git").mkdir()
        (project / "docs" / "a.md").write_text(f"# In {project.name}")
    for project in (first, second, first, second):
        assert "0 removed" in run("ingest", project / "docs", "--sync", *flags).out
    assert sorted(contents(tmp_path / "memory.db")) == ["# In first", "# In second"]
    (second / "docs" / "a.md").rename(second / "docs" / "b.md")
    run("ingest", second / "docs", "--sync", *flags)
    assert sorted(contents(tmp_path / "memory.db")) == ["# In first", "# In second"]


@pytest.mark.parametrize("flags", [(), ("--sync",)])
def test_a_file_that_two_projects_have_stays_when_one_of_them_deletes_it(
    tmp_path: Path, run: Run, flags: tuple[str, ...]
) -> None:
    for project in ("one", "two"):
        (tmp_path / project / "notes").mkdir(parents=True)
        (tmp_path / project / "notes/a.md").write_text("# A\n\nThe same.")
        (tmp_path / project / "notes/b.md").write_text(f"# B\n\nOf {project}.")
        assert run("ingest", f"{project}/notes", *flags).code == 0
        assert run("ingest", f"{project}/notes", *flags).code == 0
    (tmp_path / "one/notes/a.md").unlink()
    run("ingest", "one/notes", "--sync")
    assert sorted(contents(tmp_path / "memory.db")) == ["# A\n\nThe same.", "# B\n\nOf one.", "# B\n\nOf two."]


def test_a_folder_is_the_same_through_a_link(notes: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "linked").symlink_to(notes)
    run("ingest", "notes", "--sync", "--session", "s")
    assert "2 unchanged; 0 removed" in run("ingest", "linked", "--sync", "--session", "s").out


def test_a_folder_leaves_out_what_git_ignores_and_names_linked_folders(notes: Path, run: Run) -> None:
    (notes / ".gitignore").write_text("/build/\n*.draft.md\n!kept.draft.md\n")
    for name in ("build/c.md", "d.draft.md", "kept.draft.md", "node_modules/e.md"):
        (notes / name).parent.mkdir(exist_ok=True)
        (notes / name).write_text(f"# {name}")
    (notes / "linked").symlink_to(notes / "build")
    ended = run("ingest", "notes", "--sync", "--json").json
    assert [file["file"] for file in ended["files"]] == ["notes/a.md", "notes/b.md", "notes/kept.draft.md"]
    assert ended["left_out"] == [{"file": "notes/linked", "reason": "it is a link to a folder"}]
    assert "Left out: notes/linked: it is a link to a folder." in run("ingest", "notes", "--sync").out


def test_an_empty_folder_is_no_reason_to_delete_everything(notes: Path, tmp_path: Path, run: Run) -> None:
    """It may be a disk that is not there today."""
    run("ingest", "notes", "--sync")
    for file in notes.iterdir():
        file.unlink()
    assert run("ingest", "notes", "--sync").code == 2
    assert len(contents(tmp_path / "memory.db")) == 2


@pytest.mark.parametrize("folder", [".", "docs", "docs/sub"])
def test_a_source_is_relative_to_the_repository_wherever_the_command_runs(
    folder: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the same file is recognised from every folder and in every clone; it never leads upwards."""
    file = tmp_path / "project" / "docs" / "sub" / "a.md"
    file.parent.mkdir(parents=True)
    file.write_text("# A")
    (tmp_path / "project" / ".git").mkdir()
    monkeypatch.chdir(tmp_path / "project" / folder)
    run("ingest", file.parent, "--sync", "--session", "notes")
    monkeypatch.chdir("/")
    assert "1 unchanged" in run("ingest", file, "--sync", "--session", "notes").out
    assert sources(tmp_path / "memory.db") == ["docs/sub/a.md"]


@pytest.mark.parametrize(
    ("words", "levels"),
    [(["."], 0), (["../notes/*.md"], 0), (["../notes/**/a.md"], 0), (["a.md"], 0), (["..", "."], 1)],
)
def test_the_session_is_named_like_the_folder(
    words: list[str], levels: int, notes: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that all the files are in."""
    monkeypatch.chdir(notes)
    assert run("ingest", *words, "--json").json["session_id"] == [notes, notes.parent][levels].name


FLIPPING = """
from vector_memory.domain import NewMemory, Scope
from vector_memory.writing.sync import Origin
texts = ["# One", "# Two"]
with SessionMemoryStore(path, settings) as store:
    for number in range(100_000):
        sync = store.sync(Scope("report", session_id="s"))
        text = f"# Version {number}"
        file = Origin("/", "a.md")
        new = NewMemory.of("report", text, session_id="s", metadata=file._asdict())
        sync.expect({file: sync.hash_of(text)}, [])
        sync.put(file, lambda: new)
        print(number, flush=True)
"""


@pytest.mark.sqlite("its processes share a file")
def test_a_kill_leaves_the_old_version_or_the_new_one(tmp_path: Path) -> None:
    """At whatever moment it comes: one transaction deletes one and adds the other."""
    path = tmp_path / "killed.db"
    for lines in (1, 7, 20):
        with process(FLIPPING, path) as child:
            for _ in range(lines):
                child.stdout.readline()
        assert len(contents(path)) == 1


def test_watching_follows_until_it_is_interrupted(notes: Path, tmp_path: Path) -> None:
    """Each change is said, also once the folder was away; Ctrl-C ends it without an error."""
    path = tmp_path / "memory.db"
    command = [sys.executable, "-P", "-m", "vector_memory", "ingest", "notes", "--watch", *place_of(path)]
    # A shell lets programs that it starts in the background ignore Ctrl-C, and these tests may be one.
    allowed = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        text=True,
        env=os.environ | QUICK,
        preexec_fn=allowed,  # noqa: PLW1509 - it takes no lock
    )
    try:
        while "Watching" not in child.stdout.readline():
            assert child.poll() is None
        (notes / "a.md").write_text("# A\n\nEdited.")
        eventually(lambda: "# A\n\nEdited." in contents(path))
        assert child.stdout.readline() == "Updated: notes/a.md\n"
        shutil.rmtree(notes)
        eventually(lambda: not notes.exists())
        notes.mkdir()
        (notes / "a.md").write_text("# A\n\nOn another branch.")
        eventually(lambda: contents(path) == ["# A\n\nOn another branch."])
        (notes / "a.md").write_text("# A\n\nFollowed again.")
        eventually(lambda: contents(path) == ["# A\n\nFollowed again."])
        child.send_signal(2)
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.communicate()


def kept(path: Path) -> dict[str, list[str]]:
    """Return all texts of the session `notes`, each with those that it superseded."""
    with SessionMemoryStore(path, TOY, read_only=True) as store:
        entries = store.get_timeline(Scope(session_id="notes", as_of="any")).entries
        read = [store.get_memory_by_id(entry.memory_id).memory for entry in entries]
        return {
            one.content: [store.get_memory_by_id(number).memory.content for number in one.supersedes] for one in read
        }


def test_earlier_texts_are_kept_and_superseded_if_asked_until_the_file_is_gone(
    notes: Path, tmp_path: Path, run: Run
) -> None:
    """A file's history is a chain; a text that comes back is stored again; what vanished takes its history along."""
    memory, sync = tmp_path / "memory.db", ("ingest", "notes", "--sync", "--keep-replaced")
    for text in ("One.", "Two.", "Three.", "One."):
        (notes / "a.md").write_text(f"---\ndate: 2026-01-01\n---\n{text}")
        assert run(*sync).code == 0
    assert [text.split()[-1] for text in contents(memory)] == ["One.", "Second.", "Two.", "Three.", "One."]
    assert len(all_ids(memory)) == 2
    (notes / "c.md").write_text((notes / "a.md").read_text())
    (notes / "a.md").unlink()
    assert "Updated: notes/c.md" in run(*sync).out
    assert [text.split()[-1] for text in contents(memory)] == ["One.", "Second.", "Two.", "Three.", "One."]
    (notes / "b.md").write_text("# B\n\nEdited.")
    assert run("ingest", "notes", "--sync").code == 0
    (notes / "c.md").write_text("Four.")
    assert run("ingest", "notes", "--sync").code == 0
    assert {text.split()[-1]: len(older) for text, older in kept(memory).items()} == {
        "Edited.": 0, "One.": 0, "Two.": 1, "Three.": 1, "Four.": 1,
    }  # fmt: skip
    (notes / "d.md").write_text("Five.")
    run(*sync)
    (notes / "d.md").write_text("Six.")
    run(*sync)
    (notes / "d.md").unlink()
    assert "Removed: notes/d.md" in run(*sync).out
    assert not {"Five.", "Six."} & {text.split()[-1] for text in contents(memory)}


def test_texts_that_were_added_without_sync_are_superseded_by_the_latest(notes: Path, tmp_path: Path, run: Run) -> None:
    run("ingest", "notes")
    (notes / "a.md").write_text("# A\n\nEdited.")
    run("ingest", "notes")
    run("ingest", "notes", "--sync", "--keep-replaced")
    assert kept(tmp_path / "memory.db")["# A\n\nEdited."] == ["# A\n\nFirst."]


def test_keeping_what_is_replaced_needs_something_that_replaces(notes: Path, run: Run) -> None:
    assert "--keep-replaced is for --sync and --watch" in run("ingest", str(notes), "--keep-replaced").err
    assert "leave out --sync" in run("ingest", str(notes), "--sync", "--supersedes", "1").err


def test_a_deleted_memory_of_a_file_stays_gone_until_the_file_is_edited(notes: Path, tmp_path: Path, run: Run) -> None:
    """Whatever the file is called; if it is named, it is stored, because somebody asks for it."""
    run("ingest", "notes", "--sync")
    run("delete", "1", "--yes")
    (notes / "a.md").rename(notes / "z.md")
    for _ in range(2):
        told = " ".join(run("ingest", "notes", "--sync").out.split())
        assert "; 1 unchanged; 0 removed; 1 deleted earlier; 0 failed. To store such a file again" in told
    assert run("ingest", "notes", "--sync", "--json").json["deleted_earlier"] == 1
    (notes / "z.md").write_text("# A\n\nEdited.")
    assert run("ingest", "notes", "--sync").out.startswith("Stored 1 file")
    (notes / "z.md").write_text("# A\n\nFirst.")
    assert run("ingest", "notes", "--sync", "--json").json["deleted_earlier"] == 1
    assert contents(tmp_path / "memory.db") == ["# B\n\nSecond."]
    for words in ("notes", "notes/*.md"):
        left_out = " ".join(run("ingest", words, "--session", "notes").out.split())
        assert "1 already stored; 1 deleted earlier; 0 failed." in left_out
    assert run("ingest", "notes/z.md", "--session", "notes").out.startswith("Stored 1 file")
    assert "2 unchanged" in run("ingest", "notes", "--sync").out


def test_a_deleted_file_stays_gone_whichever_folder_around_it_is_ingested(notes: Path, run: Run) -> None:
    """Outside of a repository, where only the named folder says where a file belongs."""
    (notes / "deep").mkdir()
    (notes / "a.md").rename(notes / "deep" / "a.md")
    run("ingest", "notes/deep", "--session", "s")
    run("delete", "1", "--yes")
    for folder in ("notes", ".", "notes/deep"):
        assert run("ingest", folder, "--session", "s", "--json").json["deleted_earlier"] == 1


def test_what_a_sync_itself_deletes_comes_back_with_the_file(notes: Path, tmp_path: Path, run: Run) -> None:
    """As when somebody changes to another branch and back."""
    run("ingest", "notes", "--sync")
    (notes / "a.md").write_text("# A\n\nEdited.")
    (notes / "b.md").rename(tmp_path / "b.md")
    run("ingest", "notes", "--sync")
    (notes / "a.md").write_text("# A\n\nFirst.")
    (tmp_path / "b.md").rename(notes / "b.md")
    run("ingest", "notes", "--sync")
    assert sorted(contents(tmp_path / "memory.db")) == ["# A\n\nFirst.", "# B\n\nSecond."]
