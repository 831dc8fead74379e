"""The keyword index in memory: its scores equal those of the tables, and deleted words are not kept."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings

from faults.effort import effort
from inside import database_of, index_of, indexer_of, rank, rebuild_words, retriever_of
from other_process import OtherProcess
from search.test_exact import fill, load_index, open_store
from search.test_hybrid import fused_by_force
from search.two_processes import STEPS, Step, take
from vector_memory.domain import TRAITS, Page, Scope
from vector_memory.errors import VectorMemoryError
from vector_memory.search.index import bm25 as word_scores
from vector_memory.search.index import lists, sketch
from vector_memory.search.index import loader as passage_index
from vector_memory.storage.postings import key_of
from vector_memory.storage.sqlite.feed import SqliteFeed
from vector_memory.storage.sqlite.transactions import SqliteConnection, SqliteReader
from vector_memory.storage.terms import query_terms
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report")


@pytest.fixture(params=[0, 10**6], ids=["blocks of the scope", "lists of the whole file"])
def wide(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """From which share of the blocks on whole lists of postings are read and kept. The sketch follows every memory."""
    monkeypatch.setattr(word_scores, "WIDE_SCOPE", request.param)
    monkeypatch.setattr(sketch, "MIN_LAG", 0)
    monkeypatch.setattr(sketch, "LAG_SHARE", 10**9)
    return int(request.param)


@pytest.fixture
def store(tmp_path: Path, wide: int) -> Iterator[SessionMemoryStore]:
    """A file with some memories, opened by a process that answers from memory."""
    assert wide >= 0
    with open_store(tmp_path / "memory.db") as opened:
        fill(opened, random.Random(3), 60)
        load_index(opened)
        yield opened


def require_exact(store: SessionMemoryStore, query: str, scope: Scope) -> None:
    """Compare the scores from memory with those from the tables, and a hybrid search with a brute-force scan."""
    terms = query_terms(query)
    with database_of(store).read() as connection:
        view = index_of(store).view(SqliteFeed(SqliteConnection(connection)))
        words = word_scores.word_scores(view.feed, view.units, view.members(scope), terms)
        ids, memory_ids = view.units.ids_of(words.entries)
        found = dict(zip(zip(memory_ids.tolist(), ids.tolist(), strict=True), words.of(words.entries), strict=True))
        best = rank(connection, scope, terms).best(10**6).matches
    assert found == {(match.memory_id, match.id): match.score for match in best}
    expected = [unit for unit, _ in fused_by_force(store, query, scope)][:100]
    if TRAITS[scope.kind].chunked:  # type: ignore[index]
        assert [chunk.chunk_id for chunk in store.search_chunks(query, scope, Page(limit=100)).results] == expected
    else:
        assert [memory.id for memory in store.search_memories(query, scope, Page(limit=100)).results] == expected


@settings(max_examples=effort(quick=20, long=400))
@given(steps=STEPS)
def test_two_processes_that_store_delete_and_rebuild_find_what_the_tables_say(
    steps: list[Step], wide: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert wide >= 0
    take(steps, tmp_path_factory.mktemp("steps") / "memory.db", require_exact)


def test_keywords_that_another_process_rebuilds_are_read_again(store: SessionMemoryStore, tmp_path: Path) -> None:
    require_exact(store, "a b", REPORTS)
    with open_store(tmp_path / "memory.db") as other:
        for memory_id in range(1, 40):
            other.delete_memory(memory_id)
        require_exact(store, "a b", REPORTS)
        with database_of(other).write() as connection:
            rebuild_words(connection)
    assert store.search_chunks("a b", REPORTS, Page(limit=5)).results
    index_of(store).wait_for_loading()
    require_exact(store, "a b c", REPORTS)


def test_words_acknowledged_to_another_process_are_found_at_once(store: SessionMemoryStore, tmp_path: Path) -> None:
    other = OtherProcess(tmp_path / "memory.db")
    try:
        for number in range(4):
            store.search_chunks("a unheardof", REPORTS, Page(limit=5))
            receipt = other.call("store_memory", "report", f"a {number} unheardof", session_id="s1")
            found = store.search_chunks("unheardof", REPORTS, Page(limit=9), mode="keyword").results
            assert receipt["memory_id"] in {chunk.memory_id for chunk in found}
            assert len(found) == number + 1
            require_exact(store, "a unheardof", REPORTS)
    finally:
        other.close()


def test_the_postings_of_deleted_memories_are_not_kept(store: SessionMemoryStore, tmp_path: Path, wide: int) -> None:
    with open_store(tmp_path / "memory.db") as other:
        receipt = other.store_memory("report", "a unheardof", session_id="s1")
        store.search_chunks("unheardof", REPORTS, Page(limit=5))
        term = "unheardof"
        passages = index_of(store)._passages
        assert (passages.units.postings.get(key_of(term)) is not None) is bool(wide)
        other.delete_memory(receipt.memory_id)
    assert store.search_chunks("b", REPORTS, Page(limit=5)).results
    passages = index_of(store)._passages
    assert passages.units.postings.get(key_of(term)) is None
    assert store.search_chunks("unheardof", REPORTS, Page(limit=5), mode="keyword").results == []


def test_the_least_recently_used_lists_are_evicted(store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "MAX_POSTINGS_BYTES", 2_500)
    passages = index_of(store)._passages
    postings = passages.units.postings
    postings.keep(0, lists.NO_POSTINGS)  # which evicts what was cached while the index was loaded
    for query in ("a b c", "d e", "a f g", "b c d"):
        require_exact(store, query, REPORTS)
        assert postings._size <= lists.MAX_POSTINGS_BYTES


def test_a_search_sees_the_words_of_the_state_in_which_its_transaction_began(
    store: SessionMemoryStore, tmp_path: Path
) -> None:
    retriever = retriever_of(store)
    question = retriever.prepare("a unheardof", None)
    with database_of(store).read() as connection:
        reader = SqliteReader(connection)
        before = retriever.within(reader, question).find(REPORTS, 100).hits
        with open_store(tmp_path / "memory.db") as other:
            for _ in range(2):
                other.store_memory("report", f"a unheardof {random.random()}", session_id="s1")
                store.search_chunks("a unheardof", REPORTS, Page(limit=100))
                assert retriever.within(reader, question).find(REPORTS, 100).hits == before
            other.delete_memory(before[0].memory_id)
        store.search_chunks("a unheardof", REPORTS, Page(limit=100))
        found = retriever.within(reader, question).find(REPORTS, 100).hits
    assert [hit[:4] for hit in found] == [hit[:4] for hit in before]


def test_a_memory_that_has_no_vectors_yet_is_found_by_its_words_among_those_that_have(
    store: SessionMemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "memory.db") as other:
        monkeypatch.setattr(indexer_of(other), "embed", lambda *_: None)
        receipt = other.store_memory("report", "unheardof words", session_id="s1")
    for limit in (20, 100):
        found = store.search_chunks("unheardof words", REPORTS, Page(limit=limit)).results
        assert (receipt.memory_id, None) in {(chunk.memory_id, chunk.similarity) for chunk in found}


def test_after_a_failure_the_tables_answer_and_the_file_is_read_again_later(
    store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise VectorMemoryError("no")

    store.store_memory("report", "a unheardof", session_id="s1")
    with monkeypatch.context() as patch:
        patch.setattr(passage_index, "updated_units", fail)
        for _ in range(3):
            assert len(store.search_chunks("unheardof", REPORTS, Page(limit=5), mode="keyword").results) == 1
    assert caplog.text.count("was not loaded") == 1
    monkeypatch.setattr(passage_index, "RETRY_SECONDS", 0)
    require_exact(store, "a unheardof", REPORTS)


def test_forty_threads_that_store_search_and_delete_find_the_stored_memories(store: SessionMemoryStore) -> None:
    names = [f"thread{number}word" for number in range(40)]
    start = threading.Barrier(len(names))

    def work(name: str) -> None:
        start.wait()
        for round_ in range(3):
            scope = Scope("report", session_id=name if round_ else None)
            text = f"a b {name} {round_}"
            receipt = store.store_memory("report", text, session_id=name)
            assert [chunk.memory_id for chunk in store.search_chunks(text, scope, Page(limit=1)).results] == [
                receipt.memory_id
            ]
            words = store.search_chunks(name, REPORTS, Page(limit=5), mode="keyword").results
            assert [chunk.memory_id for chunk in words] == [receipt.memory_id]
            store.delete_memory(receipt.memory_id)
            assert store.search_chunks(name, REPORTS, Page(limit=5), mode="keyword").results == []

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(work, names))
    for scope in (REPORTS, Scope("report", session_id="s1"), Scope("system_memory")):
        require_exact(store, "a b thread1word", scope)
