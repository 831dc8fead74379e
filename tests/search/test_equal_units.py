"""However many units are equally good, a search reads a bounded number, and all paths have the same order."""

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest

from inside import database_of
from lattice import DIMENSIONS, LatticeEmbedder
from search.test_exact import load_index, open_store
from vector_memory.domain import Chunk, MemoryKind, NewMemory, Page, Scope
from vector_memory.embedding.embedder import Vectors
from vector_memory.search.index import bm25
from vector_memory.search.index import loader as passage_index
from vector_memory.settings import Settings
from vector_memory.storage import knn, word_ranking
from vector_memory.storage.postings import indexed
from vector_memory.storage.records import Derived, Embedded, EmbeddedPassage, History
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.transactions import SqliteWriter
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report")
FEW, MANY = 4_500, 9_000
"""More than sqlite-vec's 4,096 nearest."""


class Rows:
    """Counts the rows that connections return."""

    def __init__(self) -> None:
        self.number = 0

    def count(self, _: apsw.Cursor, row: tuple[object, ...]) -> tuple[object, ...]:
        self.number += 1
        return row


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    counted, connect = Rows(), Database._connect

    def traced(database: Database) -> apsw.Connection:
        connection = connect(database)
        connection.row_trace = counted.count  # type: ignore[assignment]
        return connection

    monkeypatch.setattr(Database, "_connect", traced)
    monkeypatch.setattr(knn, "MAX_PASSAGES_SCANNED", knn.PASSAGES_PER_SCAN)
    return counted


def fill(store: SessionMemoryStore, count: int) -> None:
    """Add a report of this many equal chunks, as earlier releases cut it."""
    chunks = [
        Chunk(
            index=index, text="x", start=0, end=1, kind="text", token_count=1, headings=(), level=0,
            contains_code=False, contains_table=False, oversized=False,
        )
        for index in range(count)
    ]  # fmt: skip
    new = NewMemory(kind=MemoryKind.REPORT, agent_id="a", session_id="s", content="x")
    with database_of(store).write() as connection:
        embedded = Embedded(
            passages=[EmbeddedPassage(index, 0, 1) for index in range(count)],
            vectors=np.tile(LatticeEmbedder().embed(["x"]), (count, 1)),
            fingerprint=LatticeEmbedder.fingerprint,
        )
        derived = Derived(chunks=chunks, words=indexed(["x"] * count), embedded=embedded)
        SqliteWriter(connection).add_memory(new, derived, content_hash="", history=History("2026", "2026", "2026"))


WAYS = {"tables": None, "memory": 54_687, "signatures": 0}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """How many vectors may be cached in memory; None: the tables answer."""
    if request.param is not None:
        monkeypatch.setattr(passage_index, "MAX_CACHED_BYTES", request.param * DIMENSIONS * 4)
    return request.param  # type: ignore[no-any-return]


def test_a_search_among_twice_as_many_equal_units_reads_no_more_rows_and_finds_the_same(
    tmp_path: Path, rows: Rows, room: int | None
) -> None:
    with open_store(tmp_path / "memory.db") as store:
        work = []
        fill(store, FEW)
        for more in (MANY - FEW, 0):
            if room is not None:
                load_index(store)
            store.search_chunks("warm up", REPORTS, Page(limit=10))
            for mode in ("vector", "hybrid", "keyword"):
                rows.number = 0
                found = store.search_chunks("x y", REPORTS, Page(limit=10), mode=mode)
                work.append(rows.number)
                assert [chunk.chunk_id for chunk in found.results] == list(range(1, 11))
                assert "Not all" not in (found.message or "")
            if more:
                fill(store, more)
        assert max(work) < 20_000
        assert work[3:] == pytest.approx(work[:3], abs=10)


def test_pages_of_equal_units_have_no_gaps_and_no_repeats(tmp_path: Path, room: int | None) -> None:
    with open_store(tmp_path / "memory.db") as store:
        fill(store, FEW)
        if room is not None:
            load_index(store)
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


@pytest.fixture(params=[False, True], ids=["tables", "memory"])
def nearly_equal(request: pytest.FixtureRequest, tmp_path: Path, settings: Settings) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=NearlyEqual()) as store:
        for number in range(1, 5):
            store.store_memory("report", f"text {number}", session_id="s")
        if request.param:
            load_index(store)
        yield store


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_units_that_differ_only_by_rounding_are_sorted_by_id(nearly_equal: SessionMemoryStore, mode: str) -> None:
    chunks = nearly_equal.search_chunks("o", REPORTS, Page(limit=4), mode=mode).results
    assert [chunk.chunk_id for chunk in chunks] == [1, 2, 3, 4]
    assert {chunk.similarity for chunk in chunks} == {0.6}
    assert [s.memory_id for s in nearly_equal.search_sections("o", REPORTS, Page(limit=4), mode=mode).results] == [
        1,
        2,
        3,
        4,
    ]
    documents = nearly_equal.search_documents("o", REPORTS, Page(limit=4), order="relevance", mode=mode).results
    assert [document.id for document in documents] == [1, 2, 3, 4]


def test_a_search_that_gives_up_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "MAX_PASSAGES_SCANNED", 150)
    with open_store(tmp_path / "memory.db") as store:
        fill(store, FEW)
        whole = store.search_chunks("x", REPORTS, Page(limit=100), mode="vector")
        short = store.search_chunks("x", REPORTS, Page(limit=100, offset=100), mode="vector")
    assert "Not all" not in json.dumps(whole.message)
    assert "Not all of these reports were compared" in json.dumps(short.message)


@pytest.mark.parametrize("loaded", [False, True])
def test_the_last_digits_of_a_score_do_not_decide_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, loaded: bool
) -> None:
    notes = Scope("working_memory", session_id="s")
    for module in (word_ranking, bm25):
        exactly = module.scores_for
        monkeypatch.setattr(
            module, "scores_for", lambda *args, exactly=exactly: exactly(*args) * (1 + 1e-15 * np.arange(len(args[1])))
        )
    with open_store(tmp_path / "memory.db") as store:
        ids = [store.store_memory("working_memory", f"same words {n}", session_id="s").memory_id for n in range(20)]
        if loaded:
            load_index(store)
        for mode in ("keyword", "hybrid"):
            found = store.search_memories("same", notes, Page(limit=20), mode=mode).results
            assert sorted(found, key=lambda hit: (-hit.score, hit.id)) == found
            assert mode == "hybrid" or [hit.id for hit in found] == ids
