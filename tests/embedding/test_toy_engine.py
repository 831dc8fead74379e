"""The toy engine: the same vectors everywhere, and nearer vectors for texts that share words."""

import hashlib
import re
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.domain import Fingerprint
from vector_memory.embedding.toy_engine import ToyEngine

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
