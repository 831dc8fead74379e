"""Models that packages/model/encoder.py builds: the default one, and others with tiny weights.

The reference is a forward pass in numpy, written down as the paper describes it.
"""

from pathlib import Path

import numpy as np
import pytest
from encoder import Encoder, stored_in

from tiny_models import ARCHITECTURES, POSITIONS, Tiny, forward
from vector_memory.embedding.model_folder import ModelFolder
from vector_memory.embedding.onnx_engine import OnnxEngine

TEXTS = ["", "lease", "the lease of a queue", "queue " * 40, "a queue, a lease; one shard"]


@pytest.fixture(params=ARCHITECTURES)
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> Tiny:
    return Tiny(tmp_path, **ARCHITECTURES[request.param])


def test_the_installed_default_model_is_what_a_build_makes_of_its_weights(weights: ModelFolder) -> None:
    built = Encoder(stored_in(weights.file("model.safetensors")), "model.safetensors", 12, 1e-12).build()
    assert built == weights.file("model.onnx").read_bytes()
    assert len(built) < 40_000  # offsets and no weights


def test_vectors_of_each_architecture_equal_a_forward_pass_in_numpy(tiny: Tiny) -> None:
    engine = OnnxEngine(tiny.model())
    wanted = np.stack([forward(tiny, tiny.tokens("passage: " + text)) for text in TEXTS])
    asked = np.stack([forward(tiny, tiny.tokens("query: " + text)) for text in TEXTS])
    assert np.abs(engine.embed(TEXTS) - wanted).max() < tiny.tolerance
    assert np.abs(np.stack([engine.encode_query(text).vector for text in TEXTS]) - asked).max() < tiny.tolerance
    assert np.abs(wanted - asked).max() > 5 * tiny.tolerance  # the prefixes matter


def test_a_text_has_the_same_bits_alone_and_among_others_in_each_architecture(tiny: Tiny) -> None:
    engine = OnnxEngine(tiny.model(), calls=2)
    together = engine.embed(TEXTS * 3)
    assert np.array_equal(together, np.concatenate([engine.embed([text]) for text in TEXTS * 3]))


def test_texts_are_read_up_to_the_last_position_of_the_model(tmp_path: Path) -> None:
    engine = OnnxEngine(Tiny(tmp_path).model())
    words = POSITIONS - len(["[CLS]", "passage", ":", "[SEP]"])
    vectors = engine.embed(["queue " * words, "queue " * words + "lease", "queue " * (words - 1) + "lease"])
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[0], vectors[2])
