"""Updating the index from the folder."""

import logging
import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest

from file_memory_steps import Steps
from vector_memory.embedding import EmbeddingModel, Vectors
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError
from vector_memory.files import indexer
from vector_memory.files.index_file import IndexFile
from vector_memory.storage.sqlite import file_index, file_rows, vec0
from vector_memory.storage.sqlite.file_contents import contents_of
from vector_memory.storage.sqlite.file_index import FileIndex
from vector_memory.storage.sqlite.file_search import FileCandidates
from waiting import PATIENCE, eventually


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


@pytest.fixture
def steps(folder: Path, index: IndexFile, engine: CountingEngine) -> Steps:
    return Steps(folder, index, EmbeddingModel(lambda: engine))


def chunks(index: IndexFile) -> list[tuple[str, str, int | None]]:
    """Return path, text and number of vectors of all chunks."""
    with index.current().read() as connection:
        rows = connection.execute("select path, text, passages from chunks order by path, id")
        return [(str(path), str(text), passages) for path, text, passages in rows.fetchall()]


def vector_count(index: IndexFile) -> int:
    with index.current().read() as connection:
        return int(connection.execute("select count(*) from chunks_vec").get)


def candidates(index: IndexFile, connection: apsw.Connection, *, daily: bool | None = None) -> FileCandidates:
    return FileCandidates(connection, contents_of(index.current(), connection), daily=daily)


def test_a_changed_file_has_its_new_chunks_and_no_old_ones(folder: Path, index: IndexFile, steps: Steps) -> None:
    (folder / "a.md").write_text("Old words.")
    steps.all()
    (folder / "a.md").write_text("New words.")
    steps.all()
    assert chunks(index) == [("a.md", "New words.", 1)]
    assert vector_count(index) == 1


def test_a_change_that_keeps_size_and_time_is_noticed_soon_after_it(
    folder: Path, index: IndexFile, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that ticks slowly can give two states of a file the same time."""
    monkeypatch.setattr(indexer, "SETTLED_SECONDS", 3600)
    (folder / "a.md").write_text("Old.")
    times = (folder / "a.md").stat()
    steps.words()
    (folder / "a.md").write_text("New.")
    os.utime(folder / "a.md", ns=(times.st_atime_ns, times.st_mtime_ns))
    steps.words()
    assert [text for _, text, _ in chunks(index)] == ["New."]


def test_a_touched_file_is_not_cut_or_embedded_again(
    folder: Path, index: IndexFile, steps: Steps, engine: CountingEngine
) -> None:
    (folder / "a.md").write_text("Words.")
    steps.all()
    before = chunks(index)
    (folder / "a.md").touch()
    steps.all()
    assert chunks(index) == before
    assert len(engine.embedded) == 1


def test_an_unchanged_file_is_not_read(folder: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:

    (folder / "a.md").write_text("Words.")
    os.utime(folder / "a.md", (1_000_000_000, 1_000_000_000))
    steps.words()
    monkeypatch.setattr("vector_memory.files.folder.MemoryFolder.read", None)
    steps.words()


def test_a_renamed_file_keeps_its_vectors(folder: Path, index: IndexFile, steps: Steps, engine: CountingEngine) -> None:
    (folder / "a.md").write_text("Words of a note.")
    steps.all()
    (folder / "a.md").rename(folder / "2026-02-13.md")
    steps.words()
    assert chunks(index) == [("2026-02-13.md", "Words of a note.", 1)]
    assert len(engine.embedded) == 1
    with index.current().read() as connection:
        query = engine.embed(["Words of a note."])[0]
        assert candidates(index, connection, daily=False).nearest(query, 5).matches == []
        assert candidates(index, connection, daily=True).nearest(query, 5).matches[0].score == pytest.approx(1.0)


def test_only_the_chunks_that_changed_are_embedded_again(folder: Path, steps: Steps, engine: CountingEngine) -> None:
    paragraphs = [" ".join(f"p{number}w{word}" for word in range(190)) + "." for number in range(12)]
    (folder / "a.md").write_text("\n\n".join(paragraphs))
    steps.all()
    before = len(engine.embedded)
    (folder / "a.md").write_text("\n\n".join([*paragraphs, "One more paragraph."]))
    steps.all()
    assert 1 <= len(engine.embedded) - before < before / 2


def test_a_deleted_file_leaves_no_byte_in_the_index(folder: Path, index: IndexFile, steps: Steps) -> None:
    (folder / "a.md").write_text("The zyzzyva is secret: quokka_77.")
    (folder / "b.md").write_text("This stays.")
    steps.all()
    assert any(b"zyzzyva" in file.read_bytes() for file in index.path.parent.iterdir())
    (folder / "a.md").unlink()
    steps.all()
    assert [path for path, _, _ in chunks(index)] == ["b.md"]
    assert vector_count(index) == 1
    for file in index.path.parent.iterdir():
        for word in (b"zyzzyva", b"quokka"):
            assert word not in file.read_bytes(), file.name


def test_two_processes_index_each_file_once(folder: Path, index: IndexFile, index_file: Path) -> None:
    """Two indexers with files of their own open, as two servers have."""
    for number in range(12):
        (folder / f"{number}.md").write_text(f"Words of note {number}.")
    engines = [CountingEngine(), CountingEngine()]
    other = IndexFile(index_file, 384)
    work = [
        threading.Thread(target=Steps(folder, each, EmbeddingModel(lambda engine=engine: engine)).all)
        for each, engine in zip((index, other), engines, strict=True)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(engines[0].embedded) + len(engines[1].embedded) == 12
    assert len(chunks(index)) == 12
    other.close()


def test_words_are_indexed_without_a_model_and_vectors_when_there_is_one(
    folder: Path, index: IndexFile, steps: Steps
) -> None:
    def fail() -> ToyEngine:
        raise EmbeddingUnavailableError("There is none.")

    (folder / "a.md").write_text("Words.")
    without = Steps(folder, index, EmbeddingModel(fail))
    without.words()
    with pytest.raises(EmbeddingUnavailableError):
        without.vectors()
    assert chunks(index) == [("a.md", "Words.", None)]
    steps.all()
    assert chunks(index) == [("a.md", "Words.", 1)]


def test_a_chunk_that_cannot_be_embedded_does_not_stop_others_and_is_tried_again(
    folder: Path, index: IndexFile, steps: Steps, engine: CountingEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.poison = "quokka"
    for number in range(20):
        (folder / f"{number:02}.md").write_text("The quokka." if number == 3 else f"Note {number}.")
    steps.words()
    assert not steps.vectors()
    assert [path for path, _, passages in chunks(index) if passages is None] == ["03.md"]
    assert "RuntimeError" in caplog.text
    assert "quokka" not in caplog.text
    engine.poison = "\0"
    assert steps.vectors()
    assert all(passages for _, _, passages in chunks(index))


def test_an_embedding_that_takes_too_long_is_postponed(
    folder: Path, index: IndexFile, engine: CountingEngine, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "a.md").write_text("Words.")
    engine.gate.clear()
    steps = Steps(folder, index, EmbeddingModel(lambda: engine), seconds_to_embed=0.05)
    steps.words()
    assert not steps.vectors()
    assert "TimeoutError" in caplog.text
    engine.gate.set()
    eventually(steps.vectors)  # the first attempt ends in a thread of its own, and until then no other begins


def test_vectors_of_another_model_are_recomputed(folder: Path, index: IndexFile, steps: Steps) -> None:
    (folder / "a.md").write_text("Words.")
    steps.all()
    smaller = ToyEngine(16)
    (folder / "b.md").write_text("More words.")
    Steps(folder, index, EmbeddingModel(lambda: smaller)).all()
    with index.current().read() as connection:
        assert file_rows.fingerprint_of(connection) == smaller.fingerprint
        assert len(candidates(index, connection).nearest(smaller.embed(["Words."])[0], 5).matches) == 2


def test_words_are_searched_when_sqlite_vec_cannot_be_loaded(
    folder: Path, index_file: Path, engine: CountingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = EmbeddingModel(lambda: engine)
    (folder / "a.md").write_text("Old words.")
    (folder / "b.md").write_text("Other words.")
    with_vectors = IndexFile(index_file, 384)
    Steps(folder, with_vectors, model).all()
    with_vectors.close()

    with monkeypatch.context() as without_extension:
        without_extension.setattr(vec0, "vector_search_library", lambda: str(folder / "none"))
        without = IndexFile(index_file, 384)
        (folder / "a.md").write_text("New words.")
        steps = Steps(folder, without, model)
        steps.words()
        assert not steps.vectors()
        assert not without.current().vectors_usable
        with without.current().read() as connection:
            assert len(candidates(without, connection).rank_words(["new"]).best(5).matches) == 1
        without.close()

    again = IndexFile(index_file, 384)
    assert vector_count(again) == 1, "what was deleted meanwhile is gone"
    Steps(folder, again, model).all()
    assert [(path, passages) for path, _, passages in chunks(again)] == [("a.md", 1), ("b.md", 1)]
    assert vector_count(again) == 2
    again.close()


def test_an_index_of_a_newer_release_is_not_changed(folder: Path, index_file: Path, engine: CountingEngine) -> None:
    """Two releases on one folder would delete each other's index for ever."""
    (folder / "a.md").write_text("Words.")
    index = IndexFile(index_file, 384)
    Steps(folder, index, EmbeddingModel(lambda: engine)).all()
    with index.current().write() as connection:
        connection.pragma("user_version", 99)
    index.close()
    before = index_file.read_bytes()
    with pytest.raises(DatabaseError, match="newer release"):
        IndexFile(index_file, 384).current()
    assert index_file.read_bytes() == before


@pytest.mark.parametrize("damage", ["header", "middle", "nonsense", "older tables"])
def test_a_damaged_index_is_rebuilt(
    folder: Path, index_file: Path, engine: CountingEngine, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "a.md").write_text("Words.")
    model = EmbeddingModel(lambda: engine)
    first = IndexFile(index_file, 384)
    Steps(folder, first, model).all()
    if damage == "older tables":
        with first.current().write() as connection:
            connection.pragma("user_version", -1)
    first.close()
    data = bytearray(index_file.read_bytes())
    if damage == "header":
        data[:16] = b"x" * 16
    elif damage == "middle":
        data[4096:] = b"\xff" * (len(data) - 4096)
    elif damage == "nonsense":
        data = bytearray(b"nonsense" * 1000)
    index_file.write_bytes(data)
    second = IndexFile(index_file, 384)
    Steps(folder, second, model).all()
    assert chunks(second) == [("a.md", "Words.", 1)]
    assert "rebuilding it" in caplog.text
    second.close()


def test_an_index_that_another_process_rebuilt_is_used_from_then_on(
    folder: Path, index: IndexFile, index_file: Path, steps: Steps
) -> None:
    (folder / "a.md").write_text("Words.")
    steps.all()
    file_index.remove_index(index_file)
    other = IndexFile(index_file, 384)
    steps.all()
    assert chunks(other) == chunks(index) == [("a.md", "Words.", 1)]
    other.close()


def test_a_database_of_another_program_is_not_changed(index_file: Path) -> None:

    index_file.parent.mkdir()
    other = sqlite3.connect(index_file)
    other.execute("create table precious (text)")
    other.close()
    before = index_file.read_bytes()
    with pytest.raises(DatabaseError, match="another program"):
        IndexFile(index_file, 384).current()
    assert index_file.read_bytes() == before


def test_a_link_with_the_name_of_the_index_is_not_followed(tmp_path: Path, index_file: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("no database")
    index_file.parent.mkdir()
    index_file.symlink_to(precious)
    with pytest.raises(DatabaseError, match="link"):
        IndexFile(index_file, 384).current()
    assert precious.read_text() == "no database"


def test_every_passage_of_a_chunk_is_found(
    folder: Path, index: IndexFile, steps: Steps, engine: CountingEngine
) -> None:
    """A chunk has more pieces than the model reads at once: its end has a vector too."""
    (folder / "a.md").write_text(" ".join(f"filler{number}" for number in range(150)) + " quokka.")
    steps.all()
    ((_, text, passages),) = chunks(index)
    assert passages is not None
    assert passages > 1
    with index.current().read() as connection:
        query = engine.embed(["quokka filler149 filler148"])[0]
        cosine = candidates(index, connection).nearest(query, 5).matches[0].score
        whole = float(np.dot(query, engine.embed([text])[0]))
    assert cosine > whole


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
    assert isinstance(index.current(), FileIndex)
    assert index.path.stat().st_mode & 0o777 == 0o600
    assert index.path.parent.stat().st_mode & 0o777 == 0o700


def test_words_are_indexed_while_another_process_computes_vectors(
    folder: Path, index_file: Path, steps: Steps, engine: CountingEngine
) -> None:
    (folder / "a.md").write_text("Words.")
    steps.words()
    engine.gate.clear()
    at_work = threading.Thread(target=steps.vectors)
    at_work.start()
    other = IndexFile(index_file, 384)
    (folder / "b.md").write_text("More words.")
    Steps(folder, other, EmbeddingModel(ToyEngine)).words()
    assert at_work.is_alive()
    assert [path for path, _, _ in chunks(other)] == ["a.md", "b.md"]
    engine.gate.set()
    at_work.join()
    other.close()
