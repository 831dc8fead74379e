"""Embedding engines that raise, hang, or cannot be loaded: no text is refused, and no search fails."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from engines import execute
from lattice import LatticeEmbedder
from other_process import SETTINGS
from test_background_vectors import deferring, without_vectors
from vector_memory.domain import Scope, Span
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.embedder import EncodedQuestion, Vectors
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.search import retrieval
from vector_memory.store import SessionMemoryStore
from vector_memory.writing import background
from vector_memory.writing.indexer import Indexer
from waiting import eventually

pytestmark = pytest.mark.usefixtures("_short_rounds")
NOTES = Scope("working_memory", session_id="s")


class FailingEmbedder(LatticeEmbedder):
    """Does `fault` before it embeds a text with lemurs, or reads a question, or takes a text apart, if those fail."""

    def __init__(self, *failing: str) -> None:
        self.failing = set(failing)
        self.fault: Callable[[str], object] = self.refuse
        self.embedded: list[str] = []

    @staticmethod
    def refuse(text: str) -> None:
        raise MemoryError(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if "texts" in self.failing and any("lemurs" in text for text in texts):
            self.embedded += texts
            self.fault(texts[0])
        return super().embed(texts)

    def encode_query(self, text: str) -> EncodedQuestion:
        if "questions" in self.failing:
            self.fault(text)
        return super().encode_query(text)

    def token_spans(self, text: str) -> list[Span]:
        if "tokens" in self.failing and text:
            self.fault(text)
        return super().token_spans(text)


@pytest.fixture(params=["deferring", "at once"])
def store(path: Path, request: pytest.FixtureRequest) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(path, SETTINGS, embedder=FailingEmbedder("texts", "questions", "tokens")) as opened:
        if request.param == "deferring":
            opened.defer_vectors()
        yield opened


def test_a_text_is_stored_and_found_by_its_words_although_the_engine_fails_on_everything(
    store: SessionMemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    assert store.store_memory("working_memory", "Six lemurs leap.", session_id="s").memory_id == 1
    answer = store.search_chunks("lemurs", NOTES)
    assert [hit.memory_id for hit in answer.results] == [1]
    assert "Found by words only. The embedding model failed (MemoryError)" in (answer.message or "")
    assert "failed: MemoryError at" in caplog.text
    assert "lemurs" not in caplog.text


def test_what_an_engine_has_failed_on_gets_its_vectors_when_it_has_recovered(path: Path) -> None:
    embedder = FailingEmbedder("texts")
    with deferring(path, embedder) as store:
        store.store_memory("working_memory", "Six lemurs leap.", session_id="s")
        eventually(lambda: embedder.embedded)
        embedder.failing.clear()
        eventually(lambda: not without_vectors(store))
        assert store.search_chunks("lemurs", NOTES).results[0].similarity is not None


def test_what_an_engine_always_fails_on_is_left_after_a_few_attempts_and_holds_nothing_up(path: Path) -> None:
    embedder = FailingEmbedder("texts")
    with deferring(path, embedder) as store:
        store.store_memory("working_memory", "Six lemurs leap.", session_id="s")
        store.store_memory("working_memory", "Quokkas dig.", session_id="s")
        eventually(lambda: without_vectors(store) == 1)
        eventually(lambda: execute(store, "select attempts from pending_vectors") == [(3,)])
        eventually(lambda: not store.count_pending())
        assert len(embedder.embedded) == 4
        embedder.failing.clear()
        assert store.backfill_embeddings().memories_processed == 1


def test_what_is_stored_while_no_model_can_be_loaded_gets_its_vectors_once_one_can(path: Path) -> None:
    there = threading.Event()

    def load() -> LatticeEmbedder:
        if not there.is_set():
            raise EmbeddingUnavailableError("There is no model.")
        return LatticeEmbedder()

    model = EmbeddingModel(load, clock=iter(range(0, 10**9, 60)).__next__)
    with SessionMemoryStore(path, SETTINGS, model=model) as store:
        store.defer_vectors()
        assert store.store_memory("working_memory", "Six lemurs leap.", session_id="s").vectors == "unavailable"
        assert without_vectors(store) == 1
        assert not store.count_pending()
        there.set()
        assert store.search_chunks("lemurs", NOTES).results
        eventually(lambda: not without_vectors(store))


def test_a_model_that_cannot_be_loaded_is_not_retried_over_and_over(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[None] = []
    rounds: list[bool] = []

    def load() -> LatticeEmbedder:
        tried.append(None)
        raise EmbeddingUnavailableError("There is no model.")

    def noted(indexer: Indexer) -> bool:
        rounds.append(is_loadable(indexer))
        return rounds[-1]

    is_loadable = Indexer.is_loadable.fget
    monkeypatch.setattr(Indexer, "is_loadable", property(noted))
    model = EmbeddingModel(load, clock=iter(range(0, 10**9, 60)).__next__)
    with SessionMemoryStore(path, SETTINGS, model=model) as store:
        store.defer_vectors()
        store.store_memory("working_memory", "Six lemurs leap.", session_id="s")
        known = len(tried)
        eventually(lambda: len(rounds) > 2)
        assert len(tried) == known


def test_others_compute_what_an_engine_hangs_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "HANGING_SECONDS", 2.0)
    monkeypatch.setattr(retrieval, "PATIENCE_SECONDS", 0.0)
    ended, embedder = threading.Event(), FailingEmbedder("texts")
    embedder.fault = lambda _text: ended.wait(60)
    with deferring(path, embedder) as hanging, deferring(path, LatticeEmbedder()) as other:
        hanging.store_memory("working_memory", "Six lemurs leap.", session_id="s")
        eventually(lambda: embedder.embedded)
        eventually(lambda: not without_vectors(other))
        ended.set()  # or the question would wait for its turn
        assert hanging.search_chunks("lemurs", NOTES).results[0].similarity is not None
