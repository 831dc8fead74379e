"""The graph that is kept in the package is the one that scripts/make_minilm_graph.py writes."""

import hashlib
import importlib.util
from importlib.resources import files
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_minilm_graph.py"
# Changes only together with the script: write the asset with it, then put in what `sha256sum` says.
SHA256 = "ac56cb7cdc1af12456be3d0c7e6f07be3af5d144e0a7bd2781ff893933c5808f"


@pytest.fixture
def graph():
    return (files("vector_memory.embedding") / "minilm.onnx").read_bytes()


def test_the_graph_is_the_one_that_was_checked(graph):
    assert hashlib.sha256(graph).hexdigest() == SHA256


def test_the_graph_contains_offsets_and_no_weights(graph, weights):
    with weights.file("model.safetensors").open("rb") as stream:
        data_start = 8 + int.from_bytes(stream.read(8), "little")
    assert len(graph) < 40_000
    assert str(data_start + 796672).encode() in graph  # where the word embeddings begin


def test_the_script_writes_the_same_graph_again(graph, weights):
    pytest.importorskip("onnx", reason="onnx is not installed: `uv run --with onnx pytest` rebuilds the graph")
    spec = importlib.util.spec_from_file_location("make_minilm_graph", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.build(weights.file("model.safetensors")) == graph
