"""The states of tokens, and the encoder that computes them: which are kept, as what, and how they are compared."""

import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from encoder import Encoder, stored_in
from hypothesis import given
from hypothesis import strategies as st

from tiny_models import ARCHITECTURES, POSITIONS, WIDTH, Tiny, forward
from vector_memory.embedding.embedder import Encoded
from vector_memory.embedding.model_folder import ModelFolder
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.embedding.token_states import (
    MAX_QUESTION_TOKENS,
    States,
    bytes_per_state,
    compare,
    is_content,
    of_question,
    packed,
)
from vector_memory.embedding.weights import find_model

TEXTS = [
    "The lease of the queue was renewed twice.",
    "Bread rises because of yeast.",
    "A worker holds a lease on each message that it takes from the queue.",
    "",
    "of the",
]


@pytest.fixture(scope="module")
def model() -> ModelFolder:
    found = find_model("all-MiniLM-L6-v2", None)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def engine(model: ModelFolder) -> OnnxEngine:
    return OnnxEngine(model)


def states_of(encoded: Encoded) -> list[bytes]:
    assert encoded.states is not None
    return list(encoded.states)


numbers = st.integers(1, 40).flatmap(
    lambda dimensions: st.tuples(
        st.just(dimensions), st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(1, 4), st.integers(0, 99)
    )
)


@given(numbers)
def test_a_late_score_is_the_mean_over_the_question_of_the_highest_product_with_signs(
    drawn: tuple[int, list[int], int, int],
) -> None:
    dimensions, counts, asked, seed = drawn
    source = np.random.default_rng(seed)
    question = of_question(source.normal(size=(asked, dimensions)).astype(np.float32))
    passages = [source.normal(size=(count, dimensions)).astype(np.float32) for count in counts]
    expected = [
        (np.where(each > 0, 1, -1) @ question.T).max(axis=0).mean() / np.sqrt(dimensions * 2 / np.pi)
        if len(each)
        else 0.0
        for each in passages
    ]
    assert scores(question, [packed(each) for each in passages]) == pytest.approx(expected, abs=1e-5)
    assert [len(packed(each)) for each in passages] == [count * bytes_per_state(dimensions) for count in counts]


@pytest.mark.parametrize("seed", range(10))
def test_a_late_score_does_not_depend_on_the_passages_beside_it(seed: int) -> None:
    source = np.random.default_rng(seed)
    question = of_question(source.normal(size=(source.integers(1, 12), 384)).astype(np.float32))
    passages = [packed(source.normal(size=(count, 384)).astype(np.float32)) for count in source.integers(1, 60, 19)]
    found = scores(question, [*passages, passages[0]])
    assert found == [scores(question, [each])[0] for each in [*passages, passages[0]]]
    assert found == [round(score, 6) for score in found]
    assert compare(question, {1: passages})[1].score == max(found), "a unit has the best of its passages"


def test_many_passages_take_no_more_memory_than_those_that_are_compared_together() -> None:
    source = np.random.default_rng(3)
    question = of_question(source.normal(size=(4, 384)).astype(np.float32))
    many, few = ({1: [packed(source.normal(size=(100, 384)).astype(np.float32))] * count} for count in (4_000, 200))
    assert peak(lambda: compare(question, many)) < 2 * peak(lambda: compare(question, few))


def scores(question: States, passages: Sequence[bytes]) -> list[float]:
    """Return the late scores of passages."""
    return [one.score for one in compare(question, {place: [one] for place, one in enumerate(passages)}).values()]


def peak(work: Callable[[], object]) -> int:
    """Return the most bytes that some work took at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_only_the_first_tokens_of_a_long_question_are_compared() -> None:
    kept = of_question(np.random.default_rng(7).normal(size=(100, 8)).astype(np.float32))
    assert len(kept) == MAX_QUESTION_TOKENS
    assert np.allclose(np.linalg.norm(kept, axis=1), 1)


@pytest.mark.parametrize("token", ["lease", "##ing", "▁Vertrag", "42", "數", "Ġqueue"])
def test_words_and_their_parts_are_content(token: str) -> None:
    assert is_content(token)


@pytest.mark.parametrize("token", ["the", "The", "▁the", "##.", ",", "", "▁", "▁--"])
def test_stop_words_and_punctuation_are_not(token: str) -> None:
    assert not is_content(token)


def test_states_come_with_the_very_vectors_that_a_text_has_without_them(engine: OnnxEngine) -> None:
    assert np.array_equal(engine.encode(TEXTS).vectors, engine.embed(TEXTS))
    question = engine.encode_query(TEXTS[0])
    assert np.array_equal(question.vector, engine.encode_query(TEXTS[0]).vector)


def test_the_states_of_a_text_do_not_depend_on_the_other_texts_of_a_call(engine: OnnxEngine) -> None:
    assert states_of(engine.encode(TEXTS)) == [states_of(engine.encode([text]))[0] for text in TEXTS]


def test_a_passage_has_a_state_for_each_token_of_content(engine: OnnxEngine) -> None:
    assert [len(states) / bytes_per_state(384) for states in states_of(engine.encode(TEXTS))] == [4, 3, 6, 0, 2]


def test_the_passage_that_says_what_a_question_says_has_the_highest_late_score(engine: OnnxEngine) -> None:
    question = engine.encode_query("who renewed the lease on a queue?").states
    assert question is not None
    found = scores(question, states_of(engine.encode(TEXTS)))
    assert (found.index(max(found)), found[1]) == (0, min(found[:3]))
    assert 0.4 < found[0] <= 1.1


def test_a_model_that_is_not_good_at_it_gives_no_states(tmp_path: Path) -> None:
    tiny = OnnxEngine(Tiny(tmp_path).model())
    assert (tiny.encode(["a lease"]).states, tiny.encode_query("a lease").states) == (None, None)


@pytest.mark.parametrize("unigram", [False, True])
def test_the_tokens_of_a_prefix_have_no_states(tmp_path: Path, unigram: bool) -> None:
    tiny = Tiny(tmp_path, unigram=unigram)
    tiny.description["late_interaction"] = True
    tiny.describe()
    engine = OnnxEngine(tiny.model())
    [states] = states_of(engine.encode(["lease the queue"]))
    assert len(states) == 2 * bytes_per_state(WIDTH)
    assert engine.encode_query("lease of shard").states.shape == (2, WIDTH)


ENCODED = ["", "lease", "the lease of a queue", "queue " * 40, "a queue, a lease; one shard"]


@pytest.fixture(params=ARCHITECTURES)
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> Tiny:
    return Tiny(tmp_path, **ARCHITECTURES[request.param])


def test_the_installed_default_model_is_what_a_build_makes_of_its_weights(weights: ModelFolder) -> None:
    built = Encoder(stored_in(weights.file("model.safetensors")), "model.safetensors", 12, 1e-12).build()
    assert built == weights.file("model.onnx").read_bytes()
    assert len(built) < 40_000  # offsets and no weights


def test_vectors_of_each_architecture_equal_a_forward_pass_in_numpy(tiny: Tiny) -> None:
    engine = OnnxEngine(tiny.model())
    wanted = np.stack([forward(tiny, tiny.tokens("passage: " + text)) for text in ENCODED])
    asked = np.stack([forward(tiny, tiny.tokens("query: " + text)) for text in ENCODED])
    assert np.abs(engine.embed(ENCODED) - wanted).max() < tiny.tolerance
    assert np.abs(np.stack([engine.encode_query(text).vector for text in ENCODED]) - asked).max() < tiny.tolerance
    assert np.abs(wanted - asked).max() > 5 * tiny.tolerance  # the prefixes matter


def test_a_text_has_the_same_bits_alone_and_among_others_in_each_architecture(tiny: Tiny) -> None:
    engine = OnnxEngine(tiny.model(), calls=2)
    together = engine.embed(ENCODED * 3)
    assert np.array_equal(together, np.concatenate([engine.embed([text]) for text in ENCODED * 3]))


def test_texts_are_read_up_to_the_last_position_of_the_model(tmp_path: Path) -> None:
    engine = OnnxEngine(Tiny(tmp_path).model())
    words = POSITIONS - len(["[CLS]", "passage", ":", "[SEP]"])
    vectors = engine.embed(["queue " * words, "queue " * words + "lease", "queue " * (words - 1) + "lease"])
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[0], vectors[2])
