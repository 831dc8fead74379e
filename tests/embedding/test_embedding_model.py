"""The lazily loaded model: loaded once, in the background on request, and what happens when it cannot be loaded."""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.embedding.model import NICENESS
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import ConfigurationError, EmbeddingUnavailableError
from vector_memory.settings import Settings
from waiting import PATIENCE, eventually

TOY = ToyEngine(16)


class Loader:
    """Fails a given number of times, then returns the toy engine; counts its calls."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        self.failures, self.error, self.calls = failures, error or OSError("disk on fire at /secret"), 0

    def __call__(self) -> ToyEngine:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return TOY


class CountingEngine(ToyEngine):
    """The toy engine, counting the texts it embeds."""

    embedded = 0

    def embed(self, texts):
        self.embedded += len(texts)
        return super().embed(texts)


class Clock:
    """A clock that the test moves."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def wait_for_the_background() -> None:
    for thread in threading.enumerate():
        if thread.name == "embedding-model":
            thread.join(10)


def test_nothing_is_loaded_before_the_first_use():
    load = Loader()
    model = EmbeddingModel(load)
    assert not model.is_ready
    assert load.calls == 0
    model.embed(["lease"])
    assert model.is_ready
    assert load.calls == 1


def test_the_model_answers_as_its_engine_does():
    model = EmbeddingModel(Loader())
    assert model.fingerprint == TOY.fingerprint
    assert model.tokens_per_vector == TOY.tokens_per_vector
    assert model.token_spans("a lease") == TOY.token_spans("a lease")
    assert np.array_equal(model.embed(["a", "b"]), TOY.embed(["a", "b"]))
    assert np.array_equal(model.encode_query("a").vector, TOY.embed(["a"])[0])


def test_loading_in_the_background_returns_at_once_and_uses_wait_for_it():
    may_finish, began = threading.Event(), threading.Event()

    def load() -> ToyEngine:
        began.set()
        may_finish.wait()
        return TOY

    model = EmbeddingModel(load)
    model.start_loading()
    assert began.wait(PATIENCE)
    assert not model.is_ready
    threading.Timer(0.05, may_finish.set).start()
    assert model.tokens_per_vector == 126
    assert model.is_ready


def test_many_threads_and_the_background_load_only_once():
    load, together = Loader(), threading.Barrier(8)

    def load_slowly() -> ToyEngine:
        time.sleep(0.05)  # long enough for the others to come
        return load()

    model = EmbeddingModel(load_slowly)

    def use() -> None:
        together.wait(PATIENCE)
        model.embed(["lease"])

    threads = [threading.Thread(target=use) for _ in range(8)]
    model.start_loading()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert load.calls == 1


def test_a_failed_load_is_tried_once_more():
    load = Loader(failures=1)
    model = EmbeddingModel(load)
    assert model.embed(["lease"]).shape == (1, 16)
    assert load.calls == 2
    assert model.failure is None


def test_a_failure_is_remembered_and_raised_at_each_use_without_loading_again():
    load = Loader(failures=99, error=EmbeddingUnavailableError("Run `vector-memory fetch-model`."))
    model = EmbeddingModel(load, Clock())
    for use in (lambda: model.fingerprint, lambda: model.embed(["a"]), lambda: model.encode_query("a").vector):
        with pytest.raises(EmbeddingUnavailableError, match="fetch-model"):
            use()
    assert load.calls == 2
    assert "fetch-model" in str(model.failure)
    assert not model.is_ready


def test_a_model_that_appears_later_is_noticed_after_30_seconds():
    load, clock = Loader(failures=2), Clock()
    model = EmbeddingModel(load, clock)
    with pytest.raises(EmbeddingUnavailableError):
        model.embed(["lease"])
    clock.now += 29
    with pytest.raises(EmbeddingUnavailableError):
        model.embed(["lease"])
    clock.now += 1
    assert model.embed(["lease"]).shape == (1, 16)
    assert model.failure is None


def test_a_failure_in_the_background_is_raised_at_the_next_use():
    model = EmbeddingModel(Loader(failures=2), Clock())
    model.start_loading()
    wait_for_the_background()
    assert model.failure is not None
    with pytest.raises(EmbeddingUnavailableError):
        model.embed(["lease"])


def test_an_error_of_the_runtime_becomes_a_package_error_without_its_details():
    with pytest.raises(EmbeddingUnavailableError, match="See the log") as caught:
        EmbeddingModel(Loader(failures=2)).embed(["lease"])
    assert "OSError" in str(caught.value)
    assert "/secret" not in str(caught.value)


def test_a_query_is_embedded_once_and_its_vector_cannot_be_changed():
    engine = CountingEngine(16)
    model = EmbeddingModel(lambda: engine)
    assert model.encode_query("lease").vector is model.encode_query("lease").vector
    assert engine.embedded == 1
    with pytest.raises(ValueError, match="read-only"):
        model.encode_query("lease").vector[0] = 1


def test_the_last_thousand_queries_are_remembered():
    engine = CountingEngine(16)
    model = EmbeddingModel(lambda: engine)
    for number in range(1_001):
        model.encode_query(f"query {number}")
    model.encode_query("query 1")
    assert engine.embedded == 1_001
    model.encode_query("query 0")
    assert engine.embedded == 1_002


def test_a_query_that_failed_is_not_remembered():
    clock = Clock()
    model = EmbeddingModel(Loader(failures=2), clock)
    with pytest.raises(EmbeddingUnavailableError):
        model.encode_query("lease")
    clock.now += 30
    assert model.encode_query("lease").vector.shape == (16,)


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_the_default_model_runs_on_onnx_runtime_under_both_its_names(name):
    assert isinstance(load_embedder(Settings(embedding_model=name)), OnnxEngine)


def test_the_toy_model_needs_no_weights_and_any_dimensions():
    assert load_embedder(Settings(embedding_model="toy", embedding_dim=7)).fingerprint.dimensions == 7


def test_another_dimension_than_the_models_is_refused_and_the_right_one_named():
    load = partial(load_embedder, Settings(embedding_model="sentence-transformers/all-MiniLM-L6-v2", embedding_dim=768))
    for use, error in (
        (load, ConfigurationError),
        (partial(EmbeddingModel(load).embed, ["a"]), EmbeddingUnavailableError),
    ):
        with pytest.raises(error, match="set VECTOR_MEMORY_EMBEDDING_DIM=384"):
            use()


def test_an_idle_engine_is_unloaded_and_loaded_again_at_the_next_use():
    load, clock = Loader(), Clock()
    model = EmbeddingModel(load, clock)
    model.embed(["lease"])
    clock.now += 59
    model.unload_if_idle(60)
    assert model.is_ready
    clock.now += 1
    model.unload_if_idle(60)
    assert not model.is_ready
    assert np.array_equal(model.embed(["lease"]), TOY.embed(["lease"]))
    assert load.calls == 2


def test_an_engine_in_use_is_not_unloaded():
    load, clock = Loader(), Clock()
    model = EmbeddingModel(load, clock)
    model.embed(["lease"])
    clock.now += 59
    model.embed(["lease"])
    clock.now += 59
    model.unload_if_idle(60)
    assert model.is_ready


class GatedEngine(ToyEngine):
    """Embeds texts, but not a query, only while its gate is open."""

    def __init__(self):
        super().__init__(8)
        self.gate, self.at_once, self.most_at_once = threading.Event(), 0, 0

    def embed(self, texts):
        if list(texts) == ["query"]:
            return super().embed(texts)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        assert self.gate.wait(60)
        self.at_once -= 1
        return super().embed(texts)


def test_texts_are_embedded_one_call_at_a_time_and_queries_wait_for_none():
    engine = GatedEngine()
    model = EmbeddingModel(lambda: engine)
    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(model.embed, [f"text {number}"]) for number in range(8)]
        eventually(lambda: engine.at_once)
        assert model.encode_query("query").vector.shape == (8,)
        assert not any(call.done() for call in calls)
        engine.gate.set()
        assert all(call.result().shape == (1, 8) for call in calls)
    assert engine.most_at_once == 1


def test_a_text_on_which_the_engine_hangs_does_not_keep_others_waiting_for_ever(monkeypatch):
    monkeypatch.setattr("vector_memory.embedding.model.TURN_SECONDS", 0.05)
    engine = GatedEngine()
    model = EmbeddingModel(lambda: engine)
    hanging = threading.Thread(target=model.embed, args=(["hangs"],))
    hanging.start()
    eventually(lambda: engine.at_once)
    assert model.embed(["query"]).shape == (1, 8)
    engine.gate.set()
    hanging.join()


class PriorityEngine(ToyEngine):
    """Notes the niceness of the thread that embeds each text."""

    def __init__(self):
        super().__init__(8)
        self.niceness = {}

    def embed(self, texts):
        self.niceness |= dict.fromkeys(texts, os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return super().embed(texts)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
@pytest.mark.parametrize(("queries_first", "difference"), [(True, NICENESS), (False, 0)])
def test_where_queries_go_first_texts_have_a_lower_priority_and_the_caller_keeps_its_own(queries_first, difference):
    engine = PriorityEngine()
    model = EmbeddingModel(lambda: engine, queries_first=queries_first)
    model.embed(["text"])
    model.encode_query("query")
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert engine.niceness == {"text": min(19, own + difference), "query": own}
