"""Texts that were embedded before are not embedded again, and their vectors are the same."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.embedding import EmbeddingModel, Vectors
from vector_memory.embedding.model import LatestTexts
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from waiting import at_once

TOY = ToyEngine(16)


class ListingEngine(ToyEngine):
    """The toy engine, listing the texts it embeds."""

    def __init__(self, dimensions: int = 16) -> None:
        super().__init__(dimensions)
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.embedded += texts
        return super().embed(texts)


@pytest.fixture
def engine() -> ListingEngine:
    return ListingEngine()


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), max_size=6))
def test_every_text_has_its_own_vector_at_its_place_whatever_is_remembered(calls: list[list[str]]):
    latest = LatestTexts(3)
    for texts in calls:
        assert np.array_equal(latest.encode(texts, TOY).vectors, TOY.embed(texts))


def test_a_text_is_embedded_once_within_a_call_and_in_later_ones(engine):
    latest = LatestTexts()
    latest.encode(["lease", "queue", "lease"], engine)
    latest.encode(["shard", "queue"], engine)
    assert engine.embedded == ["lease", "queue", "shard"]


def test_the_text_not_asked_for_the_longest_is_forgotten_first(engine):
    latest = LatestTexts(2)
    for text in ("lease", "queue", "lease", "shard", "lease", "queue"):
        latest.encode([text], engine)
    assert engine.embedded == ["lease", "queue", "shard", "queue"]


def test_changing_a_returned_vector_does_not_change_the_next_one(engine):
    latest = LatestTexts()
    for _ in range(2):
        latest.encode(["lease"], engine).vectors[:] = 0
    assert np.array_equal(latest.encode(["lease"], engine).vectors, TOY.embed(["lease"]))


def test_a_call_that_fails_leaves_nothing_wrong_behind(engine, monkeypatch):
    latest = LatestTexts()
    with monkeypatch.context() as broken:
        broken.setattr(engine, "embed", lambda _: 1 / 0)
        with pytest.raises(ArithmeticError):
            latest.encode(["lease"], engine)
    assert np.array_equal(latest.encode(["lease"], engine).vectors, TOY.embed(["lease"]))


def test_many_threads_get_the_vectors_that_one_gets():
    latest, wrong = LatestTexts(5), []
    words = [f"word {number}" for number in range(12)]

    def use(first: int) -> None:
        for number in range(100):
            texts = [words[(first + number) % 12], words[(first * number) % 12]]
            if not np.array_equal(latest.encode(texts, TOY).vectors, TOY.embed(texts)):
                wrong.append(texts)

    at_once(*(partial(use, first) for first in range(4)))
    assert not wrong


def test_an_unloaded_model_has_forgotten_everything(engine):
    model = EmbeddingModel(lambda: engine)
    model.embed(["lease"])
    model.unload_if_idle(1e-9)
    model.embed(["lease"])
    assert engine.embedded == ["lease", "lease"]


def test_of_an_edited_report_only_the_passages_that_changed_are_embedded(tmp_path: Path):
    parts = [f"## Part {number}\n\n" + f"Lemur {number} sleeps. " * 60 for number in range(8)]
    engine = ListingEngine(384)
    with SessionMemoryStore(tmp_path / "m.db", Settings(embedding_model="toy"), embedder=engine) as store:
        store.store_memory("report", "# Lemurs\n\n" + "\n\n".join(parts), session_id="s")
        first = len(engine.embedded)
        parts[3] += "It wakes at nine."
        store.store_memory("report", "# Lemurs\n\n" + "\n\n".join(parts), session_id="s")
    assert first >= 8
    again = engine.embedded[first:]
    assert 1 <= len(again) <= 3
    assert all("Lemur 3" in text for text in again)


class OtherEngine(ToyEngine):
    """A model whose files have replaced those of the toy engine; its vectors are the opposite."""

    def __init__(self) -> None:
        super().__init__(16)
        self.fingerprint = replace(TOY.fingerprint, engine="other")

    def embed(self, texts: Sequence[str]) -> Vectors:
        return -super().embed(texts)


def test_no_vector_of_a_model_is_reused_when_another_one_has_taken_its_place() -> None:
    engines = [OtherEngine(), TOY]
    model = EmbeddingModel(engines.pop)
    for engine in (TOY, OtherEngine()):
        assert np.array_equal(model.encode_query("lease").vector, engine.embed(["lease"])[0])
        assert np.array_equal(model.embed(["lease"]), engine.embed(["lease"]))
        model.unload_if_idle(1e-9)


def test_vectors_of_two_models_are_remembered_apart() -> None:
    latest = LatestTexts()
    for engine in (TOY, OtherEngine()):
        assert np.array_equal(latest.encode(["lease"], engine).vectors, engine.embed(["lease"]))
