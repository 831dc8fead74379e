"""However many units are equally good, a search compares a bounded number, and the first ones come first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inside import compare_likeliest, storage_of
from lattice import DIMENSIONS, LatticeEmbedder
from search.by_force import hits_of
from search.test_exact import open_store
from vector_memory.domain import Chunk, MemoryKind, NewMemory, Page, Scope
from vector_memory.embedding.embedder import Vectors
from vector_memory.search import rank
from vector_memory.search.rank import MIN_COMPARED
from vector_memory.settings import Settings
from vector_memory.storage.connection import Steps, read
from vector_memory.storage.postings import indexed
from vector_memory.storage.queries.candidates import Likely
from vector_memory.storage.records import Derived, Embedded, EmbeddedPassage, History
from vector_memory.storage.sqlite.candidates import SqliteCandidates
from vector_memory.storage.sqlite.vec0 import MAX_TIES
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report")
MANY = 9_000


def add_report(store: SessionMemoryStore, texts: list[str], embedder: LatticeEmbedder) -> None:
    """Store a report of chunks with these texts, as earlier releases cut it."""
    chunks = [
        Chunk(
            index=index, text=text, start=0, end=1, kind="text", token_count=1, headings=(), level=0,
            contains_code=False, contains_table=False, oversized=False,
        )
        for index, text in enumerate(texts)
    ]  # fmt: skip
    new = NewMemory(kind=MemoryKind.REPORT, agent_id="a", session_id="s", content="x")
    embedded = Embedded(
        passages=[EmbeddedPassage(index, 0, 1) for index in range(len(texts))],
        vectors=embedder.embed(texts),
        fingerprint=embedder.fingerprint,
    )
    derived = Derived(chunks=chunks, words=indexed(texts), embedded=embedded)
    with storage_of(store).write() as writer:
        writer.add_memory(new, derived, content_hash="", history=History("2026", "2026", "2026"))


def fill(store: SessionMemoryStore) -> None:
    """Store a report of thousands of equal chunks."""
    add_report(store, ["x"] * MANY, LatticeEmbedder())


@pytest.mark.parametrize("mode", ["vector", "hybrid", "keyword"])
def test_among_thousands_of_equal_units_a_bounded_number_is_compared_and_the_first_are_found(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, likeliest = list[int](), vars(SqliteCandidates)["likeliest"].steps

    @read
    def counted(source: SqliteCandidates, *args: Any) -> Steps[Likely]:
        found: Likely = yield from likeliest(source, *args)
        compared.append(len(found.vectors))
        return found

    monkeypatch.setattr(SqliteCandidates, "likeliest", counted)
    with open_store(tmp_path / "memory.db") as store:
        fill(store)
        found = store.search_chunks("x y", REPORTS, Page(limit=10), mode=mode)
    assert [chunk.chunk_id for chunk in found.results] == list(range(1, 11))
    assert "Not all" not in (found.message or "")
    assert mode == "keyword" or 0 < max(compared) <= MAX_TIES * MIN_COMPARED


@pytest.mark.usefixtures("way")
def test_pages_of_equal_units_have_no_gaps_and_no_repeats(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store:
        fill(store)
        for mode in ("vector", "hybrid", "keyword"):
            pages = [
                store.search_chunks("x y", REPORTS, Page(limit=90, offset=offset), mode=mode) for offset in (0, 90, 180)
            ]
            assert [chunk.chunk_id for page in pages for chunk in page.results] == list(range(1, 271))


class NearlyEqual(LatticeEmbedder):
    """Gives a text that ends in a digit a vector that is nearer the query `o` by less than anything is compared by."""

    def embed(self, texts: list[str]) -> Vectors:  # type: ignore[override]
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[0] = 1.0 if text == "o" else np.float32(0.6) + np.float32(1e-7) * int(text[-1])
            row[1] = np.sqrt(1 - row[0] ** 2)
        return vectors


@pytest.fixture
def nearly_equal(tmp_path: Path, settings: Settings) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=NearlyEqual()) as store:
        for number in range(1, 5):
            store.store_memory("report", f"text {number}", session_id="s")
        yield store


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_units_that_differ_only_by_rounding_are_sorted_by_id(nearly_equal: SessionMemoryStore, mode: str) -> None:
    chunks = nearly_equal.search_chunks("o", REPORTS, Page(limit=4), mode=mode).results
    assert [chunk.chunk_id for chunk in chunks] == [1, 2, 3, 4]
    assert {chunk.similarity for chunk in chunks} == {0.6}
    assert [hit.id for hit in hits_of(nearly_equal, "o", REPORTS, mode, 2)] == [1, 2]
    assert [s.memory_id for s in nearly_equal.search_sections("o", REPORTS, Page(limit=4), mode=mode).results] == [
        1,
        2,
        3,
        4,
    ]
    documents = nearly_equal.search_documents("o", REPORTS, Page(limit=4), order="relevance", mode=mode).results
    assert [document.id for document in documents] == [1, 2, 3, 4]


def test_a_search_that_gives_up_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here one document has more of the nearest chunks than are compared."""
    compare_likeliest(monkeypatch)
    monkeypatch.setattr(rank, "MAX_COMPARED", 150)
    with open_store(tmp_path / "memory.db") as store:
        fill(store)
        store.store_memory("report", "far away", session_id="s")
        chunks = store.search_chunks("x", REPORTS, Page(limit=100), mode="vector")
        documents = store.search_documents("x", REPORTS, Page(limit=2), order="relevance", mode="vector")
    assert (len(chunks.results), len(documents.results)) == (100, 1)
    assert "Not all" not in (chunks.message or "")
    assert "Not all of these reports were compared" in (documents.message or "")


@pytest.mark.usefixtures("way")
def test_the_last_digits_of_a_score_do_not_decide_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, exactly = Scope("working_memory", session_id="s"), rank.scores_for
    monkeypatch.setattr(rank, "scores_for", lambda *args: exactly(*args) * (1 + 1e-15 * np.arange(len(args[1]))))
    with open_store(tmp_path / "memory.db") as store:
        ids = [store.store_memory("working_memory", f"same words {n}", session_id="s").memory_id for n in range(20)]
        for mode in ("keyword", "hybrid"):
            found = store.search_memories("same", notes, Page(limit=20), mode=mode).results
            assert sorted(found, key=lambda hit: (-hit.score, hit.id)) == found
            assert mode == "hybrid" or [hit.id for hit in found] == ids
