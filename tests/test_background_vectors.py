"""Vectors that are computed after the receipt."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engines import address_of, execute
from forked import finished
from inside import storage_of
from lattice import LatticeEmbedder
from other_process import SETTINGS
from vector_memory.domain import Page, Scope
from vector_memory.embedding.embedder import Vectors
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.search import judge, retrieval
from vector_memory.store import SessionMemoryStore
from vector_memory.writing import background
from waiting import eventually

REPORTS = Scope("report", session_id="s")
DOCUMENT = "# Title\n\n" + "\n\n".join(f"Paragraph {number} about lemurs. " * 8 for number in range(6))


class GatedEmbedder(LatticeEmbedder):
    """Computes vectors in the background only while its gate is open; `refuses` are texts that it fails on."""

    def __init__(self, *refuses: str) -> None:
        self.gate = threading.Event()
        self.refuses = refuses
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        if threading.current_thread().name == "vectors":
            assert self.gate.wait(60)
            self.embedded += texts
        if any(text in self.refuses for text in texts):
            raise ArithmeticError("not this one")
        return super().embed(texts)


@pytest.fixture
def embedder() -> Iterator[GatedEmbedder]:
    gated = GatedEmbedder("refused")
    yield gated
    gated.gate.set()


@pytest.fixture
def opened(tmp_path: Path, embedder: GatedEmbedder) -> Iterator[SessionMemoryStore]:
    with deferring(tmp_path / "deferring.db", embedder) as store:
        yield store


def deferring(path: Path | str, embedder: LatticeEmbedder) -> SessionMemoryStore:
    store = SessionMemoryStore(path, SETTINGS, embedder=embedder)
    store.defer_vectors()
    return store


def without_vectors(store: SessionMemoryStore) -> int:
    return store.get_memory_stats().without_vectors


def passages(store: SessionMemoryStore, memory_id: int) -> list[tuple[int, int]]:
    with storage_of(store).read() as reader:
        return [(passage.start, passage.end) for passage in reader.vectors.passages_of(reader.memories.get(memory_id))]


def test_a_receipt_comes_before_the_vectors_and_says_so(opened: SessionMemoryStore) -> None:
    receipt = opened.store_memory("report", DOCUMENT, session_id="s")
    assert (receipt.vectors, receipt.passages_created) == ("pending", 0)
    assert receipt.chunks_created > 1
    assert "searchable by words now, and by meaning in a moment" in (receipt.message or "")
    assert opened.get_memory_by_id(receipt.memory_id).memory.content == DOCUMENT
    assert opened.search_chunks("lemurs", REPORTS, mode="keyword").results


def test_a_search_by_meaning_waits_for_the_vectors_of_its_scope(
    opened: SessionMemoryStore, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(judge, "PATIENCE_ELSEWHERE_SECONDS", 0.0)
    opened.store_memory("report", DOCUMENT, session_id="s")
    threading.Timer(0.2, embedder.gate.set).start()
    answer = opened.search_chunks("Paragraph 3 about lemurs.", REPORTS, Page(limit=5), mode="vector")
    assert answer.results
    assert "lacks vectors" not in (answer.message or "")


@pytest.mark.parametrize("age", [timedelta(days=300), timedelta(minutes=5), timedelta(minutes=-5)])
def test_a_search_waits_for_a_fresh_memory_whatever_time_its_caller_gives(
    opened: SessionMemoryStore, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch, age: timedelta
) -> None:
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 60.0)
    time = (datetime.now(UTC) - age).isoformat()
    fresh = opened.store_memory("report", DOCUMENT, session_id="s", created_at=time)
    threading.Timer(0.2, embedder.gate.set).start()
    answer = opened.search_chunks("Paragraph 3 about lemurs.", REPORTS, Page(limit=1))
    assert answer.results[0].memory_id == fresh.memory_id
    assert answer.results[0].similarity is not None


def test_a_search_that_has_waited_long_enough_says_what_it_lacks(
    opened: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 0.05)
    opened.store_memory("report", DOCUMENT, session_id="s")
    answer = opened.search_chunks("lemurs", REPORTS)
    assert answer.results
    assert "1 memory in this scope still lacks vectors" in (answer.message or "")
    assert "repeat the search in a moment" in (answer.message or "")


def test_searches_by_words_and_those_that_find_something_close_in_other_scopes_do_not_wait(
    opened: SessionMemoryStore, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 60.0)
    embedder.gate.set()
    opened.store_memory("report", "Close lemurs.", session_id="other")
    eventually(lambda: not without_vectors(opened))
    embedder.gate.clear()
    monkeypatch.setattr(background.BackgroundVectors, "pause", lambda *_: pytest.fail("it waited"))
    opened.store_memory("report", DOCUMENT, session_id="s")
    assert opened.search_chunks("Close lemurs.", Scope("report", session_id="other")).confidence == "strong"
    assert opened.search_chunks("lemurs", REPORTS, mode="keyword").results


@pytest.mark.parametrize("search", ["search_chunks", "search_sections", "search_documents"])
def test_matches_elsewhere_do_not_depend_on_how_fast_their_vectors_come(
    opened: SessionMemoryStore, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch, search: str
) -> None:
    monkeypatch.setattr(judge, "PATIENCE_ELSEWHERE_SECONDS", 60.0)
    for number in range(3):
        opened.store_memory("report", f"Lemurs {number}.", session_id="other")
    threading.Timer(0.2, embedder.gate.set).start()
    answer = getattr(opened, search)("Lemurs 1.", REPORTS, mode="vector")
    assert answer.elsewhere == getattr(opened, search)("Lemurs 1.", REPORTS, mode="vector").elsewhere
    assert answer.elsewhere["other_sessions"] >= 1


def test_a_search_waits_for_vectors_elsewhere_only_so_long(
    opened: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "PATIENCE_ELSEWHERE_SECONDS", 0.05)
    opened.store_memory("report", "Lemurs.", session_id="other")
    assert opened.search_chunks("Lemurs.", REPORTS, mode="vector").elsewhere == {}


@pytest.mark.parametrize("each", [0, retrieval.MOST_PENDING // 2], ids=["a long text", "many short ones"])
def test_no_search_waits_while_much_text_lacks_vectors(
    opened: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch, each: int
) -> None:
    monkeypatch.setattr(retrieval, "AS_LONG_AS", each)
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(background.BackgroundVectors, "pause", lambda *_: pytest.fail("it waited"))
    opened.store_memory("report", DOCUMENT * (1 if each else retrieval.MOST_PENDING // len(DOCUMENT)), session_id="x")
    opened.store_memory("report", DOCUMENT, session_id="s")
    assert opened.search_chunks("lemurs", REPORTS).results


def test_a_process_waits_for_its_own_vectors_though_another_one_has_much_to_do(
    tmp_path: Path, opened: SessionMemoryStore, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 60.0)
    opened.store_memory("report", DOCUMENT * (retrieval.MOST_PENDING // len(DOCUMENT) + 1), session_id="s")
    own = GatedEmbedder()
    with deferring(tmp_path / "deferring.db", own) as other:
        fresh = other.store_memory("report", "Quokkas dig tunnels.", session_id="s").memory_id
        threading.Timer(0.2, own.gate.set).start()
        found = other.search_chunks("Quokkas dig tunnels.", REPORTS).results
        assert (found[0].memory_id, found[0].similarity) == (fresh, 1.0)
        assert not embedder.gate.is_set()


def test_a_search_does_not_wait_for_what_is_stored_after_it(
    opened: SessionMemoryStore, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 60.0)
    waiting = threading.Event()
    pause = background.BackgroundVectors.pause

    def noted(vectors: background.BackgroundVectors, seconds: float) -> bool:
        waiting.set()
        return pause(vectors, seconds)

    monkeypatch.setattr(background.BackgroundVectors, "pause", noted)
    with ThreadPoolExecutor(1) as thread:
        opened.store_memory("working_memory", "Early lemurs.", session_id="s")
        search = thread.submit(opened.search_chunks, "lemurs", Scope("working_memory", session_id="s"))
        assert waiting.wait(60)
        embedder.refuses = ("Late lemurs.",)
        opened.store_memory("working_memory", "Late lemurs.", session_id="s")
        execute(opened, "update pending_vectors set owner = 'slow' where memory_id = 2")
        embedder.gate.set()
        assert [hit.similarity is None for hit in search.result(60).results].count(True) == 1


def test_what_was_just_stored_is_found_first_by_its_words_among_what_has_vectors(
    opened: SessionMemoryStore, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 0.0)
    embedder.gate.set()
    for number in range(30):
        opened.store_memory("working_memory", f"Lemur {number} leaps from tree {number}.", session_id="s")
    eventually(lambda: not without_vectors(opened))
    embedder.gate.clear()
    fresh = opened.store_memory("working_memory", "Lemur 77 leaps from tree 77.", session_id="s").memory_id
    found = opened.search_chunks("Lemur 77 leaps from tree 77.", Scope("working_memory", session_id="s"))
    assert (found.results[0].memory_id, found.results[0].similarity) == (fresh, None)


def test_how_many_vectors_are_outstanding_is_told(opened: SessionMemoryStore, embedder: GatedEmbedder) -> None:
    for number in range(3):
        opened.store_memory("working_memory", f"Note {number}.", session_id="s")
    assert without_vectors(opened) == opened.get_memory_stats().pending_vectors == opened.count_pending() == 3
    stats = opened.get_session_stats("s")
    assert (stats.without_vectors, stats.message) == (
        3,
        "3 memories have no vectors yet and can be found by words only.",
    )
    embedder.gate.set()
    eventually(lambda: not opened.count_pending())


def test_only_a_few_searches_wait_at_the_same_time(
    opened: SessionMemoryStore, embedder: GatedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 60.0)
    opened.store_memory("report", DOCUMENT, session_id="s")
    count = 2 * retrieval.MOST_WAITING
    with ThreadPoolExecutor(count) as threads:
        searches = [threads.submit(opened.search_chunks, "lemurs", REPORTS) for _ in range(count)]
        eventually(lambda: sum(search.done() for search in searches) >= count - retrieval.MOST_WAITING)
        assert not all(search.done() for search in searches)
        embedder.gate.set()
        assert all(search.result().results for search in searches)


def test_vectors_follow_in_the_order_of_the_memories(opened: SessionMemoryStore, embedder: GatedEmbedder) -> None:
    texts = [f"note {number}" for number in range(20)]
    for text in texts:
        opened.store_memory("working_memory", text, session_id="s")
    embedder.gate.set()
    eventually(lambda: not without_vectors(opened))
    assert embedder.embedded == texts


KILLED = """
import os, sys
from test_background_vectors import DOCUMENT, GatedEmbedder, deferring
from vector_memory.writing import background
background.LEASE_SECONDS = 0.5
store = deferring(sys.argv[1], GatedEmbedder())
print(store.store_memory("report", DOCUMENT, session_id="s").memory_id, flush=True)
os._exit(9)
"""


@pytest.mark.usefixtures("_short_rounds")
def test_what_a_killed_process_leaves_undone_another_running_one_does(tmp_path: Path) -> None:
    with deferring(tmp_path / "memory.db", LatticeEmbedder()) as survivor:
        memory_id = int(finished("-c", KILLED, address_of(tmp_path / "memory.db")).stdout)
        assert survivor.get_memory_by_id(memory_id).memory.content == DOCUMENT
        eventually(lambda: passages(survivor, memory_id))
        spans = passages(survivor, memory_id)
        assert len(spans) == len(set(spans))
        assert not without_vectors(survivor)


@pytest.mark.usefixtures("_short_rounds")
def test_a_lease_from_before_the_clock_was_set_back_counts_as_run_out(
    opened: SessionMemoryStore, embedder: GatedEmbedder
) -> None:
    embedder.gate.set()
    memory_id = opened.store_memory("report", DOCUMENT, session_id="s").memory_id
    eventually(lambda: not without_vectors(opened))
    execute(opened, "delete from memory_passages where memory_id = ?", memory_id)
    execute(opened, "update session_memories set embedding_model_id = null where id = ?", memory_id)
    execute(opened, "insert into pending_vectors values (?, 'gone', 1e11, 0, 0)", memory_id)
    eventually(lambda: passages(opened, memory_id))


def test_a_store_that_defers_nothing_returns_with_the_vectors(store: SessionMemoryStore) -> None:
    receipt = store.store_memory("report", DOCUMENT, session_id="s")
    assert receipt.vectors == "ready"
    assert receipt.passages_created == len(passages(store, receipt.memory_id))


def no_engine() -> LatticeEmbedder:
    raise EmbeddingUnavailableError("There is no model.")
