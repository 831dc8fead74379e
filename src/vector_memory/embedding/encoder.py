"""Builds the graph of a BERT-family encoder over its safetensors file: from token ids to the last hidden states.

Every weight is an external tensor: an offset into the file, which ONNX Runtime maps into memory. The architecture is
BERT's (Devlin et al., 2018, arXiv:1810.04805) without dropout, pooler and mask; the mask is not needed because only
texts of equal length share a call. XLM-RoBERTa differs in its first position and in its tokenizer.

A weight of 4 bits is stored as two tensors: `NAME`, bytes with two numbers each, the first in the low half, and
`NAME.scales`, one float for each block of 32 numbers. A number n of a block with scale s stands for (n - 8) * s.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vector_memory.embedding.model_folder import Architecture
from vector_memory.embedding.safetensors import ITEM_BYTES, StoredTensor
from vector_memory.errors import EmbeddingUnavailableError

# Writes ONNX models without the `onnx` package: the few messages of its protocol buffers that an encoder needs.
#
# The numbers are those of onnx.proto. Fields are written in their order, so the same graph gives the same bytes.

IR_VERSION, OPSET, CONTRIB_OPSET = 10, 20, 1
CONTRIB = "com.microsoft"
PRODUCER = "vector-memory"
EXTERNAL = 1
"""`data_location` of a tensor whose numbers are in another file."""

CONTINUED = 128
"""The bit of a byte that says that the number continues; the other seven bits are a part of it."""

Attribute = int | float | Sequence[int]


class Kind(IntEnum):
    """The element types of tensors."""

    FLOAT32 = 1
    UINT8 = 2
    INT64 = 7
    FLOAT16 = 10
    BFLOAT16 = 16
    INT4 = 22


def node(kind: str, inputs: Sequence[str], output: str, attributes: Mapping[str, Attribute], domain: str = "") -> bytes:
    """Return a node with one output. `domain`: empty for ONNX's own operators."""
    named = sorted(attributes.items())
    return b"".join((
        *(_string(1, each) for each in inputs), _string(2, output), _string(4, kind),
        *(_bytes(5, _attribute(name, value)) for name, value in named), _string(7, domain) if domain else b"",
    ))  # fmt: skip


def constant(name: str, kind: Kind, shape: Sequence[int], data: bytes) -> bytes:
    """Return a tensor with its numbers, little-endian."""
    return _tensor(shape, kind, name) + _bytes(9, data)


def external(name: str, kind: Kind, shape: Sequence[int], location: str, offset: int, length: int) -> bytes:
    """Return a tensor whose numbers are `length` bytes of the file `location`, from `offset` on."""
    places = {"location": location, "offset": str(offset), "length": str(length)}
    entries = (_bytes(13, _string(1, key) + _string(2, value)) for key, value in places.items())
    return b"".join((_tensor(shape, kind, name), *entries, _integer(14, EXTERNAL)))


def value(name: str, kind: Kind, axes: Sequence[str | int]) -> bytes:
    """Return the description of an input or output. `axes`: names of those of any length, or their lengths."""
    lengths = (_bytes(1, _string(2, axis) if isinstance(axis, str) else _integer(1, axis)) for axis in axes)
    tensor = _integer(1, kind) + _bytes(2, b"".join(lengths))
    return _string(1, name) + _bytes(2, _bytes(1, tensor))


def model(
    name: str,
    nodes: Sequence[bytes],
    tensors: Sequence[bytes],
    inputs: Sequence[bytes],
    outputs: Sequence[bytes],
    *,
    contrib: bool,
) -> bytes:
    """Return the file. `contrib`: whether it has operators of ONNX Runtime's own."""
    graph = b"".join((
        *(_bytes(1, each) for each in nodes), _string(2, name), *(_bytes(5, each) for each in tensors),
        *(_bytes(11, each) for each in inputs), *(_bytes(12, each) for each in outputs),
    ))  # fmt: skip
    own = _bytes(8, _string(1, "") + _integer(2, OPSET))
    extra = _bytes(8, _string(1, CONTRIB) + _integer(2, CONTRIB_OPSET)) if contrib else b""
    return b"".join((_integer(1, IR_VERSION), _string(2, PRODUCER), _bytes(7, graph), own, extra))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _string(1, name) + b"\x15" + struct.pack("<f", value) + _integer(20, 1)
    if isinstance(value, int):
        return _string(1, name) + _integer(3, value) + _integer(20, 2)
    return b"".join((_string(1, name), *(_integer(8, each) for each in value), _integer(20, 7)))


def _tensor(shape: Sequence[int], kind: Kind, name: str) -> bytes:
    return b"".join((*(_integer(1, size) for size in shape), _integer(2, kind), _string(8, name)))


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def _string(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= CONTINUED:
        encoded.append(number % CONTINUED | CONTINUED)
        number //= CONTINUED
    return bytes([*encoded, number])


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
        self.tensors[name] = constant(name, element, array.shape, array.tobytes())
        return name

    def op(self, kind: str, *inputs: str, output: str = "", domain: str = "", **attributes: Attribute) -> str:
        """Add a node with one output."""
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(node(kind, inputs, output, attributes, domain))
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
        return self.op("MatMulNBits", x, numbers, scales, "", "", bias, domain=CONTRIB, **sizes)

    def rows(self, name: str, indices: str, shape: tuple[int, int]) -> str:
        """Return the rows of a weight that the indices name."""
        if not self.is_packed(name):
            return self.op("Gather", self.weight(name, shape), indices)
        numbers, scales = self.packed(name, *shape, by_block=False)
        blocks: dict[str, Any] = {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK, "bits": 4}
        return self.op("GatherBlockQuantized", numbers, indices, scales, domain=CONTRIB, **blocks)

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
        self.tensors[name] = external(name, KINDS[found.kind], shape, self._location, start, length)
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
        ids = value("input_ids", Kind.INT64, ["batch", "length"])
        hidden = value("hidden", Kind.FLOAT32, ["batch", "length", self._size.width])
        tensors = list(self._graph.tensors.values())
        return model("encoder", self._graph.nodes, tensors, [ids], [hidden], contrib=self._graph.has_contrib)

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
