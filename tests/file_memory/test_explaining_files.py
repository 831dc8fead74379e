"""A search of files explains on request how chunks were measured, and why a file was not found."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from vector_memory.answers.budget import BYTES_PER_TOKEN, size, value_size
from vector_memory.domain import SearchMode
from vector_memory.embedding import EmbeddingModel, Vectors
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import ValidationError
from vector_memory.files import FileMemory
from vector_memory.files.search import FileHits, FileSearch
from vector_memory.settings import Settings
from waiting import eventually

LIMIT = 600 * BYTES_PER_TOKEN

LINK = "It is not indexed: it is a link, not a regular file, or longer than 5,000,000 bytes."


@pytest.fixture
def memory(folder: Path, open_memory: Callable[..., FileMemory]) -> FileMemory:
    (folder / "MEMORY.md").write_text("# Animals\n\nThe quokka eats leaves.\n")
    (folder / "plants.md").write_text("# Plants\n\nLeaves of the eucalyptus.\n")
    (folder / "2026-02-13.md").write_text("## 09:30\n\nA quokka visited.\n")
    (folder / "empty.md").write_text("")
    (folder / "link.md").symlink_to(folder / "MEMORY.md")
    (folder / "broken.md").symlink_to(folder / "nowhere")
    for inner in ("deep/" * 45, "bell\a", "exports"):
        (folder / inner).mkdir(parents=True)
    (folder / ("deep/" * 45) / "link.md").symlink_to(folder / "MEMORY.md")
    (folder / "bell\a" / "notes.md").write_text("A quokka.")
    (folder / "exports" / "export.md").write_text("A quokka.")
    with closing(sqlite3.connect(folder / "database.md")) as database:
        database.execute("create table quokka (leaves)")
    memory = open_memory(not_indexed=[folder / "exports"])
    index(memory)
    return memory


def index(memory: FileMemory) -> None:
    memory.start_background_work()

    def is_indexed() -> bool:
        status = memory.status()
        return bool(status.files and not status.indexing and not status.chunks_without_vectors)

    eventually(is_indexed)


def trace(memory: FileMemory, query: str, **parameters: Any) -> dict[str, Any]:
    told = memory.search(query, **parameters).trace
    assert told is not None
    return told


def test_a_trace_lists_the_results_first_with_what_they_were_measured_by(memory: FileMemory) -> None:
    plain = memory.search("the quokka and its leaves", limit=2)
    assert plain.trace is None
    told = memory.search("the quokka and its leaves", limit=2, explain="all")
    assert told.results == plain.results
    candidates = told.trace["candidates"]
    assert [(one["path"], one["startLine"], one["score"]) for one in candidates[:2]] == [
        (hit.path, hit.start_line, hit.score) for hit in told.results
    ]
    assert told.trace["candidatesCompared"] == len(candidates) == 3
    assert [one["fate"] for one in candidates] == ["in this answer", "in this answer", "behind the limit"]
    best = candidates[0]
    assert (best["path"], best["has"], best["lacks"]) == ("memory/MEMORY.md", told.trace["queryWords"], [])
    assert told.trace["compared"] == "0.68 x cosine + 0.32 x words"
    assert best["score"] == pytest.approx(0.68 * best["cosine"] + 0.32 * best["words"], abs=0.002)


@pytest.mark.parametrize(
    ("path", "source", "why"),
    [
        ("plants.md", "daily", "It is outside the filters: source."),
        ("memory/2026-02-13.md", "memory", "It is outside the filters: source."),
        ("empty.md", "all", "It has no text."),
        ("nothing.md", "all", "There is no such file."),
        ("memory/nothing.md", "all", "There is no such file."),
        ("memory/broken.md", "all", LINK),
        (f"{'deep/' * 45}link.md", "all", LINK),
        ("bell\a/notes.md", "all", "It is not indexed: its name is not UTF-8 or not printable."),
        ("database.md", "all", "It is not indexed: it cannot be read."),
        ("exports/export.md", "all", "It is not indexed: it is in the folder of exported documents."),
        ("link.md", "all", LINK),
        ("memory/MEMORY.md", "all", "It is in this answer; if the answer does not show it, it did not fit."),
    ],
)
def test_a_trace_says_why_a_file_was_not_found(memory: FileMemory, path: str, source: str, why: str) -> None:
    told = trace(memory, "quokka leaves", source=source, explain=path)["file"]
    assert told["path"] == f"memory/{path.removeprefix('memory/')}"
    assert told["why"] == why
    assert told["found"] is (path == "memory/MEMORY.md")


def test_a_file_behind_the_limit_has_its_rank(memory: FileMemory) -> None:
    told = trace(memory, "quokka leaves", limit=1, explain="plants.md")
    [rank] = [one["rank"] for one in told["candidates"] if one["path"] == "memory/plants.md"]
    assert told["file"]["best"]["rank"] == rank > 1
    assert told["file"]["why"].startswith(f"It ranks {rank} with a score of {told['file']['best']['score']}, ")


def test_by_words_only_a_file_without_them_is_not_compared(memory: FileMemory) -> None:
    told = trace(memory, "#42", explain="plants.md")
    assert told["compared"] == "words only: the query is only a number, a code or an address"
    assert told["file"]["why"] == "It has none of the query's words, and meaning was not compared."


@pytest.mark.parametrize(
    "wrong", ["", "ALL", "../secret.md", "/etc/passwd", "notes.txt", "\udcff/a.md", f"{'a' * 5_000}/a.md"]
)
def test_what_is_no_file_of_the_folder_is_refused_by_the_name_of_the_parameter(memory: FileMemory, wrong: str) -> None:
    with pytest.raises(ValidationError, match='explain must be "all" or the path'):
        memory.search("quokka", explain=wrong)


@pytest.mark.parametrize(("more", "traced"), [("", True), (" ".join(map("w{}".format, range(200))), False)])
def test_a_trace_takes_at_most_half_of_an_answer(folder: Path, index_file: Path, more: str, *, traced: bool) -> None:
    for number in range(30):
        (folder / f"{number}.md").write_text(f"The quokka {number} eats leaves. {'Word ' * number}")
    settings, model = Settings(embedding_model="toy", max_response_tokens=600), EmbeddingModel(ToyEngine)
    with FileMemory(folder, settings, index_file=index_file, model=model) as memory:
        index(memory)
        answer = memory.search(f"quokka {more}", limit=20, explain="1.md")
    assert size(answer) <= LIMIT
    assert answer.results
    assert (answer.trace is not None) == traced
    assert answer.trace is None or value_size(answer.trace) <= LIMIT // 2
    assert ("The trace did not fit" in (answer.message or "")) != traced


def test_a_trace_and_the_results_are_of_the_same_state(
    memory: FileMemory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = FileSearch.find

    def find_and_change(*arguments: Any) -> FileHits:
        found = find(*arguments)
        (folder / "MEMORY.md").unlink(missing_ok=True)
        eventually(lambda: memory.status().files == 2)
        return found

    monkeypatch.setattr(FileSearch, "find", find_and_change)
    told = memory.search("quokka leaves", limit=1, explain="MEMORY.md")
    assert told.results[0].path == "memory/MEMORY.md"
    assert told.trace["file"]["found"]


def test_by_meaning_only_nothing_is_said_of_words(folder: Path, index_file: Path) -> None:
    class Failing(ToyEngine):
        def embed(self, texts: Sequence[str]) -> Vectors:
            if "The quokka eats leaves." in texts:
                raise RuntimeError
            return super().embed(texts)

    (folder / "a.md").write_text("The quokka eats leaves.")
    settings = Settings(embedding_model="toy", search_mode=SearchMode.VECTOR)
    with FileMemory(folder, settings, index_file=index_file, model=EmbeddingModel(Failing)) as memory:
        memory.start_background_work()
        eventually(lambda: memory.status().files == 1)
        told = trace(memory, "quokka", explain="a.md")["file"]
    assert told["why"] == "Its vectors are still missing: repeat the call in a moment."


def test_a_file_with_the_words_behind_all_that_is_ranked_is_not_said_to_lack_them(
    folder: Path, index_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("files.search", "search.explain"):
        monkeypatch.setattr(f"vector_memory.{module}.MAX_DEPTH", 1)
    (folder / "a.md").write_text("A quokka.")
    (folder / "b.md").write_text("A quokka and many other words.")
    settings = Settings(embedding_model="toy", search_mode=SearchMode.KEYWORD)
    with FileMemory(folder, settings, index_file=index_file, model=EmbeddingModel(ToyEngine)) as memory:
        index(memory)
        assert trace(memory, "quokka", explain="b.md")["file"]["why"] == "At least 1 others come before it."
