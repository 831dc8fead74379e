"""The toy engine: the same vectors everywhere, and nearer vectors for texts that share words."""

import hashlib
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vector_memory.domain import Fingerprint
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.texts import tokens
from vector_memory.texts.tokens import WordPieceCounter

TOY = ToyEngine()


def similarity(a: str, b: str) -> float:
    one, other = TOY.embed([a, b])
    return float(one @ other)


def test_vectors_are_the_same_on_every_machine():
    vectors = TOY.embed(["The lease of the queue was renewed twice.", "", "数据库 🦆"])
    digest = hashlib.sha256(vectors.astype("<f4").tobytes()).hexdigest()
    assert digest == "d37bbad1fc43720f5f3342dec8fe45ca4b33036340b3e21846e7e260f0b6096c"


def test_texts_that_share_words_are_nearer_than_texts_that_do_not():
    query = "renewing leases"
    assert similarity(query, "The lease was renewed.") > 0.5
    assert similarity(query, "Bananas ripen in paper bags.") < 0.3


def test_case_and_word_endings_make_no_difference():
    assert similarity("Locked TABLES", "locking table") > 0.999


@given(st.lists(st.text(), max_size=5))
def test_every_vector_has_length_one_and_does_not_depend_on_its_neighbours(texts):
    vectors = TOY.embed(texts)
    assert vectors.shape == (len(texts), 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert all(np.array_equal(vector, TOY.embed([text])[0]) for vector, text in zip(vectors, texts, strict=True))


@given(st.text())
def test_tokens_are_in_order_and_cover_everything_but_spaces(text):
    spans = TOY.token_spans(text)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert all(0 < span.end - span.start <= 8 for span in spans)
    assert "".join(text[slice(*span)] for span in spans) == re.sub(r"\s", "", text)


def test_what_stands_beyond_254_pieces_is_not_read_as_with_the_real_model():
    assert np.array_equal(*TOY.embed(["lease " * 254, "lease " * 254 + "queue"]))
    assert not np.array_equal(*TOY.embed(["lease " * 253, "lease " * 253 + "queue"]))


def test_the_number_of_dimensions_can_be_chosen():
    small = ToyEngine(8)
    assert small.embed(["lease"]).shape == (1, 8)
    assert small.fingerprint == Fingerprint("toy", 8, "fp32", "toy")


# Spaces of all sorts, characters that the tokenizer removes, splits or joins, and words.
PARTS = st.sampled_from(
    [*" \n\t\r\u00a0\u2003\x1c\x0b\u0301\u200b\u3000\x85'-.#", "é", "漢字", "word", "idx_17", "x" * 120]
)


@given(st.lists(st.lists(PARTS, max_size=30).map("".join), max_size=5))
def test_counts_by_word_add_up_to_the_whole_text(engine: OnnxEngine, texts: list[str]) -> None:
    assume(not any(map(tokens.DATA.search, texts)))  # encoded data are estimated
    count = WordPieceCounter(engine.token_spans)
    assert [count(text) for text in texts] == [len(engine.token_spans(text)) for text in texts]


def test_a_counter_that_forgets_the_words_it_knows_counts_the_same(
    engine: OnnxEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_CACHED_WORDS", 2)
    count = WordPieceCounter(engine.token_spans)
    text = "several words, idx_17 among them"
    assert {count(text) for _ in range(3)} == {len(engine.token_spans(text))}
