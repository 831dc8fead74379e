"""Builds the graph of a BERT-family encoder over its safetensors file: from token ids to the last hidden states.

Every weight is an external tensor: an offset into the file, which ONNX Runtime maps into memory. The architecture is
BERT's (Devlin et al., 2018, arXiv:1810.04805) without dropout, pooler and mask; the mask is not needed because only
texts of equal length share a call. XLM-RoBERTa differs in its first position and in its tokenizer.

A weight of 4 bits is stored as two tensors: `NAME`, bytes with two numbers each, the first in the low half, and
`NAME.scales`, one float for each block of 32 numbers. A number n of a block with scale s stands for (n - 8) * s.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vector_memory.embedding import onnx_file
from vector_memory.embedding.model_folder import Architecture
from vector_memory.embedding.onnx_file import Attribute, Kind
from vector_memory.embedding.safetensors import ITEM_BYTES, StoredTensor
from vector_memory.errors import EmbeddingUnavailableError

BLOCK = 32
INT8_ACTIVATIONS = 4
"""`accuracy_level` of MatMulNBits: the inputs of a 4-bit product are rounded to 8 bits, block by block."""

KINDS = {"F32": Kind.FLOAT32, "F16": Kind.FLOAT16, "BF16": Kind.BFLOAT16, "U8": Kind.UINT8}
PREFIXES = ("", "bert.", "roberta.")
"""What the names of weights begin with, depending on the class that the model was saved from."""


class Graph:
    """Collects nodes and tensors. Each method adds something and returns the name of its result."""

    def __init__(self, stored: Mapping[str, StoredTensor], location: str) -> None:
        """`location`: the path of the weights' file, from the folder that the session reads them from."""
        self._stored = stored
        self._location = location
        self._prefix = next((prefix for prefix in PREFIXES if f"{prefix}{WORDS}" in stored), "")
        self.nodes: list[bytes] = []
        self.tensors: dict[str, bytes] = {}
        self.has_contrib = False

    def weight(self, name: str, shape: tuple[int, ...], *, skip: int = 0) -> str:
        """Add a weight as 32-bit floats: `shape` of it, after `skip` rows.

        Raises EmbeddingUnavailableError if the file has none of the name, or a smaller one.
        """
        found = self._found(name, shape, skip)
        if found.kind not in ("F32", "F16", "BF16"):
            raise _unusable(name)
        added = self._add(name, found, shape, skip)
        return added if found.kind == "F32" else self.op("Cast", added, to=int(Kind.FLOAT32))

    def is_packed(self, name: str) -> bool:
        """Return whether a weight has 4 bits."""
        return f"{self._prefix}{name}.scales" in self._stored

    def packed(self, name: str, rows: int, columns: int, *, by_block: bool) -> tuple[str, str]:
        """Add a weight of 4 bits; return the names of its numbers and scales. `by_block`: with one more axis."""
        if columns % BLOCK:
            raise _unusable(name)
        numbers, scales = (rows, columns // 2), (rows, columns // BLOCK)
        found = self._found(name, numbers, 0)
        if found.kind != "U8":
            raise _unusable(name)
        self.has_contrib = True
        axes = (*scales, BLOCK // 2) if by_block else numbers
        return self._add(name, found, axes, 0), self.weight(f"{name}.scales", scales)

    def constant(self, name: str, value: object, kind: type = np.int64) -> str:
        """Add a constant; the same name always has the same value."""
        array: NDArray[Any] = np.array(value, kind)
        element = Kind.INT64 if kind is np.int64 else Kind.FLOAT32
        self.tensors[name] = onnx_file.constant(name, element, array.shape, array.tobytes())
        return name

    def op(self, kind: str, *inputs: str, output: str = "", domain: str = "", **attributes: Attribute) -> str:
        """Add a node with one output."""
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(onnx_file.node(kind, inputs, output, attributes, domain))
        return output

    def linear(self, x: str, name: str, inputs: int, outputs: int) -> str:
        """Multiply by the transposed weight and add the bias: safetensors has one row per output."""
        if not self.is_packed(f"{name}.weight"):
            weight = self.weight(f"{name}.weight", (outputs, inputs))
            return self.op("Gemm", x, weight, self.weight(f"{name}.bias", (outputs,)), transB=1)
        numbers, scales = self.packed(f"{name}.weight", outputs, inputs, by_block=True)
        sizes: dict[str, Any] = {
            "K": inputs,
            "N": outputs,
            "bits": 4,
            "block_size": BLOCK,
            "accuracy_level": INT8_ACTIVATIONS,
        }
        bias = self.weight(f"{name}.bias", (outputs,))
        return self.op("MatMulNBits", x, numbers, scales, "", "", bias, domain=onnx_file.CONTRIB, **sizes)

    def rows(self, name: str, indices: str, shape: tuple[int, int]) -> str:
        """Return the rows of a weight that the indices name."""
        if not self.is_packed(name):
            return self.op("Gather", self.weight(name, shape), indices)
        numbers, scales = self.packed(name, *shape, by_block=False)
        blocks: dict[str, Any] = {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK, "bits": 4}
        return self.op("GatherBlockQuantized", numbers, indices, scales, domain=onnx_file.CONTRIB, **blocks)

    def _found(self, name: str, shape: tuple[int, ...], skip: int) -> StoredTensor:
        found = self._stored.get(self._prefix + name)
        if found is None:
            raise EmbeddingUnavailableError(
                f"The weights have no {name}: this is not an encoder of the BERT family, or config.json is another's."
            )
        rows, *columns = found.shape or (1,)
        # The beginning of a table may be wanted as its first row.
        wanted = (1, *shape) if len(shape) < len(found.shape) else shape
        exact = len(shape) == len(found.shape) and not skip and name != POSITIONS
        if tuple(columns) != wanted[1:] or rows < skip + wanted[0] or (exact and rows != wanted[0]):
            raise EmbeddingUnavailableError(f"The size of {name} in the weights is not the one that config.json says.")
        return found

    def _add(self, name: str, found: StoredTensor, shape: tuple[int, ...], skip: int) -> str:
        item = ITEM_BYTES[found.kind]
        start = found.offset + skip * math.prod(shape[1:]) * item
        length = math.prod(shape) * item
        self.tensors[name] = onnx_file.external(name, KINDS[found.kind], shape, self._location, start, length)
        return name


WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"


class Encoder:
    """Adds an encoder to a graph, layer by layer. `x` is one row per token of all texts of the call."""

    def __init__(self, graph: Graph, size: Architecture) -> None:
        self._graph = graph
        self._size = size

    def build(self) -> bytes:
        """Return the model: input_ids int64 (batch, length) -> hidden float32 (batch, length, width)."""
        graph, size = self._graph, self._size
        shape = graph.op("Shape", "input_ids")
        heads = graph.constant("heads", [size.heads, size.width // size.heads])
        by_head = graph.op("Concat", shape, heads, axis=0)
        x = self._embeddings(shape)
        for number in range(size.layers):
            x = self._layer(x, f"encoder.layer.{number}", by_head)
        whole = graph.op("Concat", shape, graph.constant("width", [size.width]), axis=0)
        graph.op("Reshape", x, whole, output="hidden")
        return self._model()

    def _model(self) -> bytes:
        ids = onnx_file.value("input_ids", Kind.INT64, ["batch", "length"])
        hidden = onnx_file.value("hidden", Kind.FLOAT32, ["batch", "length", self._size.width])
        tensors = list(self._graph.tensors.values())
        return onnx_file.model("encoder", self._graph.nodes, tensors, [ids], [hidden], contrib=self._graph.has_contrib)

    def _embeddings(self, shape: str) -> str:
        """Word, position and (always the first) type embeddings, normalised: one row per token of the whole batch."""
        graph, size = self._graph, self._size
        length = graph.op("Slice", shape, graph.constant("one", [1]), graph.constant("two", [2]))
        positions = graph.weight(POSITIONS, (size.longest, size.width), skip=size.first_position)
        words = graph.rows(WORDS, "input_ids", (size.vocabulary, size.width))
        typed = graph.op("Add", words, graph.weight("embeddings.token_type_embeddings.weight", (size.width,)))
        placed = graph.op("Add", typed, graph.op("Slice", positions, graph.constant("zero", [0]), length))
        return graph.op("Reshape", self._norm(placed, "embeddings.LayerNorm"), self._row_shape())

    def _layer(self, x: str, layer: str, by_head: str) -> str:
        """Attention and feed-forward, each added to its input and normalised after."""
        graph, width, inner = self._graph, self._size.width, self._size.inner_width
        attended = graph.linear(self._attention(x, layer, by_head), f"{layer}.attention.output.dense", width, width)
        x = self._norm(graph.op("Add", attended, x), f"{layer}.attention.output.LayerNorm")
        raised = graph.op("Gelu", graph.linear(x, f"{layer}.intermediate.dense", width, inner))
        lowered = graph.linear(raised, f"{layer}.output.dense", inner, width)
        return self._norm(graph.op("Add", lowered, x), f"{layer}.output.LayerNorm")

    def _attention(self, x: str, layer: str, by_head: str) -> str:
        """Multi-head self-attention of every text over its own tokens."""
        graph, size = self._graph, self._size

        def heads(name: str, axes: list[int]) -> str:
            rows = graph.linear(x, f"{layer}.attention.self.{name}", size.width, size.width)
            return graph.op("Transpose", graph.op("Reshape", rows, by_head), perm=axes)

        query, value = heads("query", [0, 2, 1, 3]), heads("value", [0, 2, 1, 3])
        scores = graph.op("MatMul", query, heads("key", [0, 2, 3, 1]))
        scale = graph.constant("scale", (size.width // size.heads) ** -0.5, np.float32)
        mixed = graph.op("MatMul", graph.op("Softmax", graph.op("Mul", scores, scale), axis=-1), value)
        return graph.op("Reshape", graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), self._row_shape())

    def _norm(self, x: str, name: str) -> str:
        """Layer normalisation over the last axis."""
        scale, bias = (self._graph.weight(f"{name}.{part}", (self._size.width,)) for part in ("weight", "bias"))
        return self._graph.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=self._size.epsilon)

    def _row_shape(self) -> str:
        return self._graph.constant("rows", [-1, self._size.width])


def build_graph(stored: Mapping[str, StoredTensor], size: Architecture, location: str) -> bytes:
    """Return the ONNX model of an encoder whose weights are in the file `location`.

    Raises EmbeddingUnavailableError if the file does not have the weights of such an encoder.
    """
    return Encoder(Graph(stored, location), size).build()


def _unusable(name: str) -> EmbeddingUnavailableError:
    return EmbeddingUnavailableError(f"{name} has a type of numbers that is not supported: use float32 or float16.")
