"""What is taken out of a model's vectors, if its folder says what they tell of a text's language."""

from pathlib import Path

import numpy as np
import pytest

from tiny_models import WIDTH, Tiny, forward
from vector_memory.embedding.model_folder import BIAS_FILE
from vector_memory.embedding.onnx_engine import LanguageBias, OnnxEngine, read_bias
from vector_memory.embedding.token_states import of_question, packed
from vector_memory.errors import EmbeddingUnavailableError

TEXTS = ["a lease", "the queue of a shard"]


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path)


def bias(seed: int = 5) -> LanguageBias:
    drawn = np.random.default_rng(seed).normal(0, 0.05, (5, WIDTH)).astype(np.float32)
    return LanguageBias(drawn[0], drawn[1], np.linalg.svd(drawn[2:], full_matrices=False)[2])


def test_vectors_have_neither_the_mean_of_their_kind_nor_a_part_in_the_directions(tiny: Tiny) -> None:
    bias().write(tiny.folder / BIAS_FILE)
    kept = read_bias(tiny.folder / BIAS_FILE, WIDTH)  # as 16-bit floats

    def wanted(prefix: str, mean: np.ndarray) -> np.ndarray:
        rows = np.stack([forward(tiny, tiny.tokens(prefix + text)) for text in TEXTS]) - mean
        rows -= rows @ kept.directions.T @ kept.directions
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    engine = OnnxEngine(tiny.model())
    found = engine.embed(TEXTS)
    assert np.abs(found - wanted("passage: ", kept.passage_mean)).max() < 1e-5
    asked = np.stack([engine.encode_query(text).vector for text in TEXTS])
    assert np.abs(asked - wanted("query: ", kept.query_mean)).max() < 1e-5
    assert np.abs(found @ kept.directions.T).max() < 1e-3


def test_states_of_tokens_have_neither_the_mean_of_their_kind_nor_a_part_in_the_directions(tiny: Tiny) -> None:
    tiny.description |= {"late_interaction": True, "query_prefix": "", "passage_prefix": ""}
    tiny.describe()
    plain = OnnxEngine(tiny.model()).encode_query(TEXTS[1]).states
    bias().write(tiny.folder / BIAS_FILE)
    kept, engine = read_bias(tiny.folder / BIAS_FILE, WIDTH), OnnxEngine(tiny.model())
    found = engine.encode_query(TEXTS[1]).states
    assert plain is not None
    assert found is not None
    assert np.abs(found - of_question(kept.removed(plain, kept.query_mean))).max() < 1e-5
    assert np.abs(found @ kept.directions.T).max() < 1e-3
    assert engine.encode(TEXTS[1:]).states == [packed(kept.removed(plain, kept.passage_mean))]


def test_a_text_has_the_same_vector_whatever_else_is_embedded(tiny: Tiny) -> None:
    bias().write(tiny.folder / BIAS_FILE)
    engine = OnnxEngine(tiny.model())
    assert np.array_equal(engine.embed(TEXTS * 5)[:2], np.concatenate([engine.embed([text]) for text in TEXTS]))


def test_vectors_with_different_parts_removed_are_never_compared(tiny: Tiny) -> None:
    fingerprints = {OnnxEngine(tiny.model()).fingerprint}
    for seed in (1, 2):
        bias(seed).write(tiny.folder / BIAS_FILE)
        fingerprints.add(OnnxEngine(tiny.model()).fingerprint)
    assert len(fingerprints) == 3


def header(shape: str) -> bytes:
    text = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(100)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *((np.zeros((*shape, WIDTH), np.float16), "does not fit the model") for shape in [(2,), (1, 3), ()]),
        (np.zeros((3, WIDTH // 2), np.float16), "does not fit the model"),
        (np.zeros((3, WIDTH), np.float32), "does not fit the model"),
        (np.zeros((), np.float16), "does not fit the model"),
        (np.array([print]), "is damaged"),
        *((data, "is damaged") for data in (b"", b"PK\x03\x04", header("'x'"), header("(" * 500))),
        *((header(f"({rows}, {WIDTH})"), "is damaged") for rows in (3, 10**30, -1)),
        (bytes(16_000_001), "larger than 16 MB"),
    ],
)
def test_a_file_that_does_not_fit_the_model_is_damaged_or_is_too_large_is_refused(
    tiny: Tiny, data: bytes | np.ndarray, message: str
) -> None:
    if isinstance(data, bytes):
        (tiny.folder / BIAS_FILE).write_bytes(data)
    else:
        np.save(tiny.folder / BIAS_FILE, data)
    with pytest.raises(EmbeddingUnavailableError, match=rf"language-bias\.npy .*{message}"):
        OnnxEngine(tiny.model())


def test_numbers_that_leave_nothing_of_a_vector_are_refused(tiny: Tiny) -> None:
    LanguageBias(*np.zeros((2, WIDTH), np.float32), np.eye(WIDTH, dtype=np.float32)).write(tiny.folder / BIAS_FILE)
    with pytest.raises(EmbeddingUnavailableError, match="not numbers, or zero"):
        OnnxEngine(tiny.model())
