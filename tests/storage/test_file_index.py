"""The index of a folder of files: what is nearest and what has the words."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lattice import DIMENSIONS, LatticeEmbedder
from vector_memory.domain import Fingerprint
from vector_memory.errors import DatabaseError
from vector_memory.search.fusion import SearchHits, fused_score
from vector_memory.search.question import Question
from vector_memory.search.retrieval import best_units
from vector_memory.storage.sqlite import file_contents, file_rows
from vector_memory.storage.sqlite.file_contents import contents_of
from vector_memory.storage.sqlite.file_index import FileIndex, is_worthless
from vector_memory.storage.sqlite.file_rows import FileState, NewChunk
from vector_memory.storage.sqlite.file_search import FileCandidates, chunks_with
from vector_memory.storage.sqlite.vec0.blocks import all_vectors
from vector_memory.storage.terms import query_terms, terms

TOY = Fingerprint("lattice", DIMENSIONS, "exact", "test")
ANOTHER = Fingerprint("another", DIMENSIONS, "exact", "test")
EMBEDDER = LatticeEmbedder()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[FileIndex]:
    index = FileIndex(tmp_path / "index.sqlite", dimensions=DIMENSIONS)
    yield index
    index.close()


def put(index: FileIndex, path: str, texts: Sequence[str], *, daily: bool = False) -> None:
    """Index a file with these chunks, each with a vector for each half of its words."""
    state = FileState(path, "hash", 1, 1)
    with index.write() as connection:
        file_rows.adopt_fingerprint(connection, TOY)
        chunks = [NewChunk(text, 1, 1, text, Counter(terms(text))) for text in texts]
        file_rows.replace_file(connection, state, chunks, daily=daily, vectors=True)
        for chunk in file_rows.next_unembedded(connection, 5_000):
            words = chunk.text.split()
            halves = [" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])]
            file_rows.add_vectors(connection, chunk.id, EMBEDDER.embed(halves))


def paths(index: FileIndex, ids: Sequence[int]) -> list[str]:
    with index.read() as connection:
        return [chunk.path for chunk in chunks_with(connection, ids)]


def word_scores(index: FileIndex, query: str, daily: bool | None = None) -> dict[str, float]:
    with index.read() as connection:
        ranked = candidates(index, connection, daily).rank_words(query_terms(query)).best(100)
    scores = {match.id: match.score for match in ranked.matches}
    return dict(zip(paths(index, list(scores)), scores.values(), strict=True))


def candidates(index: FileIndex, connection: apsw.Connection, daily: bool | None) -> FileCandidates:
    return FileCandidates(connection, contents_of(index, connection), daily=daily)


def test_a_chunk_with_more_of_the_words_has_the_higher_score(index: FileIndex) -> None:
    """Seed 002's `1 / (1 + abs(rank))` would put them the other way around."""
    put(index, "both.md", ["quokka wombat leaves here"])
    put(index, "one.md", ["quokka under leaves here"])
    for number in range(10):
        put(index, f"{number}.md", ["something else entirely written"])
    scores = word_scores(index, "quokka wombat")
    assert 0 < scores["one.md"] < scores["both.md"] <= 1
    assert set(scores) == {"one.md", "both.md"}


def test_words_that_no_chunk_has_lower_the_score(index: FileIndex) -> None:
    put(index, "a.md", ["quokka leaves"])
    put(index, "b.md", ["something else"])
    put(index, "c.md", ["other things"])
    assert word_scores(index, "quokka zyzzyva")["a.md"] < word_scores(index, "quokka")["a.md"]


def test_identifiers_and_scripts_without_spaces_are_found(index: FileIndex) -> None:
    put(index, "a.md", ["call store_report of api/v1.2 with getUserById"])
    put(index, "b.md", ["部署到生产环境"])
    put(index, "c.md", ["unrelated words"])
    for query, path in [("store_report", "a.md"), ("getUserById", "a.md"), ("api/v1.2", "a.md"), ("生产", "b.md")]:
        assert list(word_scores(index, query)) == [path]


@pytest.mark.parametrize(
    "query", ['"', "a OR b", "NEAR(x y)", "col: x", "quokka*", "^quokka", "-", "()", "%", "\0", "ิ"]
)
def test_a_query_has_no_syntax(index: FileIndex, query: str) -> None:
    put(index, "a.md", ["quokka words"])
    assert set(word_scores(index, query)) <= {"a.md"}


def test_deleted_files_are_in_no_table(index: FileIndex) -> None:
    put(index, "a.md", ["quokka words", "more words"])
    put(index, "b.md", ["other words"])
    with index.write() as connection:
        file_rows.delete_file(connection, "a.md", vectors=True)
    with index.read() as connection:
        for table, left in [("files", 1), ("chunks", 1), ("chunks_vec", 2)]:
            assert connection.execute(f"select count(*) from {table}").get == left, table
    assert word_scores(index, "quokka") == {}


def test_vectors_of_a_deleted_chunk_are_dropped(index: FileIndex) -> None:
    with index.write() as connection:
        file_rows.adopt_fingerprint(connection, TOY)
        file_rows.add_vectors(connection, 7, EMBEDDER.embed(["text"]))
    with index.read() as connection:
        assert connection.execute("select count(*) from chunks_vec").get == 0


TEXTS = st.lists(st.text("abcdef ", min_size=3, max_size=12).filter(lambda text: len(text.split()) > 1), max_size=12)


@settings(max_examples=30)
@given(TEXTS, TEXTS, st.sampled_from([None, True, False]), st.integers(1, 12))
def test_results_are_those_of_a_scan_with_the_scores_of_the_other_searches(
    tmp_path_factory: pytest.TempPathFactory, notes: list[str], logs: list[str], daily: bool | None, count: int
) -> None:
    index = FileIndex(tmp_path_factory.mktemp("index") / "index.sqlite", dimensions=DIMENSIONS)
    put(index, "notes.md", notes)
    put(index, "2026-02-13.md", logs, daily=True)
    query = EMBEDDER.embed(["query"])[0]
    with index.read() as connection:
        rows = connection.execute("select c.id, v.embedding from chunks_vec v join chunks c on c.id = v.id / 1024 "
                                  "where ? is null or c.daily = ?", (daily, daily)).fetchall()  # fmt: skip
        nearest: dict[int, float] = {}
        for chunk, vector in rows:
            cosine = round(float(np.dot(query, np.frombuffer(vector, np.float32))), 6)
            nearest[int(chunk)] = max(cosine, nearest.get(int(chunk), -math.inf))
        source = candidates(index, connection, daily)
        words = {match.id: match.score for match in source.rank_words(["ab", "c"]).best(100).matches}
        found = best_units(source, Question(query, ["ab", "c"]), count).hits
    scores = {chunk: fused_score(nearest.get(chunk, 0.0), words.get(chunk, 0.0)) for chunk in {*nearest, *words}}
    expected = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:count]
    assert [hit.score for hit in found] == pytest.approx([score for _, score in expected])
    assert all(hit.score == pytest.approx(scores[hit.id]) for hit in found)
    index.close()


def test_of_equal_chunks_the_first_are_found(index: FileIndex) -> None:
    put(index, "a.md", ["same words"] * 2_100)
    found = found_in(index, "same")
    assert [hit.id for hit in found.hits] == [1, 2, 3]
    assert not found.partial


def found_in(index: FileIndex, query: str) -> SearchHits:
    """Return the three best chunks."""
    with index.read() as connection:
        return found_by(connection, index, query)


def found_by(connection: apsw.Connection, index: FileIndex, query: str) -> SearchHits:
    """Return the three best chunks of a snapshot."""
    question = Question(EMBEDDER.embed([query])[0], query_terms(query))
    return best_units(candidates(index, connection, None), question, 3)


@pytest.fixture
def other(index: FileIndex) -> Iterator[FileIndex]:
    """Open the same file again, as another process does."""
    other = FileIndex(index.path, dimensions=DIMENSIONS)
    yield other
    other.close()


def add(index: FileIndex) -> None:
    put(index, "c.md", ["quokka words", "quokka leaves"])


def replace(index: FileIndex) -> None:
    put(index, "a.md", ["quokka leaves", "words here"])


def delete(index: FileIndex) -> None:
    with index.write() as connection:
        file_rows.delete_file(connection, "a.md", vectors=True)


def forget_vectors(index: FileIndex) -> None:
    with index.write() as connection:
        file_rows.adopt_fingerprint(connection, ANOTHER)


def compute_vectors(index: FileIndex) -> None:
    with index.write() as connection:
        file_rows.add_vectors(connection, 3, EMBEDDER.embed(["quokka"]))


@pytest.mark.parametrize("change", [add, replace, delete, forget_vectors, compute_vectors])
def test_a_search_finds_what_another_process_has_changed_since_the_last_one(
    index: FileIndex, other: FileIndex, change: Callable[[FileIndex], None]
) -> None:
    put(index, "a.md", ["quokka here", "other words"])
    with index.write() as connection:
        chunk = NewChunk("unlike", 1, 1, "unlike", Counter(terms("unlike")))
        file_rows.replace_file(connection, FileState("b.md", "hash", 1, 1), [chunk], daily=True, vectors=True)
    before = found_in(index, "quokka words")
    change(other)
    fresh = FileIndex(index.path, dimensions=DIMENSIONS)
    assert found_in(index, "quokka words") == found_in(fresh, "quokka words") != before
    fresh.close()


def test_vectors_of_a_model_that_was_replaced_and_came_back_are_read_again(index: FileIndex, other: FileIndex) -> None:
    put(index, "a.md", ["quokka here", "other words"])
    found_in(index, "quokka")
    with other.write() as connection:
        for model in (ANOTHER, TOY):
            file_rows.adopt_fingerprint(connection, model)
        for chunk in (1, 2):
            file_rows.add_vectors(connection, chunk, EMBEDDER.embed(["quokka"]))
    assert [hit.similarity for hit in found_in(index, "quokka").hits] == [1.0, 1.0]


def test_an_index_that_nobody_changes_is_read_once(index: FileIndex, other: FileIndex) -> None:
    put(index, "a.md", ["quokka here", "other words"])
    with index.read() as connection:
        contents = contents_of(index, connection)
    found_in(index, "quokka")
    found_in(other, "quokka")
    assert index.contents is contents


def test_a_snapshot_is_searched_as_it_is_after_others_have_changed_the_index(
    index: FileIndex, other: FileIndex
) -> None:
    put(index, "a.md", ["quokka here", "other words"])
    with index.read() as connection:
        before = found_by(connection, index, "quokka")
        replace(other)
        assert found_in(index, "quokka") != before
        assert found_by(connection, index, "quokka") == before


def test_an_index_that_is_too_large_to_keep_is_searched_with_the_same_results(
    index: FileIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(index, "a.md", [f"quokka {'here ' * number} number {number}" for number in range(9)])
    kept = found_in(index, "quokka here 7")
    index.contents = None
    monkeypatch.setattr(file_contents, "KEPT_BYTES", 0)
    monkeypatch.setattr(file_contents, "CHUNKS_AT_ONCE", 4)
    reads: list[str] = []
    monkeypatch.setattr(file_contents, "all_vectors", lambda *args: reads.append("") or all_vectors(*args))
    assert found_in(index, "quokka here 7") == found_in(index, "quokka here 7") == kept
    assert len(reads) == 2, "the vectors were kept"


def test_vectors_that_a_process_without_sqlite_vec_left_are_not_found(index: FileIndex) -> None:
    put(index, "a.md", ["quokka here", "other words"])
    put(index, "b.md", ["more words"])
    with index.write() as connection:
        file_rows.delete_file(connection, "a.md", vectors=False)
        assert connection.execute("select count(*) from chunks_vec").get == 6
    (hit,) = found_in(index, "quokka").hits
    assert paths(index, [hit.id]) == ["b.md"]
    assert hit.similarity == pytest.approx(max(EMBEDDER.embed(["more", "words"]) @ EMBEDDER.embed(["quokka"])[0]))


def test_a_term_that_occurs_very_often_is_not_taken_for_another(index: FileIndex) -> None:
    put(index, "a.md", ["quokka " * 3_000, "quokka " * 1_000, "other words"])
    assert len(word_scores(index, "quokka")) == 1
    with index.read() as connection:
        counts = contents_of(index, connection).occurrences(connection, query_terms("quokka"))[0][1]
    assert counts.tolist() == [1_023, 1_000]


@pytest.mark.parametrize(
    "damage",
    [
        "delete from chunks_vec where id < 2048",
        "update chunks_vec_vector_chunks00 set vectors = x'00'",
        "update chunks_vec_chunks set validity = x''",
        "update chunks set terms = x'00'",
        "update chunks set terms = 'text'",
    ],
)
def test_a_search_of_a_damaged_index_says_that_it_must_be_rebuilt(index: FileIndex, damage: str) -> None:
    put(index, "a.md", ["quokka here", "other words"])
    with index.write() as connection:
        connection.execute(damage)
    with pytest.raises(DatabaseError) as caught:
        found_in(index, "quokka")
    assert is_worthless(caught.value)
