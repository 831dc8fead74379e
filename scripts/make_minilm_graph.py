# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy>=2", "onnx>=1.19"]
# ///
"""Write src/vector_memory/embedding/minilm.onnx: the graph of all-MiniLM-L6-v2 over its safetensors file.

    uv run scripts/make_minilm_graph.py path/to/model.safetensors

Every weight is an external tensor: an offset into model.safetensors, whose name `onnx_engine.py` puts in where
`LOCATION` stands. The architecture is BERT's encoder (Devlin et al., 2018, arXiv:1810.04805) with 6 layers of 12
heads, without dropout, pooler and mask; the mask is not needed because only texts of equal length share a call.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12
HEAD_WIDTH = WIDTH // HEADS
LOCATION = "./" + "@" * 64
OPSET, IR_VERSION = 20, 10
ASSET = Path(__file__).parents[1] / "src" / "vector_memory" / "embedding" / "minilm.onnx"


class Weights:
    """Turns names of the safetensors file into external tensors (format: 8 bytes length, JSON header, then data)."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            self.header = json.loads(stream.read(size))
        self.start = 8 + size

    def tensor(self, name: str, shape: list[int]) -> TensorProto:
        """Return the beginning of the weight `name`, as much of it as `shape` holds."""
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        offset = self.start + self.header[name]["data_offsets"][0]
        for key, value in {"location": LOCATION, "offset": offset, "length": 4 * math.prod(shape)}.items():
            tensor.external_data.add(key=key, value=str(value))
        return tensor


class Graph:
    """Collects nodes and initializers. Each method adds something and returns the name of its result."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}

    def weight(self, name: str, shape: list[int] | None = None) -> str:
        """Add a weight; `shape` when less than all of it is wanted."""
        self.initializers[name] = self.weights.tensor(name, shape or self.weights.header[name]["shape"])
        return name

    def constant(self, name: str, value: object, kind: type = np.int64) -> str:
        """Add a constant; the same name always has the same value."""
        self.initializers[name] = numpy_helper.from_array(np.array(value, kind), name)
        return name

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        """Add a node with one output."""
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def linear(self, x: str, name: str) -> str:
        """Multiply by the transposed weight and add the bias: safetensors has one row per output."""
        return self.op("Gemm", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), transB=1)

    def norm(self, x: str, name: str) -> str:
        """Layer normalisation over the last axis."""
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=EPSILON)


def embeddings(graph: Graph, shape: str) -> str:
    """Word, position and (always the first) type embeddings, normalised: one row per token of the whole batch."""
    length = graph.op("Slice", shape, graph.constant("one", [1]), graph.constant("two", [2]))
    positions = graph.weight("embeddings.position_embeddings.weight")
    words = graph.op("Gather", graph.weight("embeddings.word_embeddings.weight"), "input_ids")
    typed = graph.op("Add", words, graph.weight("embeddings.token_type_embeddings.weight", [WIDTH]))
    placed = graph.op("Add", typed, graph.op("Slice", positions, graph.constant("zero", [0]), length))
    return graph.op("Reshape", graph.norm(placed, "embeddings.LayerNorm"), graph.constant("rows", [-1, WIDTH]))


def attention(graph: Graph, x: str, layer: str, by_head: str) -> str:
    """Multi-head self-attention of every text over its own tokens."""

    def heads(name: str, axes: list[int]) -> str:
        rows = graph.linear(x, f"{layer}.attention.self.{name}")
        return graph.op("Transpose", graph.op("Reshape", rows, by_head), perm=axes)

    query, value = heads("query", [0, 2, 1, 3]), heads("value", [0, 2, 1, 3])
    scores = graph.op("MatMul", query, heads("key", [0, 2, 3, 1]))
    scaled = graph.op("Mul", scores, graph.constant("scale", HEAD_WIDTH**-0.5, np.float32))
    mixed = graph.op("MatMul", graph.op("Softmax", scaled, axis=-1), value)
    joined = graph.op("Transpose", mixed, perm=[0, 2, 1, 3])
    return graph.op("Reshape", joined, graph.constant("rows", [-1, WIDTH]))


def encoder_layer(graph: Graph, x: str, layer: str, by_head: str) -> str:
    """Attention and feed-forward, each added to its input and normalised after."""
    attended = graph.linear(attention(graph, x, layer, by_head), f"{layer}.attention.output.dense")
    x = graph.norm(graph.op("Add", attended, x), f"{layer}.attention.output.LayerNorm")
    inner = graph.op("Gelu", graph.linear(x, f"{layer}.intermediate.dense"))
    return graph.norm(
        graph.op("Add", graph.linear(inner, f"{layer}.output.dense"), x),
        f"{layer}.output.LayerNorm",
    )


def build(file: Path) -> bytes:
    """Return the model as bytes: input_ids int64 (batch, length) -> hidden float32 (batch, length, 384)."""
    graph = Graph(Weights(file))
    shape = graph.op("Shape", "input_ids")
    by_head = graph.op("Concat", shape, graph.constant("heads", [HEADS, HEAD_WIDTH]), axis=0)
    x = embeddings(graph, shape)
    for number in range(LAYERS):
        x = encoder_layer(graph, x, f"encoder.layer.{number}", by_head)
    graph.op("Reshape", x, graph.op("Concat", shape, graph.constant("width", [WIDTH]), axis=0), output="hidden")
    return to_bytes(graph)


def to_bytes(graph: Graph) -> bytes:
    """Serialise: the same graph gives the same bytes."""
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])
    hidden = helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["batch", "length", WIDTH])
    made = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", [ids], [hidden], list(graph.initializers.values()))
    model: ModelProto = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="vector-memory"
    )
    return model.SerializeToString(deterministic=True)


if __name__ == "__main__":
    ASSET.write_bytes(build(Path(sys.argv[1])))
