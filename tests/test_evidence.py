"""A memory names the files that it is about, and says whether they still are what they were when it was stored."""

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from commands.conftest import Run, run, surroundings
from engines import address_of, column
from inside import storage_of
from memory_files import SETTINGS
from repositories import Git, git, project
from servers import Server
from vector_memory.answers.models import EvidenceNote
from vector_memory.domain import Evidence, NewMemory, Project, Scope
from vector_memory.errors import ValidationError
from vector_memory.reading.evidence import Checkout
from vector_memory.settings import Settings
from vector_memory.settings.locations import head_of
from vector_memory.store import SessionMemoryStore, file_lines
from vector_memory.upkeep.copying import copying

__all__ = ["git", "project", "run", "surroundings"]

TEXT = "Tokens are compared in constant time."
REPORTS = Scope("report")
PAST = 1_000_000_000
CODE = "".join(f"    line_{number}()\n" for number in range(1, 101))

Named = list[dict[str, Any]]


@pytest.fixture
def code(project: Path) -> Path:
    """A file of a project that was not changed of late."""
    file = project / "src" / "auth.py"
    file.parent.mkdir()
    write(file, CODE)
    return file


def write(file: Path, text: str) -> None:
    """Write a file as if long ago, but at another time than before."""
    at = file.stat().st_mtime + 1 if file.exists() else PAST
    file.write_text(text)
    os.utime(file, (at, at))


@pytest.fixture
def store(project: Path, tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(address_of(tmp_path / "memory.db"), SETTINGS) as store:
        store.work_in(project)
        yield store


def keep(store: SessionMemoryStore, evidence: Named | None, text: str = TEXT) -> int:
    return store.store_memory("report", text, session_id="s", evidence=evidence).memory_id


def notes(store: SessionMemoryStore, memory_id: int = 1) -> list[EvidenceNote]:
    return store.get_memory_by_id(memory_id).memory.evidence


def state(store: SessionMemoryStore, memory_id: int = 1) -> tuple[str, str | None]:
    (note,) = notes(store, memory_id)
    return note.state, note.moved_to


def hashed(checkout: Checkout, evidence: Named) -> tuple[Evidence, ...]:
    """Return the evidence of a memory that is about to be stored."""
    new = NewMemory.of("report", TEXT, session_id="s", evidence=evidence)
    return checkout.with_evidence(new, in_text=False).evidence


LATER: dict[str, tuple[Callable[[str], str], tuple[str, str | None]]] = {
    "as it was": (str, ("fresh", None)),
    "lines above": (lambda text: "import os\n\n" + text, ("moved", "44-62")),
    "lines below": (lambda text: text + "more()\n", ("fresh", None)),
    "white space at the ends of lines": (lambda text: text.replace("\n", " \r\n"), ("fresh", None)),
    "white space at the beginnings": (lambda text: text.replace("    ", "\t"), ("changed", None)),
    "a line of it": (lambda text: text.replace("line_50()", "line(50)"), ("changed", None)),
    "the order of its lines": (
        lambda text: "#\n" + text.replace("line_50", "x").replace("line_51", "line_50").replace("x()", "line_51()"),
        ("changed", None),
    ),
    "a second copy of it elsewhere": (lambda text: "\n" + text + text, ("changed", None)),
    "all is gone": (lambda _: "", ("changed", None)),
}


@pytest.mark.parametrize("later", LATER)
def test_lines_are_fresh_moved_or_changed(store: SessionMemoryStore, code: Path, later: str) -> None:
    change, expected = LATER[later]
    keep(store, [{"path": "src/auth.py", "lines": "42-60"}])
    write(code, change(CODE))
    assert state(store) == expected


def test_a_file_is_fresh_changed_or_gone(store: SessionMemoryStore, code: Path) -> None:
    keep(store, [{"path": "src/auth.py"}])
    assert notes(store)[0].model_dump() == {"path": "src/auth.py", "state": "fresh"}
    write(code, CODE.replace("\n", "\t\n"))
    assert state(store) == ("fresh", None)
    write(code, f"{CODE}more()\n")
    assert state(store) == ("changed", None)
    code.unlink()
    assert state(store) == ("gone", None)
    code.parent.rmdir()
    assert state(store) == ("gone", None)


def test_every_grain_says_it_and_a_memory_without_evidence_says_nothing(store: SessionMemoryStore, code: Path) -> None:
    keep(store, [{"path": "src/auth.py", "lines": 42}])
    keep(store, None, "Tokens are compared, and nothing else is said.")
    write(code, f"\n{CODE}")
    answers: list[Any] = [
        *(search("tokens compared", REPORTS) for search in (store.search_chunks, store.search_documents)),
        store.search_sections("tokens compared", REPORTS),
        store.search_chunks(["tokens", "compared"], REPORTS),
        store.search_documents(None, REPORTS),
        store.search_scoped(REPORTS),
    ]
    for answer in answers:
        said = {one.get("memory_id", one.get("id")): one.get("evidence") for one in answer.model_dump()["results"]}
        assert said == {1: [{"path": "src/auth.py", "lines": "42", "state": "moved", "moved_to": "43"}], 2: None}
    assert store.reconstruct_document(1).evidence == notes(store)


def test_only_a_file_that_has_changed_is_read_and_only_once(project: Path, code: Path) -> None:
    read: list[str] = []

    def reading(folder: Path, path: PurePosixPath) -> Any:
        read.append(str(path))
        return file_lines(folder, path)

    checkout = Checkout(reading, None)
    checkout.work_in(project)
    new = hashed(checkout, [{"path": "src/auth.py", "lines": "42"}, {"path": "src/auth.py", "lines": "43"}])
    read.clear()
    assert [note.state for note in checkout.notes({1: new})[1]] == ["fresh", "fresh"]
    assert read == []
    write(code, f"\n{CODE}")
    for _ in range(3):
        assert [note.moved_to for note in checkout.notes({1: new})[1]] == ["43", "44"]
    assert read == ["src/auth.py"] * 2
    fresh = project / "fresh.py"
    fresh.write_text("a\n")  # just now: the next change may have the same time
    (new,) = hashed(checkout, [{"path": "fresh.py"}])
    at = fresh.stat()
    fresh.write_text("b\n")
    os.utime(fresh, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert checkout.notes({1: [new]})[1][0].state == "changed"


REFUSED: dict[str, Callable[[Path], object]] = {
    "outside.py": lambda folder: (folder / "outside.py").symlink_to(folder.parent / "outside.py"),
    "linked/outside.py": lambda folder: (folder / "linked").symlink_to(folder.parent),
    "hard.py": lambda folder: os.link(folder.parent / "outside.py", folder / "hard.py"),
    "ignored.py": lambda folder: (folder / ".gitignore").write_text("ignored.py\n"),
    "private/key.py": lambda folder: (folder / ".gitignore").write_text("/private/\n"),
    "private/inner.py": lambda folder: (folder / "private/.gitignore").write_text("inner.py\n"),
    "node_modules/key.py": lambda _: None,
    ".env": lambda _: None,
    "private/.key": lambda _: None,
    "../outside.py": lambda _: None,
    "private/../../outside.py": lambda _: None,
    "nothing.py": lambda _: None,
    "private": lambda _: None,
    "nul\0.py": lambda _: None,
}


@pytest.mark.parametrize("path", REFUSED)
def test_what_is_outside_linked_hidden_or_ignored_is_refused_unread(
    store: SessionMemoryStore, project: Path, path: str
) -> None:
    files = ("../outside.py", "ignored.py", "private/key.py", "private/inner.py", ".env", "private/.key")
    for name in (*files, "node_modules/key.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("a\n")
    (project / ".git").mkdir()  # rules are those of a repository
    REFUSED[path](project)
    with pytest.raises(ValidationError, match=r"[Ee]vidence|NUL"):
        keep(store, [{"path": path}])
    with pytest.raises(ValidationError):
        keep(store, [{"path": str(project.parent / "outside.py")}])
    assert store.count_memories() == 0


def test_what_became_a_link_or_ignored_is_not_read(store: SessionMemoryStore, code: Path) -> None:
    keep(store, [{"path": "src/auth.py"}])
    write(code, f"\n{CODE}")
    (code.parent / ".gitignore").write_text("auth.py\n")
    assert state(store) == ("unverified", None)
    (code.parent / ".gitignore").unlink()
    code.rename(code.parents[2] / "auth.py")
    code.symlink_to(code.parents[2] / "auth.py")
    assert state(store) == ("unverified", None)


WRONG: dict[str, Named] = {
    "path must be a string": [{}],
    "has no line:": [{"path": "src/auth.py", "line": 3}],
    "lines must be": [{"path": "src/auth.py", "lines": "60-42"}],
    "counted from 1": [{"path": "src/auth.py", "lines": 0}],
    "as many lines": [{"path": "src/auth.py", "lines": "90-101"}],
    "commit must be": [{"path": "src/auth.py", "commit": "main"}],
    "at most 20": [{"path": "src/auth.py", "lines": number} for number in range(1, 22)],
}


@pytest.mark.usefixtures("code")
@pytest.mark.parametrize("said", WRONG)
def test_what_cannot_be_evidence_is_refused_with_what_to_send(store: SessionMemoryStore, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        keep(store, WRONG[said])


def test_no_code_is_kept_and_of_lines_with_a_secret_no_hash(store: SessionMemoryStore, code: Path) -> None:
    write(code, f'{CODE}password = "hunter2-correct-horse"\nunmistakable_name()\n')
    keep(store, [{"path": "src/auth.py", "lines": 101}, {"path": str(code), "lines": "102"}])
    assert [note.state for note in notes(store)] == ["unverified", "fresh"]
    assert {note.path for note in notes(store)} == {"src/auth.py"}
    kept = storage_of(store)
    with kept.read() as reader:
        secret, named = reader.evidence.of([1])[1]
        assert "unmistakable" not in repr(named)
        assert (secret.lines_hash, secret.file_hash, secret.lines_sum) == (None, None, None)


def test_the_commit_that_is_checked_out_is_kept(store: SessionMemoryStore, project: Path, code: Path, git: Git) -> None:
    head = git("rev-parse", "HEAD").strip()
    linked = project.parent / "linked"
    git("worktree", "add", linked)
    assert [head_of(folder) for folder in (project, code.parent, linked)] == [head] * 3
    git("pack-refs", "--all")
    assert [head_of(project), head_of(linked)] == [head] * 2
    git("checkout", "--detach")
    assert head_of(project) == head
    for commit in (None, head, head[:9], "0123456"):
        keep(store, [{"path": "src/auth.py", "lines": "42", "commit": commit}], f"{TEXT} {commit}")
    assert [notes(store, number)[0].commit for number in (1, 2, 3, 4)] == [head, head, head, "0123456"]
    assert [state(store, number)[0] for number in (3, 4)] == ["fresh", "unverified"]
    write(linked / "src" / "auth.py", f"\n{CODE}")
    store.work_in(linked)
    assert state(store) == ("moved", "43")


def test_files_of_another_project_or_another_machine_are_not_compared(
    store: SessionMemoryStore, project: Path, code: Path, tmp_path: Path
) -> None:
    keep(store, [{"path": "src/auth.py"}])
    other = tmp_path / "other"
    other.mkdir()
    store.work_in(other)
    assert state(store) == ("unverified", None)
    store.work_in(None)
    assert state(store) == ("unverified", None)
    keep(store, [{"path": "src/auth.py"}, {"path": "nothing.py", "lines": 7}], "Stored over HTTP.")
    store.work_in(project)
    assert [note.state for note in notes(store, 2)] == ["unverified"] * 2
    assert code.exists()


@pytest.mark.parametrize("is_on", [True, False])
def test_paths_with_lines_in_a_text_are_evidence_if_the_setting_says_so(
    project: Path, code: Path, tmp_path: Path, is_on: bool
) -> None:
    text = "See `src/auth.py:42`, src/auth.py:50-52 (and src/auth.py:900, gone.py:1, https://a.org/src/auth.py:7)."
    settings = Settings(**SETTINGS.model_dump() | {"evidence_in_text": is_on})
    with SessionMemoryStore(address_of(tmp_path / "memory.db"), settings) as store:
        store.work_in(project)
        keep(store, [{"path": "src/auth.py", "lines": 42}], text)
        assert [note.lines for note in notes(store)] == (["42", "50-52"] if is_on else ["42"])
        store.work_in(None)
        keep(store, None, f"{text} Elsewhere.")
        assert notes(store, 2) == []
    assert code.exists()


def test_exports_and_copies_have_the_evidence_and_a_deleted_memory_leaves_none(
    store: SessionMemoryStore, project: Path, code: Path, tmp_path: Path
) -> None:
    keep(store, [{"path": "src/auth.py", "lines": "42-60"}, {"path": "src/auth.py"}])
    write(code, f"\n{CODE}")
    expected, export = notes(store), io.BytesIO()
    assert [note.state for note in expected] == ["moved", "changed"]
    store.export_memories(export)
    export.seek(0)
    with SessionMemoryStore(address_of(tmp_path / "imported.db"), SETTINGS) as other:
        other.import_memories(export)
        other.work_in(project)
        assert notes(other) == expected
    with SessionMemoryStore(address_of(tmp_path / "copy.db"), SETTINGS) as other:
        with copying(storage_of(store), storage_of(other)) as running:
            running.copy_memories()
            running.complete()
        other.work_in(project)
        assert notes(other) == expected
    store.delete_memory(1)
    assert column(store, "select count(*) from file_evidence") == [0]


def test_an_import_leads_to_no_file_outside_the_project(store: SessionMemoryStore, project: Path, code: Path) -> None:
    outside = project.parent / "auth.py"
    code.rename(outside)
    checkout = Checkout(file_lines, None)
    checkout.work_in(outside.parent)
    (one,) = hashed(checkout, [{"path": outside.name}])
    checkout = Checkout(lambda *_: pytest.fail("it is read"), None)
    checkout.work_in(project)
    for path in ("../auth.py", str(outside), "src/../../auth.py"):
        (note,) = checkout.notes({1: [replace(one, path=path, project=str(project))]})[1]
        assert note.state == "unverified"
    assert store.count_memories() == 0


def test_a_recap_says_what_no_longer_holds(store: SessionMemoryStore, project: Path, code: Path) -> None:
    keep(store, [{"path": "src/auth.py", "lines": "42"}, {"path": "src/auth.py", "lines": "43"}])
    before = store.past.recap(Project(str(project), owns_memory=True), "now")
    write(code, CODE.replace("line_42()", "line(42)"))
    after = store.past.recap(Project(str(project), owns_memory=True), "now")
    assert before
    assert after
    assert after.text == f"{before.text}\nAbout files that have changed since: memory 1 (src/auth.py:42 changed)."


def test_verify_lists_what_no_longer_holds(store: SessionMemoryStore, code: Path) -> None:
    assert store.verify(Scope()).message == "No memory has evidence."
    keep(store, [{"path": "src/auth.py", "lines": "42"}, {"path": "src/auth.py", "lines": "43-44"}])
    keep(store, [{"path": "src/auth.py"}], "Another one.")
    write(code, CODE.replace("line_42()", "line(42)"))
    found = store.verify(Scope())
    assert [(line.memory_id, line.place, line.state) for line in found.lines] == [
        (1, "src/auth.py:42", "changed"),
        (2, "src/auth.py", "changed"),
    ]
    assert (found.counts, found.message) == (
        {"fresh": 1, "changed": 2},
        "Evidence of 2 memories: 1 fresh, 2 changed.",
    )
    store.supersede(2, 1)
    assert [line.memory_id for line in store.verify(Scope()).lines] == [2]


def test_the_command_lists_it_for_the_project_of_the_current_folder(
    run: Run, project: Path, code: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(project)
    with SessionMemoryStore(address_of(tmp_path / "memory.db"), Settings(embedding_model="toy")) as store:
        store.work_in(project)
        keep(store, [{"path": "src/auth.py", "lines": "42"}])
    write(code, "")
    assert run("verify").out == "memory 1: src/auth.py:42 changed\nEvidence of 1 memory: 1 changed.\n"
    assert run("verify", "--session", "s", "--json").json["lines"][0]["state"] == "changed"


def test_a_server_on_this_machine_compares_files_whatever_form_its_answers_have(project: Path, code: Path) -> None:
    with Server(project, VECTOR_MEMORY_ANSWERS="lean") as server:
        server.hello()
        evidence = [{"path": "src/auth.py", "lines": "42-60"}]
        server.call("store_report", content=TEXT, session_id="s", evidence=evidence)
        wrong = server.call("store_report", content=f"{TEXT}!", session_id="s", evidence=[{"path": "gone.py"}])
        write(code, f"\n{CODE}")
        (found,) = server.call("search_reports_specific_chunks", query="tokens compared")["results"]
    assert "send a file of the project" in wrong["message"]
    assert found["evidence"] == [{"path": "src/auth.py", "lines": "42-60", "state": "moved", "moved_to": "43-61"}]
