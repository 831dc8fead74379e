"""What the default engine guarantees besides correct numbers: always the same bits, and the spans of tokens."""

import gc
import unicodedata
import weakref
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from faults.effort import effort
from vector_memory.domain import Fingerprint
from vector_memory.embedding.onnx_engine import OnnxEngine, equal_length_groups

CALLS = (1, 2, 3)
SEPARATING = {"Z", "C", "M"}  # categories that the tokenizer may leave out: spaces, control characters, marks

texts = st.text(max_size=200)


@pytest.fixture(scope="module")
def engines(weights):
    return {calls: OnnxEngine(weights, calls) for calls in CALLS}


@pytest.fixture(scope="module")
def tokenizer(weights):
    found = Tokenizer.from_file(str(weights.file("tokenizer.json")))
    found.no_truncation()
    found.no_padding()
    return found


@given(
    st.lists(
        st.sampled_from(["again", "tokenization", "don't", "각각", "\u0301x", "\u200b", "x" * 150, "🦆🦆 é\u0301 数"])
        | texts
    )
)
def test_the_tokens_of_remembered_words_are_where_the_tokenizer_finds_them(engines, tokenizer, words):
    text = " ".join(words)
    assert engines[1].token_spans(text) == tokenizer.encode(text, add_special_tokens=False).offsets


@pytest.fixture(scope="module")
def alone(engines, golden_texts):
    """The golden texts of at most 100 characters (and some long ones) with the vector each has all by itself."""
    chosen = [text for name, text in golden_texts.items() if len(text) <= 100 or name.startswith("exactly")]
    return [(text, engines[1].embed([text])[0]) for text in chosen]


@settings(max_examples=effort(quick=10, long=1_000))
@given(st.data())
def test_a_text_has_the_same_bits_in_every_batch_and_order_however_many_calls_run_at_once(engines, alone, data):
    batch = data.draw(st.lists(st.sampled_from(alone), min_size=1, max_size=20))
    calls = data.draw(st.sampled_from(CALLS))
    vectors = engines[calls].embed([text for text, _ in batch])
    assert np.array_equal(vectors, np.stack([vector for _, vector in batch]))


def test_equally_long_texts_have_the_same_bits_together_as_alone(engines):
    words = ["lease", "queue", "replica", "journal", "index", "shard", "quota", "canary"]
    for length in (1, 2, 3, 7, 15, 31, 62, 126):
        batch = [" ".join([word] * length) for word in words]
        one_by_one = np.concatenate([engines[1].embed([text]) for text in batch])
        for calls in CALLS:
            assert np.array_equal(engines[calls].embed(batch), one_by_one), (length, calls)


def test_many_threads_at_once_get_the_bits_that_one_gets(engine, alone):
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(lambda pair: engine.embed([pair[0]])[0], alone * 2))
    assert all(np.array_equal(vector, wanted) for vector, (_, wanted) in zip(vectors, alone * 2, strict=True))


@settings(max_examples=effort(quick=10, long=1_000))
@given(st.lists(texts, max_size=3))
@example([])
def test_every_vector_is_32_bit_finite_and_of_length_one(engine, batch):
    vectors = engine.embed(batch)
    assert vectors.shape == (len(batch), 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


class Broken:
    """A session in which every call fails."""

    def run(self, *_):
        raise RuntimeError("broken")


def test_a_call_that_fails_beside_others_fails_the_whole(weights, monkeypatch):
    engine = OnnxEngine(weights, 2)
    monkeypatch.setattr(engine, "_session", Broken())
    with pytest.raises(RuntimeError, match="broken"):
        engine.embed(["one", "two of them", "three of them all"])


def test_the_longest_texts_are_embedded_first_so_that_no_call_is_left_alone_at_the_end():
    lengths = [12, 128, 40, 128, 64]
    assert [lengths[group[0]] for group in equal_length_groups(lengths)] == [128, 64, 40, 12]


def test_only_the_first_254_pieces_are_read(engine):
    read, unread = "lease " * 254, "lease " * 254 + "queue"
    assert np.array_equal(*engine.embed([read, unread]))
    assert not np.array_equal(*engine.embed(["lease " * 253, "lease " * 253 + "queue"]))


def test_the_engine_says_what_its_vectors_are_comparable_with(engine):
    assert engine.fingerprint == Fingerprint("all-MiniLM-L6-v2", 384, "fp32", "onnxruntime")
    assert engine.tokens_per_vector == 126  # the training length of 128 without [CLS] and [SEP]


@given(texts)
def test_word_pieces_stand_in_order_inside_the_text_and_leave_out_only_what_is_not_a_character(engine, text):
    spans = engine.token_spans(text)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert all(a.start <= b.start and a.end <= b.end for a, b in pairwise(spans))
    covered = {place for span in spans for place in range(*span)}
    left_out = {unicodedata.category(text[place])[0] for place in range(len(text)) if place not in covered}
    assert left_out <= SEPARATING


def test_word_pieces_of_a_very_long_text_reach_to_its_end(engine):
    text = "queue " * 20_000 + "lease"
    spans = engine.token_spans(text)
    assert len(spans) == 20_001
    assert text[slice(*spans[-1])] == "lease"


@given(st.lists(st.integers(2, 256), max_size=60))
def test_a_call_holds_only_texts_of_one_length_at_most_8_and_at_most_256_tokens(lengths):
    groups = list(equal_length_groups(lengths))
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        assert len({lengths[index] for index in group}) == 1
        assert len(group) <= 8
        assert len(group) * lengths[group[0]] <= 256


def test_an_engine_is_freed_at_once_when_nobody_has_it_any_more(weights):
    engine = OnnxEngine(weights, 1)
    engine.encode(["a text"])
    engine.encode_query("a question of several words")
    engine.calibration_for("a question of several words")
    left = weakref.ref(engine)
    gc.disable()
    try:
        del engine
        assert left() is None
    finally:
        gc.enable()
