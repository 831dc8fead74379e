"""The facade: a memory over a folder that people and agents edit."""

import json
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from file_memory_steps import OtherEngine
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError, NotFoundError, ValidationError
from vector_memory.files import FileMemory, index_path, watcher
from vector_memory.files import memory as module
from vector_memory.files.folder import MemoryFolder
from vector_memory.files.watcher import Watcher
from waiting import PATIENCE, eventually

Open = Callable[..., FileMemory]

MORNING = datetime(2026, 2, 13, 9, 30)


@pytest.fixture(autouse=True)
def quick_debounce(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two seconds are tested with a real server."""
    monkeypatch.setattr(watcher, "DEBOUNCE_MS", 100)
    monkeypatch.setattr(watcher, "QUIET_MS", 20)
    monkeypatch.setattr(watcher, "EXISTENCE_CHECK_MS", 50)
    monkeypatch.setattr(watcher, "SECONDS_BETWEEN_CHECKS", 0.05)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search waits for the words of changed files as long as a slow machine needs."""
    monkeypatch.setattr(module, "SECONDS_TO_INDEX", PATIENCE)


def complete(memory: FileMemory) -> bool:
    status = memory.status()
    return bool(status.watching and not status.indexing and not status.chunks_without_vectors)


def started(memory: FileMemory) -> FileMemory:
    memory.start_background_work()
    return memory


def indexed(memory: FileMemory) -> FileMemory:
    """Return a memory that is watched, and all of whose files are indexed."""
    started(memory)
    eventually(lambda: complete(memory))
    return memory


def with_quokka(folder: Path, open_memory: Open) -> FileMemory:
    """Return a memory that has indexed one file."""
    (folder / "a.md").write_text("The quokka eats leaves.")
    return indexed(open_memory())


def found(memory: FileMemory, query: str, source: str = "all") -> list[str]:
    return [hit.path for hit in memory.search(query, source=source).results]


def test_new_changed_renamed_and_deleted_files_are_noticed(folder: Path, open_memory: Open) -> None:
    memory = indexed(open_memory())
    (folder / "a.md").write_text("# Notes\n\nThe quokka eats leaves.\n")
    eventually(lambda: found(memory, "quokka") == ["memory/a.md"])
    (folder / "a.md").write_text("# Notes\n\nThe wombat eats grass.\n")
    eventually(lambda: found(memory, "wombat") == ["memory/a.md"])
    (folder / "deep").mkdir()
    (folder / "a.md").rename(folder / "deep" / "b.md")
    eventually(lambda: found(memory, "wombat") == ["memory/deep/b.md"])
    (folder / "deep").rename(folder / "deeper")
    eventually(lambda: found(memory, "wombat") == ["memory/deeper/b.md"])
    shutil.rmtree(folder / "deeper")
    eventually(lambda: found(memory, "wombat") == [])


def test_a_folder_moved_away_is_gone_and_moved_back_is_found_whatever_its_name(folder: Path, open_memory: Open) -> None:
    """The system tells of the folder only, not of the files in it."""
    (folder / "release-1.2").mkdir()
    (folder / "release-1.2" / "a.md").write_text("The quokka.")
    memory = indexed(open_memory())
    time.sleep(0.5)  # the change must be noticed by the watcher, not by indexing that is still running
    (folder / "release-1.2").rename(folder.parent / "release-1.2")
    eventually(lambda: found(memory, "quokka") == [])
    (folder.parent / "release-1.2").rename(folder / "release-1.3")
    eventually(lambda: found(memory, "quokka") == ["memory/release-1.3/a.md"])
    (folder / "new").mkdir()
    (folder / "new" / "b.md").write_text("The wombat.")
    eventually(lambda: found(memory, "wombat") == ["memory/new/b.md"])


@pytest.mark.usefixtures("patient")
def test_without_an_index_files_are_read_and_written_until_there_is_one(
    folder: Path, index_file: Path, open_memory: Open
) -> None:
    index_file.parent.write_text("A file where the folder of the index should be.")
    (folder / "a.md").write_text("The quokka.")
    memory = started(open_memory())
    for use in (memory.status, lambda: memory.search("quokka")):
        with pytest.raises(DatabaseError, match="VECTOR_MEMORY_DB_DIR"):
            use()
    assert memory.get("a.md").content == "The quokka."
    assert memory.write("The wombat.", now=MORNING).path == "memory/2026-02-13.md"
    index_file.parent.unlink()
    assert found(memory, "quokka") == ["memory/a.md"]
    eventually(lambda: complete(memory))  # or a file would go while its folder is emptied
    shutil.rmtree(index_file.parent)
    index_file.parent.write_text("A file again.")
    with pytest.raises(DatabaseError, match="VECTOR_MEMORY_DB_DIR"):
        memory.search("quokka")


@pytest.mark.usefixtures("patient")
def test_an_entry_is_found_by_its_words_in_the_next_search(open_memory: Open) -> None:
    memory = indexed(open_memory())
    assert memory.write("The quokka eats leaves.", "Animals", MORNING).path == "memory/2026-02-13.md"
    (hit,) = memory.search("quokka").results
    assert (hit.path, hit.start_line, hit.end_line) == ("memory/2026-02-13.md", 1, 3)
    assert memory.get(hit.path, hit.start_line, 1).content == "## 09:30 — Animals\n"


def test_sources_are_daily_logs_the_other_files_or_all(folder: Path, open_memory: Open) -> None:
    for name in ("MEMORY.md", "2026-02-13.md", "2026-02-13-extra.md"):
        (folder / name).write_text("The quokka.")
    memory = indexed(open_memory())
    assert found(memory, "quokka", "daily") == ["memory/2026-02-13.md"]
    assert sorted(found(memory, "quokka", "memory")) == ["memory/2026-02-13-extra.md", "memory/MEMORY.md"]
    assert len(found(memory, "quokka", "all")) == 3
    with pytest.raises(ValidationError):
        memory.search("quokka", source="weekly")


def test_without_a_folder_there_is_a_warning_until_there_is_one(folder: Path, open_memory: Open) -> None:
    folder.rmdir()
    memory = started(open_memory())
    answer = memory.search("quokka")
    assert (answer.success, answer.results) == (True, [])
    assert "Warning" in (answer.message or "")
    assert "Warning" in (memory.status().message or "")
    text = memory.get("MEMORY.md", 3, 2)
    assert (text.success, text.path, text.content, text.total_lines) == (True, "memory/MEMORY.md", "", 0)
    assert "Warning" in (text.message or "")
    folder.mkdir()
    with pytest.raises(NotFoundError):
        memory.get("MEMORY.md")
    (folder / "a.md").write_text("The quokka.")
    eventually(lambda: found(memory, "quokka") == ["memory/a.md"])


def test_a_folder_that_replaces_another_is_watched(folder: Path, open_memory: Open) -> None:
    (folder / "a.md").write_text("The quokka.")
    memory = indexed(open_memory())
    folder.rename(folder.parent / "old")
    folder.mkdir()
    (folder / "b.md").write_text("The wombat.")
    eventually(lambda: complete(memory) and memory.status().files == 1)
    time.sleep(0.5)  # the next file must be noticed by the watcher, not by indexing that is still running
    (folder / "c.md").write_text("The numbat.")
    eventually(lambda: found(memory, "numbat") == ["memory/c.md"])
    assert found(memory, "quokka") == []


def test_an_entry_creates_the_folder(folder: Path, open_memory: Open) -> None:
    folder.rmdir()
    memory = started(open_memory())
    memory.write("The quokka.")
    eventually(lambda: len(found(memory, "quokka")) == 1)


def test_without_a_model_words_are_compared_and_the_answer_says_so(folder: Path, open_memory: Open) -> None:
    def fail() -> ToyEngine:
        raise EmbeddingUnavailableError("There is no model.")

    (folder / "a.md").write_text("The quokka.")
    memory = started(open_memory(EmbeddingModel(fail)))
    eventually(lambda: found(memory, "quokka") == ["memory/a.md"])
    answer = memory.search("quokka")
    assert answer.message == "Found by words only. There is no model."
    assert 0 < answer.results[0].score <= 1
    assert answer.index_complete is False
    assert memory.status().vector_enabled is False


@pytest.mark.usefixtures("patient")
def test_searches_check_for_changes_if_the_watcher_fails(
    folder: Path, open_memory: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr("watchfiles.watch", fail)
    memory = started(open_memory())
    eventually(lambda: "cannot be watched" in caplog.text)
    (folder / "a.md").write_text("The quokka.")
    assert found(memory, "quokka") == ["memory/a.md"]
    assert memory.status().watching is False
    (folder / "a.md").write_text("The wombat.")
    assert memory.status().files == 1
    assert found(memory, "wombat") == ["memory/a.md"]


def test_a_search_does_not_wait_for_a_slow_index(folder: Path, open_memory: Open) -> None:
    """The model answers nothing before the search has."""
    searched = threading.Event()

    class Slow(ToyEngine):
        def embed(self, texts):  # type: ignore[no-untyped-def]
            if texts[0].startswith("The quokka"):
                assert searched.wait(PATIENCE)
            return super().embed(texts)

    for number in range(8):
        (folder / f"{number}.md").write_text(f"The quokka {number}.")
    memory = started(open_memory(EmbeddingModel(Slow)))
    eventually(lambda: len(memory.search("quokka", limit=10).results) == 8)
    answer = memory.search("quokka", limit=10)
    searched.set()
    assert "8 of 8 files have no vectors yet and can be found by words only." in (answer.message or "")
    assert answer.index_complete is False
    eventually(lambda: memory.search("quokka").index_complete)


def test_before_the_first_scan_an_answer_says_that_it_is_incomplete(folder: Path, open_memory: Open) -> None:
    (folder / "a.md").write_text("The quokka.")
    answer = open_memory().search("quokka")
    assert answer.index_complete is False
    assert "Files are still being indexed" in (answer.message or "")


def test_vectors_of_another_model_are_not_compared(folder: Path, open_memory: Open) -> None:
    (folder / "a.md").write_text("The quokka eats.")
    memory = indexed(open_memory())
    memory.close()
    again = open_memory(EmbeddingModel(OtherEngine))
    assert "another model" in (again.search("eats").message or "")
    again.start_background_work()
    eventually(lambda: complete(again) and again.search("eats").message is None)  # the index was made anew


def test_a_damaged_index_is_rebuilt_while_the_memory_is_in_use(
    folder: Path, open_memory: Open, index_file: Path
) -> None:
    memory = with_quokka(folder, open_memory)
    with closing(sqlite3.connect(index_file)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
    size = index_file.stat().st_size
    with index_file.open("r+b") as file:
        file.write(b"\xff" * size)
    (folder / "b.md").write_text("The quokka sleeps.")
    eventually(lambda: sorted(found(memory, "quokka")) == ["memory/a.md", "memory/b.md"])


def test_an_index_whose_texts_are_damaged_is_rebuilt_and_filled_again_by_a_search(
    folder: Path, open_memory: Open, index_file: Path
) -> None:
    memory = with_quokka(folder, open_memory)
    with closing(sqlite3.connect(index_file)) as connection:
        connection.execute("update memory_chunks set content = cast(x'ff80ff' as text)")
        connection.commit()
    assert not memory.search("quokka").index_complete
    eventually(lambda: found(memory, "quokka") == ["memory/a.md"])


def test_the_first_search_of_a_watched_folder_does_not_scan_it_again(
    folder: Path, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.md").write_text("The quokka.")
    memory = started(open_memory())
    eventually(lambda: memory.status().watching and memory.wait_for_words(0))
    requesting: list[int] = []  # threads; the watcher's own may have noticed something
    monkeypatch.setattr(Watcher, "request", lambda _: requesting.append(threading.get_ident()))
    assert found(memory, "quokka") == ["memory/a.md"]
    assert threading.get_ident() not in requesting


def test_an_index_that_was_deleted_is_filled_again_by_a_search(
    folder: Path, open_memory: Open, index_file: Path
) -> None:
    memory = with_quokka(folder, open_memory)
    for file in index_file.parent.glob(f"{index_file.name}*"):
        file.unlink()
    eventually(lambda: found(memory, "quokka") == ["memory/a.md"])


def test_an_answer_says_when_no_file_is_close_to_the_topic(folder: Path, open_memory: Open) -> None:
    memory = with_quokka(folder, open_memory)
    near, far = (memory.search(query) for query in ("quokka eats leaves", "tax law leaves of 1986 in four countries"))
    assert (near.message, near.results[0].match) == (None, "strong")
    assert "No close match" in (far.message or "")
    assert [found.match for found in far.results] == ["related"]


def test_an_answer_fits_and_counts_the_omitted_results(folder: Path, open_memory: Open) -> None:
    for number in range(30):
        (folder / f"{number}.md").write_text("quokka " * 300)
    memory = indexed(open_memory(max_response_tokens=2_000))
    answer = memory.search("quokka", limit=30)
    assert 0 < len(answer.results) < 30
    assert f"{30 - len(answer.results)} more did not fit" in (answer.message or "")
    assert len(json.dumps(answer.model_dump())) < 2_000 * 4


@pytest.mark.parametrize(
    "middle",
    ["x" * 30_000, "words and 漢字 " * 3_000, "\n".join(f"{number}{'x' * (number % 50)}" for number in range(2_000))],
    ids=["a word", "a line", "many lines"],
)
def test_lines_of_any_length_are_read_to_the_end(middle: str, folder: Path, open_memory: Open) -> None:
    """Each answer says where to read on: `nextLine` as `startLine`, and inside a line `nextOffset` as `offset`."""
    text = f"first\n{middle}\nlast\n"
    (folder / "a.md").write_text(text)
    memory = open_memory(max_response_tokens=2_000)
    line: int | None = 1
    offset, read = None, ""
    while line is not None:
        answer = memory.get("a.md", line, offset=offset)
        assert answer.content
        assert (answer.message is not None) == (answer.next_offset is not None)
        read += answer.content
        line, offset = answer.next_line, answer.next_offset
    assert read == text
    with pytest.raises(ValidationError, match="offset must be at most 6,"):
        memory.get("a.md", 1, offset=7)


@pytest.mark.parametrize(
    "data", ["The quokka.".encode("utf-16"), "The quokka.".encode("utf-16-le"), b"A quokka, caf\xe9."]
)
def test_a_file_in_another_encoding_is_named_and_neither_indexed_nor_read(
    data: bytes, folder: Path, open_memory: Open
) -> None:
    """Also if it was indexed before: the text that is in the index is no longer in the file."""
    memory = with_quokka(folder, open_memory)
    (folder / "a.md").write_bytes(data)
    eventually(lambda: found(memory, "quokka") == [])
    assert "memory/a.md: it is not text in UTF-8" in (memory.status().message or "")
    trace = memory.search("quokka", explain="a.md").trace or {}
    assert trace["file"]["why"] == "The file is not text in UTF-8: convert it first."
    with pytest.raises(ValidationError, match="not text in UTF-8"):
        memory.get("a.md")


def test_what_git_ignores_and_installed_packages_are_no_memories_but_the_memory_itself_is(
    folder: Path, open_memory: Open
) -> None:
    """Its folder is usually ignored as a whole, by rules above it or in it."""
    project = folder.parent
    subprocess.run(["git", "init", "-q", project], check=True)
    (project / ".gitignore").write_text("/memory/\n")
    (folder / ".gitignore").write_text("build/\n*.tmp.md\n")
    for name in ("build/a.md", "x.tmp.md", "node_modules/p/readme.md", "sub/.gitignore", "sub/c.md", "sub/b.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("c.md" if name.endswith("ignore") else "A wombat.")
    memory = with_quokka(folder, open_memory)
    assert [*MemoryFolder(folder).scan()] == ["a.md", "sub/b.md"]
    assert memory.status().message is None
    trace = memory.search("wombat", explain="build/a.md").trace or {}
    assert trace["file"]["why"] == "It is not indexed: `.gitignore` names it, or it was installed with a package."
    (project / ".gitignore").write_text("/memory/sub/\n")
    assert [*MemoryFolder(folder).scan()] == ["a.md"]
    (folder / ".gitignore").write_text("*\n")
    assert "a.md" in MemoryFolder(folder).scan()


def test_lines_are_read_as_they_are_numbered(folder: Path, open_memory: Open) -> None:
    (folder / "a.md").write_bytes(b"\xef\xbb\xbfone\r\ntwo\x0b\xe2\x80\xa8still two\n\nfour")
    memory = open_memory()
    whole = memory.get("a.md")
    assert (whole.content, whole.total_lines, whole.start_line, whole.end_line) == (
        "one\r\ntwo\x0b\u2028still two\n\nfour", 4, 1, 4,
    )  # fmt: skip
    assert memory.get("memory/a.md", 2, 2).content == "two\x0b\u2028still two\n\n"
    assert memory.get("a.md", 4).content == "four"
    with pytest.raises(ValidationError, match="between 1 and 4"):
        memory.get("a.md", 5)
    with pytest.raises(ValidationError):
        memory.get("a.md", 0)


def test_an_empty_file_has_no_lines(folder: Path, open_memory: Open) -> None:
    (folder / "a.md").touch()
    answer = open_memory().get("a.md")
    assert (answer.content, answer.total_lines) == ("", 0)


@pytest.mark.parametrize("entry", ["", "  \n", "x" * 500_001, "\ud800"])
def test_an_entry_that_is_not_text_is_refused(folder: Path, open_memory: Open, entry: str) -> None:
    with pytest.raises(ValidationError):
        open_memory().write(entry)
    assert list(folder.iterdir()) == []


def test_a_topic_stays_on_its_line(folder: Path, open_memory: Open) -> None:
    open_memory().write("Entry.", "One\n## Two", MORNING)
    assert (folder / "2026-02-13.md").read_text().splitlines()[0] == "## 09:30 — One ## Two"


def test_projects_with_the_same_name_and_models_have_separate_indexes(tmp_path: Path) -> None:
    paths = {
        index_path(tmp_path, tmp_path / place / "my project" / "memory", model)
        for place in ("a", "b")
        for model in ("one", "two")
    }
    assert len(paths) == 4
    assert all(path.name.startswith("my-project-") and path.suffix == ".sqlite" for path in paths)
    assert index_path(tmp_path, Path("/notes"), "m").name.startswith("notes-")
    assert index_path(tmp_path, Path("/../..memory"), "m").parent == tmp_path


def test_closing_twice_is_harmless(open_memory: Open) -> None:
    memory = started(open_memory())
    memory.close()
    memory.close()
