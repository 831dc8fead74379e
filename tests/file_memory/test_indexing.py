"""Updating the index from the folder: all possible files are indexed, and the status says what was skipped."""

import logging
import os
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from file_memory_steps import OtherEngine, Steps, index_of
from memory_files import change
from vector_memory.domain import SearchMode
from vector_memory.embedding import Embedder, EmbeddingModel, Vectors
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError
from vector_memory.files import FileMemory, syncing
from vector_memory.files import index_file as index_file_module
from vector_memory.files.folder import MemoryFolder
from vector_memory.files.index_file import IndexFile, file_scope
from vector_memory.files.search import FileSearch
from vector_memory.settings import Settings
from vector_memory.storage.sqlite import connecting, file_index
from vector_memory.store import SessionMemoryStore
from vector_memory.writing import indexer
from waiting import PATIENCE, at_once, eventually


class CountingEngine(ToyEngine):
    """Counts the passages that it embeds, fails for some, and embeds while its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded: list[str] = []
        self.poison = "\0"
        self.gate = threading.Event()
        self.gate.set()

    def embed(self, texts: Sequence[str]) -> Vectors:
        assert self.gate.wait(PATIENCE)
        if any(self.poison in text for text in texts):
            raise RuntimeError(self.poison)
        self.embedded += texts
        return super().embed(texts)


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()


Opening = Callable[..., IndexFile]


@pytest.fixture
def opening(index_file: Path) -> Iterator[Opening]:
    """Opens the index with an engine, as a server does."""
    with ExitStack() as opened:

        def index_with(engine: Callable[[], Embedder] = ToyEngine) -> IndexFile:
            index = index_of(index_file, EmbeddingModel(engine))
            opened.callback(index.close)
            return index

        yield index_with


@pytest.fixture
def index(opening: Opening, engine: CountingEngine) -> IndexFile:
    return opening(lambda: engine)


@pytest.fixture
def steps(folder: Path, index: IndexFile) -> Steps:
    return Steps(folder, index)


def chunks(index: IndexFile) -> list[tuple[str, str, int]]:
    """Return path, text and number of vectors of all chunks."""
    found = []
    with index.current().storage.read() as reader:
        for file in reader.memories.get_all(reader.memories.ids(file_scope())).values():
            passages = [passage.chunk for passage in reader.vectors.passages_of(file)]
            parts = [part.chunk for part in reader.chunks.of(file.id)]
            found += [(file.metadata["source"], part.text, passages.count(part.index)) for part in parts]
    return sorted(found)


def execute(path: Path, sql: str) -> None:
    """Change an index behind its back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(sql)


def test_a_changed_file_has_its_new_chunks_and_no_old_ones(folder: Path, index: IndexFile, steps: Steps) -> None:
    (folder / "a.md").write_text("Old words.")
    steps.all()
    (folder / "a.md").write_text("New words.")
    steps.all()
    assert chunks(index) == [("a.md", "New words.", 1)]


def test_a_change_that_keeps_size_and_time_is_noticed_soon_after_it(
    folder: Path, index: IndexFile, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that ticks slowly can give two states of a file the same time."""
    monkeypatch.setattr(syncing, "SETTLED_SECONDS", 3600)
    (folder / "a.md").write_text("Old.")
    times = (folder / "a.md").stat()
    steps.words()
    (folder / "a.md").write_text("New.")
    os.utime(folder / "a.md", ns=(times.st_atime_ns, times.st_mtime_ns))
    steps.words()
    assert [text for _, text, _ in chunks(index)] == ["New."]


@pytest.mark.parametrize("name", ["a.md", "2026-02-13.md"])
def test_a_touched_or_renamed_file_is_not_embedded_again(
    name: str, folder: Path, index: IndexFile, steps: Steps, engine: CountingEngine
) -> None:
    (folder / "a.md").write_text("Words of a note.")
    steps.all()
    (folder / "a.md").rename(folder / name).touch()
    steps.all()
    assert chunks(index) == [(name, "Words of a note.", 1)]
    assert len(engine.embedded) == 1


def test_an_unchanged_file_is_not_read(folder: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:

    (folder / "a.md").write_text("Words.")
    os.utime(folder / "a.md", (1_000_000_000, 1_000_000_000))
    steps.words()
    monkeypatch.setattr("vector_memory.files.folder.MemoryFolder.read", None)
    steps.words()


def test_only_the_chunks_that_changed_are_embedded_again(folder: Path, steps: Steps, engine: CountingEngine) -> None:
    paragraphs = [" ".join(f"p{number}w{word}" for word in range(190)) + "." for number in range(12)]
    (folder / "a.md").write_text("\n\n".join(paragraphs))
    steps.all()
    before = len(engine.embedded)
    (folder / "a.md").write_text("\n\n".join([*paragraphs, "One more paragraph."]))
    steps.all()
    assert 1 <= len(engine.embedded) - before < before / 2


@pytest.mark.usefixtures("_short_rounds")
def test_a_deleted_file_leaves_no_byte_in_the_index_even_if_somebody_was_reading(
    folder: Path, index: IndexFile, steps: Steps
) -> None:
    (folder / "a.md").write_text("The zyzzyva is secret: quokka_77.")
    (folder / "b.md").write_text("This stays.")
    steps.all()

    def are_there() -> list[bool]:
        found = [file.read_bytes() for file in index.path.parent.iterdir()]
        return [any(word in data for data in found) for word in (b"zyzzyva", b"quokka")]

    assert are_there() == [True, True]
    (folder / "a.md").unlink()
    with index.current().storage.read() as reader:
        assert len(reader.memories.ids(file_scope())) == 2
        steps.all()
        assert are_there() == [True, True]
    eventually(lambda: are_there() == [False, False])
    assert [path for path, _, _ in chunks(index)] == ["b.md"]


def test_two_processes_index_each_file_once(folder: Path, index: IndexFile, opening: Opening) -> None:
    """Two indexers with files of their own open, as two servers have."""
    for number in range(12):
        (folder / f"{number}.md").write_text(f"Words of note {number}.")
    at_once(*(Steps(folder, each).all for each in (index, opening())))
    assert {text for _, text, _ in chunks(index)} == {f"Words of note {number}." for number in range(12)}
    assert len(chunks(index)) == 12


def test_words_are_indexed_without_a_model_and_vectors_when_there_is_one(folder: Path, opening: Opening) -> None:
    def fail() -> ToyEngine:
        raise EmbeddingUnavailableError("There is none.")

    (folder / "a.md").write_text("Words.")
    for engine, step, vectors in ((fail, Steps.words, 0), (ToyEngine, Steps.all, 1)):
        index = opening(engine)
        step(Steps(folder, index))
        assert chunks(index) == [("a.md", "Words.", vectors)]
        index.close()


@pytest.mark.usefixtures("_short_rounds")
def test_a_file_that_cannot_be_embedded_does_not_stop_others_and_is_tried_again(
    folder: Path, index: IndexFile, steps: Steps, engine: CountingEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.poison = "quokka"
    for number in range(20):
        (folder / f"{number:02}.md").write_text("The quokka." if number == 3 else f"Note {number}.")
    steps.words()
    eventually(lambda: [path for path, _, passages in chunks(index) if not passages] == ["03.md"])
    assert "RuntimeError" in caplog.text
    assert "quokka" not in caplog.text
    engine.poison = "\0"
    steps.vectors()


@pytest.mark.usefixtures("_short_rounds")
def test_an_embedding_that_takes_too_long_is_postponed(
    folder: Path,
    steps: Steps,
    engine: CountingEngine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (folder / "a.md").write_text("Words.")
    engine.gate.clear()
    with monkeypatch.context() as patch:
        patch.setattr(index_file_module, "SECONDS_TO_EMBED", 0.05)
        steps.words()
        eventually(lambda: "TimeoutError" in caplog.text)
    engine.gate.set()
    steps.vectors()


def test_an_index_of_another_model_is_made_anew(folder: Path, opening: Opening, steps: Steps) -> None:
    (folder / "a.md").write_text("Words.")
    steps.all()
    other = opening(OtherEngine)
    other.model.encode_query("A model that is not loaded is not loaded for this.")
    other.use(lambda opened: opened.require_same_model())
    assert chunks(other) == []
    Steps(folder, other).all()
    with other.current().storage.read() as reader:
        assert reader.vectors.fingerprint() == OtherEngine().fingerprint


def test_words_are_searched_when_sqlite_vec_cannot_be_loaded(
    folder: Path, index: IndexFile, opening: Opening, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.md").write_text("Old words.")
    steps.all()
    with monkeypatch.context() as without_extension:
        without_extension.setattr(connecting, "vector_search_library", lambda: str(folder / "none"))
        without = opening()
        (folder / "a.md").write_text("New words.")
        for text in ("New words.", "Newer words."):
            (folder / "a.md").write_text(text)
            Steps(folder, without).words()
            assert not without.has_vectors
            assert chunks(without) == [("a.md", text, 0)]
        found = FileSearch("newer", without.model, SearchMode.HYBRID, daily=None)
        with without.current().storage.read() as reader:
            hits = found.find(without.current(), reader, 5)
        assert [hit.path for hit in hits.hits] == ["a.md"]
        assert hits.question.problem == "Found by words only. sqlite-vec cannot be loaded."
    steps.all()
    assert chunks(index) == [("a.md", "Newer words.", 1)]


def test_an_index_of_a_newer_release_is_not_changed(
    folder: Path, index: IndexFile, index_file: Path, steps: Steps, opening: Opening
) -> None:
    """Two releases on one folder would delete each other's index for ever."""
    (folder / "a.md").write_text("Words.")
    steps.all()
    index.close()
    execute(index_file, "pragma user_version = 99")
    before = index_file.read_bytes()
    with pytest.raises(DatabaseError, match="newer release"):
        opening().current()
    assert index_file.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"x" * 16 + data[16:],
        lambda data: data[:4096] + b"\xff" * (len(data) - 4096),
        lambda _: b"nonsense" * 1000,
        "pragma user_version = 1",
        "delete from schema_migrations where version > 1; update schema_migrations set version = 1",
        "drop table token_states",
    ],
    ids=["header", "middle", "nonsense", "older cuts", "older tables", "no table"],
)
def test_a_damaged_index_is_rebuilt(
    folder: Path,
    index: IndexFile,
    steps: Steps,
    opening: Opening,
    damage: str | Callable[[bytes], bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    (folder / "a.md").write_text("Words.")
    steps.all()
    index.close()
    if isinstance(damage, str):
        execute(index.path, damage)
    else:
        index.path.write_bytes(damage(index.path.read_bytes()))
    second = opening()
    Steps(folder, second).all()
    assert chunks(second) == [("a.md", "Words.", 1)]
    assert "rebuilding it" in caplog.text


def test_an_index_that_another_process_rebuilt_is_used_from_then_on(
    folder: Path, index: IndexFile, opening: Opening, steps: Steps
) -> None:
    (folder / "a.md").write_text("Words.")
    steps.all()
    file_index.remove_index(index.path)
    other = opening()
    steps.all()
    assert chunks(other) == chunks(index) == [("a.md", "Words.", 1)]


def test_a_database_of_another_program_is_not_changed(index_file: Path, opening: Opening) -> None:
    index_file.parent.mkdir()
    execute(index_file, "create table precious (text)")
    before = index_file.read_bytes()
    with pytest.raises(DatabaseError, match="another program"):
        opening().current()
    assert index_file.read_bytes() == before


def test_a_link_with_the_name_of_the_index_is_not_followed(tmp_path: Path, index_file: Path, opening: Opening) -> None:
    precious = tmp_path / "precious"
    precious.write_text("no database")
    index_file.parent.mkdir()
    index_file.symlink_to(precious)
    with pytest.raises(DatabaseError, match="link"):
        opening().current()
    assert precious.read_text() == "no database"


def test_every_passage_of_a_chunk_has_a_vector(folder: Path, index: IndexFile, steps: Steps) -> None:
    """A chunk has more pieces than the model reads at once."""
    (folder / "a.md").write_text(" ".join(f"filler{number}" for number in range(150)) + " quokka.")
    steps.all()
    ((_, _, passages),) = chunks(index)
    assert passages > 1


def test_an_index_is_empty_when_its_folder_is_gone(folder: Path, index: IndexFile, steps: Steps) -> None:
    (folder / "a.md").write_text("Words.")
    steps.all()
    (folder / "a.md").unlink()
    folder.rmdir()
    steps.all()
    assert chunks(index) == []


def test_log_messages_report_the_progress_of_the_first_index(
    folder: Path, steps: Steps, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(25):
        (folder / f"{number}.md").write_text("Words.")
    with caplog.at_level(logging.INFO):
        steps.words()
    assert "20 of 25 files" in caplog.text


def test_the_index_is_for_its_owner_only(index: IndexFile) -> None:
    index.current()
    assert index.path.stat().st_mode & 0o777 == 0o600
    assert index.path.parent.stat().st_mode & 0o777 == 0o700


def test_words_are_indexed_while_another_process_computes_vectors(
    folder: Path, opening: Opening, steps: Steps, engine: CountingEngine
) -> None:
    (folder / "a.md").write_text("Words.")
    engine.gate.clear()
    steps.words()
    other = opening()
    (folder / "b.md").write_text("More words.")
    Steps(folder, other).words()
    eventually(lambda: chunks(other) == [("a.md", "Words.", 0), ("b.md", "More words.", 1)])
    engine.gate.set()
    steps.vectors()


def test_a_memory_of_sessions_is_no_index(tmp_path: Path) -> None:
    """What is precious is never made anew."""
    memory = tmp_path / "memory.db"
    with SessionMemoryStore(memory, Settings(embedding_model="toy")) as store:
        store.store_memory("report", "Precious.", session_id="s")
    with pytest.raises(DatabaseError, match="another program"):
        index_of(memory, EmbeddingModel(ToyEngine)).current()


def test_a_file_that_was_renamed_while_no_server_ran_keeps_its_vectors(
    folder: Path, index: IndexFile, opening: Opening, steps: Steps, engine: CountingEngine
) -> None:
    (folder / "a.md").write_text("Words of a note.")
    steps.all()
    index.close()
    (folder / "a.md").rename(folder / "b.md")
    (folder / "copy.md").write_text("Words of a note.")
    engine.embedded.clear()
    again = opening(lambda: engine)
    Steps(folder, again).all()
    assert chunks(again) == [("b.md", "Words of a note.", 1), ("copy.md", "Words of a note.", 1)]
    assert engine.embedded == []


def test_files_that_come_back_in_a_moment_keep_their_vectors(
    folder: Path, index: IndexFile, opening: Opening, steps: Steps, engine: CountingEngine
) -> None:
    """As those of a branch, or of a folder that Git replaces."""
    (folder / "a.md").write_text("Words of a note.")
    steps.all()
    index.close()
    engine.embedded.clear()
    again = opening(lambda: engine)
    later = Steps(folder, again)
    folder.rename(folder.parent / "away")
    later.all()
    assert chunks(again) == []
    (folder.parent / "away").rename(folder)
    later.all()
    assert chunks(again) == [("a.md", "Words of a note.", 1)]
    assert engine.embedded == []


Open = Callable[..., FileMemory]


@pytest.fixture
def deep(folder: Path) -> Iterator[Path]:
    """A folder with 1,100 levels of folders, deeper than a path may be long."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("inner", dir_fd=descriptor)
        inner = os.open("inner", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    yield folder
    subprocess.run(["rm", "-rf", folder / "inner"], check=True)


def test_a_folder_1100_levels_deep_is_named_and_the_other_files_are_found(deep: Path, open_memory: Open) -> None:
    (deep / "plan.md").write_text("The rocket starts on Tuesday.")
    memory = open_memory()
    memory.start_background_work()
    assert memory.wait_for_words(60)
    eventually(lambda: "being indexed" not in (memory.search("rocket").message or ""))
    assert [hit.path for hit in memory.search("rocket").results] == ["memory/plan.md"]
    assert "100 folders deep" in (memory.status().message or "")


def test_files_that_cannot_be_indexed_are_named_with_the_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "good.md").write_text("Good.")
    os.mkfifo(folder / "pipe.md")
    (folder / "link.md").symlink_to(folder / "good.md")
    (folder / "loop").symlink_to(folder)
    (folder / "large.md").touch()
    os.truncate(folder / "large.md", 1 << 32)
    with Path(folder, os.fsdecode(b"\xff\x0a.md")).open("wb"), socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(folder)  # the path of a socket is short
        server.bind("socket.md")
        memory = MemoryFolder(folder)
        assert list(memory.scan()) == ["good.md"]
    reasons = {each.path: each.reason for each in memory.skipped}
    assert reasons.keys() == {"pipe.md", "link.md", "loop", "large.md", "socket.md", "\ufffd\ufffd.md"}
    assert reasons["loop"] == "it is a link to a folder"
    assert "UTF-8" in reasons["\ufffd\ufffd.md"]
    assert "link" in reasons["link.md"]


def test_a_folder_that_cannot_be_read_hides_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("closed", "open"):
        (folder / name).mkdir()
        (folder / name / "a.md").write_text("Words.")
    closed = (folder / "closed").stat().st_ino
    scandir = os.scandir

    def refuse(descriptor: int) -> object:
        if os.fstat(descriptor).st_ino == closed:
            raise PermissionError(13, "Permission denied")
        return scandir(descriptor)

    monkeypatch.setattr(os, "scandir", refuse)
    memory = MemoryFolder(folder)
    assert list(memory.scan()) == ["open/a.md"]
    assert [(each.path, each.reason) for each in memory.skipped] == [
        ("closed", "it cannot be read (Permission denied)")
    ]


def test_a_file_that_cannot_be_chunked_does_not_stop_others(
    folder: Path, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = indexer.chunk_document

    def fail(text: str, *rest: Any, **more: Any) -> object:
        if "odd" in text:
            raise RecursionError
        return cut(text, *rest, **more)

    monkeypatch.setattr(indexer, "chunk_document", fail)
    (folder / "a.md").write_text("An odd text.")
    (folder / "b.md").write_text("A good text.")
    memory = open_memory()
    memory.start_background_work()
    assert memory.wait_for_words(60)
    assert [hit.path for hit in memory.search("good").results] == ["memory/b.md"]
    assert "a.md" in (memory.status().message or "")


def test_an_answer_says_when_files_could_not_be_indexed(
    folder: Path, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_folder: MemoryFolder) -> None:
        raise RuntimeError

    monkeypatch.setattr(MemoryFolder, "scan", fail)
    (folder / "a.md").write_text("Words.")
    memory = open_memory()
    memory.start_background_work()
    memory.wait_for_words(60)
    message = memory.search("words").message or ""
    assert "could not be indexed" in message
    assert "being indexed" not in message


def test_an_index_whose_shadow_table_was_dropped_is_rebuilt(folder: Path, index_file: Path, open_memory: Open) -> None:
    (folder / "a.md").write_text("Some words.")
    with open_memory() as memory:
        memory.start_background_work()
        assert memory.wait_for_words(60)
    change(index_file, "drop table vec_chunk_search_rowids")
    again = open_memory()
    again.start_background_work()
    assert again.wait_for_words(60)
    assert [hit.path for hit in again.search("words").results] == ["memory/a.md"]
