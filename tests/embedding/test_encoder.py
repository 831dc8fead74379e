"""Graphs that are built without the onnx package: of the default model, and of each architecture with tiny weights.

The reference is a forward pass in numpy, written down as the papers describe it.
"""

import hashlib

import numpy as np
import pytest

from tiny_models import ARCHITECTURES, Tiny, forward
from vector_memory.embedding.encoder import build_graph
from vector_memory.embedding.known import MINILM
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.embedding.safetensors import read_header
from vector_memory.errors import EmbeddingUnavailableError

# Of the graph that gave the golden vectors. Changes only if the arithmetic does.
SHA256 = "28601f4b2eb8e35e2abeb124b7a624602c4f9ee0526672034cdc7a50143fdf80"
TEXTS = ["", "lease", "the lease of a queue", "queue " * 40, "a queue, a lease; one shard"]


@pytest.fixture(params=ARCHITECTURES)
def tiny(request, tmp_path) -> Tiny:
    return Tiny(tmp_path, **ARCHITECTURES[request.param])


def test_the_default_models_graph_is_the_one_that_was_checked(weights):
    stored = read_header(weights.file("model.safetensors"))
    graph = build_graph(stored, MINILM.size, "./model.safetensors")
    assert len(graph) < 40_000  # offsets and no weights
    assert hashlib.sha256(graph).hexdigest() == SHA256


def test_vectors_of_each_architecture_equal_a_forward_pass_in_numpy(tiny):
    engine = OnnxEngine(tiny.model())
    wanted = np.stack([forward(tiny, tiny.tokens("passage: " + text)) for text in TEXTS])
    asked = np.stack([forward(tiny, tiny.tokens("query: " + text)) for text in TEXTS])
    assert np.abs(engine.embed(TEXTS) - wanted).max() < tiny.tolerance
    assert np.abs(np.stack([engine.encode_query(text).vector for text in TEXTS]) - asked).max() < tiny.tolerance
    assert np.abs(wanted - asked).max() > 5 * tiny.tolerance  # the prefixes matter


def test_a_text_has_the_same_bits_alone_and_among_others_in_each_architecture(tiny):
    engine = OnnxEngine(tiny.model(), calls=2)
    together = engine.embed(TEXTS * 3)
    alone = np.concatenate([engine.embed([text]) for text in TEXTS * 3])
    assert np.array_equal(together, alone)


def test_texts_are_read_up_to_the_last_position_of_the_model(tmp_path):
    tiny = Tiny(tmp_path, family="xlm-roberta", positions=20)
    engine = OnnxEngine(tiny.model())
    read = 20 - 2 - 2  # positions begin at 2, and two tokens are special
    words = read - len(["passage:"]) - 1  # the prefix is two tokens
    texts = ["queue " * words, "queue " * words + "lease", "queue " * (words - 1) + "lease"]
    vectors = engine.embed(texts)
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[0], vectors[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 3}, "no encoder.layer.2.attention.self.query.weight"),
        ({"intermediate_size": 32}, "size of encoder.layer.0.intermediate.dense.weight"),
        ({"vocab_size": 4}, "tokenizer.json .* has more tokens than the weights"),
        ({"vocab_size": 1000}, "size of embeddings.word_embeddings.weight"),
        ({"model_type": "gpt2"}, "model_type must be bert"),
        ({"hidden_act": "relu"}, "hidden_act must be gelu"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be a number from 1 to 48"),
        ({"num_attention_heads": 3}, "multiple of num_attention_heads"),
        ({"max_position_embeddings": "64"}, "max_position_embeddings must be a number"),
        ({"max_position_embeddings": 128}, "size of embeddings.position_embeddings.weight"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps must be a number from 0 to 1"),
        ({"model_type": "roberta", "pad_token_id": float("inf")}, "pad_token_id must be a number"),
    ],
)
def test_a_config_that_does_not_fit_the_weights_is_refused_with_what_does_not_fit(tmp_path, change, message):
    tiny = Tiny(tmp_path)
    tiny.configure(**change)
    with pytest.raises(EmbeddingUnavailableError, match=message):
        OnnxEngine(tiny.model())
