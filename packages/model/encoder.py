"""What the packages of models are built with: a BERT encoder as an ONNX model, from token ids to last hidden states.

Every weight is an external tensor: an offset into a file beside the model, which ONNX Runtime maps into memory. The
architecture is BERT's (Devlin et al., 2018, arXiv:1810.04805) without dropout, pooler and mask; the mask is not needed
because only texts of equal length share a call.

A weight of 4 bits is stored as two tensors: `NAME`, bytes with two numbers each, the first in the low half, and
`NAME.scales`, one float for each block of 32 numbers. A number n of a block with scale s stands for (n - 8) * s.
"""

import json
import math
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


@contextmanager
def fetched(requirement: Path) -> Iterator[Path]:
    """Yield a folder with a package of the index, without what that package declares as a dependency."""
    # uv tells builds where it is. Index and cache are those of the installer that runs the build.
    installer = [os.environ["UV"], "pip"] if "UV" in os.environ else [sys.executable, "-m", "pip"]
    with tempfile.TemporaryDirectory(dir=requirement.parent) as scratch:
        options = ["--no-deps", "--require-hashes", "--target", scratch, "--requirement", requirement]
        subprocess.run([*installer, "install", "--quiet", *options], check=True)
        yield Path(scratch)


# The few messages of ONNX's protocol buffers that an encoder needs; the numbers are those of onnx.proto. Fields are
# written in their order, so the same graph gives the same bytes.

IR_VERSION, OPSET, CONTRIB_OPSET = 10, 20, 1
CONTRIB = "com.microsoft"
FLOAT, UINT8, INT64 = 1, 2, 7
"""Types of numbers."""

ITEM_BYTES = {FLOAT: 4, UINT8: 1}
CONTINUED = 128
"""The bit of a byte that says that the number continues; the other seven bits are a part of it."""


def varint(number: int) -> bytes:
    """Return a number as protocol buffers have it, seven bits in each byte."""
    encoded = bytearray()
    while number >= CONTINUED:
        encoded.append(number % CONTINUED | CONTINUED)
        number //= CONTINUED
    return bytes([*encoded, number])


def field(number: int, value: int | str | bytes) -> bytes:
    """Return a field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(number: int, values: Sequence[int | str | bytes]) -> bytes:
    """Return a repeated field of a message."""
    return b"".join(field(number, each) for each in values)


def attribute(name: str, value: float | Sequence[int]) -> bytes:
    """Return an attribute of a node."""
    if isinstance(value, float):
        return field(1, name) + b"\x15" + struct.pack("<f", value) + field(20, 1)
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    return field(1, name) + fields(8, value) + field(20, 7)


def tensor(name: str, kind: int, shape: Sequence[int]) -> bytes:
    """Return what a tensor is, without its numbers."""
    return fields(1, shape) + field(2, kind) + field(8, name)


def described(name: str, kind: int, axes: Sequence[str | int]) -> bytes:
    """Return the description of an input or output. `axes`: names of those of any length, or their lengths."""
    lengths = fields(1, [field(2 if isinstance(axis, str) else 1, axis) for axis in axes])
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, lengths)))


class Stored(NamedTuple):
    """A weight in the file: the type of its numbers, its shape, and the byte of the file where it begins."""

    kind: int
    shape: tuple[int, ...]
    offset: int


def stored_in(weights: Path) -> dict[str, Stored]:
    """Return where the 32-bit floats of a safetensors file are, by their names."""
    with weights.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    return {
        name: Stored(FLOAT, tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
        if entry.get("dtype") == "F32"
    }


BLOCK = 32
INT8_ACTIVATIONS = 4
"""`accuracy_level` of MatMulNBits: the inputs of a 4-bit product are rounded to 8 bits, block by block."""

WORDS = "embeddings.word_embeddings.weight"


class Encoder:
    """Collects nodes and tensors. Each method adds some and returns the name of the result."""

    def __init__(self, stored: Mapping[str, Stored], location: str, heads: int, epsilon: float) -> None:
        """`location`: the path of the weights' file, from the folder of the model."""
        self._stored = stored
        self._location = location
        self._heads = heads
        self._epsilon = epsilon
        self._width = stored["embeddings.LayerNorm.bias"].shape[0]
        self._nodes: list[bytes] = []
        self._tensors: dict[str, bytes] = {}

    def build(self) -> bytes:
        """Return the model: input_ids int64 (batch, length) -> hidden float32 (batch, length, width)."""
        shape = self._op("Shape", "input_ids")
        by_head = self._op("Concat", shape, self._integers("heads", self._heads, self._width // self._heads), axis=0)
        x = self._embeddings(shape)
        layers = sum(name.endswith("attention.self.query.bias") for name in self._stored)
        for number in range(layers):
            x = self._layer(x, f"encoder.layer.{number}", by_head)
        whole = self._op("Concat", shape, self._integers("width", self._width), axis=0)
        self._op("Reshape", x, whole, output="hidden")
        ids = described("input_ids", INT64, ["batch", "length"])
        hidden = described("hidden", FLOAT, ["batch", "length", self._width])
        graph = fields(1, self._nodes) + field(2, "encoder") + fields(5, list(self._tensors.values()))
        domains = field(8, field(1, "") + field(2, OPSET)) + field(8, field(1, CONTRIB) + field(2, CONTRIB_OPSET))
        return field(1, IR_VERSION) + field(7, graph + field(11, ids) + field(12, hidden)) + domains

    def _embeddings(self, shape: str) -> str:
        """Word, position and (always the first) type embeddings, normalised: one row per token of the whole batch."""
        length = self._op("Slice", shape, self._integers("one", 1), self._integers("two", 2))
        positions = self._weight("embeddings.position_embeddings.weight")
        words = self._rows(WORDS, "input_ids")
        typed = self._op("Add", words, self._weight("embeddings.token_type_embeddings.weight", (self._width,)))
        placed = self._op("Add", typed, self._op("Slice", positions, self._integers("zero", 0), length))
        return self._op("Reshape", self._norm(placed, "embeddings.LayerNorm"), self._row_shape())

    def _layer(self, x: str, layer: str, by_head: str) -> str:
        """Attention and feed-forward, each added to its input and normalised after."""
        attended = self._linear(self._attention(x, layer, by_head), f"{layer}.attention.output.dense")
        x = self._norm(self._op("Add", attended, x), f"{layer}.attention.output.LayerNorm")
        raised = self._op("Gelu", self._linear(x, f"{layer}.intermediate.dense"))
        lowered = self._linear(raised, f"{layer}.output.dense")
        return self._norm(self._op("Add", lowered, x), f"{layer}.output.LayerNorm")

    def _attention(self, x: str, layer: str, by_head: str) -> str:
        """Multi-head self-attention of every text over its own tokens."""

        def heads(name: str, *axes: int) -> str:
            rows = self._linear(x, f"{layer}.attention.self.{name}")
            return self._op("Transpose", self._op("Reshape", rows, by_head), perm=axes)

        query, value = heads("query", 0, 2, 1, 3), heads("value", 0, 2, 1, 3)
        scores = self._op("MatMul", query, heads("key", 0, 2, 3, 1))
        scale = self._constant("scale", FLOAT, [], struct.pack("<f", (self._width // self._heads) ** -0.5))
        mixed = self._op("MatMul", self._op("Softmax", self._op("Mul", scores, scale), axis=-1), value)
        return self._op("Reshape", self._op("Transpose", mixed, perm=(0, 2, 1, 3)), self._row_shape())

    def _linear(self, x: str, name: str) -> str:
        """Multiply by the transposed weight, which has one row per output, and add the bias."""
        weight, bias = f"{name}.weight", self._weight(f"{name}.bias")
        if not self._is_packed(weight):
            return self._op("Gemm", x, self._weight(weight), bias, transB=1)
        outputs, blocks = self._stored[f"{weight}.scales"].shape
        sizes = {"K": blocks * BLOCK, "N": outputs, "bits": 4, "block_size": BLOCK, "accuracy_level": INT8_ACTIVATIONS}
        numbers = self._weight(weight, (outputs, blocks, BLOCK // 2))
        scales = self._weight(f"{weight}.scales")
        return self._op("MatMulNBits", x, numbers, scales, "", "", bias, domain=CONTRIB, **sizes)

    def _rows(self, name: str, indices: str) -> str:
        """Return the rows of a weight that the indices name."""
        if not self._is_packed(name):
            return self._op("Gather", self._weight(name), indices)
        sizes = {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK, "bits": 4}
        scales = self._weight(f"{name}.scales")
        return self._op("GatherBlockQuantized", self._weight(name), indices, scales, domain=CONTRIB, **sizes)

    def _norm(self, x: str, name: str) -> str:
        """Layer normalisation over the last axis."""
        scale, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self._op("LayerNormalization", x, scale, bias, axis=-1, epsilon=self._epsilon)

    def _row_shape(self) -> str:
        return self._integers("rows", -1, self._width)

    def _is_packed(self, name: str) -> bool:
        return f"{name}.scales" in self._stored

    def _weight(self, name: str, shape: tuple[int, ...] | None = None) -> str:
        """Add a weight. `shape`: of its beginning, if not its own."""
        kind, own, offset = self._stored[name]
        length = math.prod(shape or own) * ITEM_BYTES[kind]
        places = {"location": self._location, "offset": str(offset), "length": str(length)}
        external = fields(13, [field(1, key) + field(2, value) for key, value in places.items()]) + field(14, 1)
        self._tensors[name] = tensor(name, kind, shape or own) + external
        return name

    def _integers(self, name: str, *values: int) -> str:
        return self._constant(name, INT64, [len(values)], struct.pack(f"<{len(values)}q", *values))

    def _constant(self, name: str, kind: int, shape: Sequence[int], data: bytes) -> str:
        """Add a constant; the same name always has the same value."""
        self._tensors[name] = tensor(name, kind, shape) + field(9, data)
        return name

    def _op(
        self, kind: str, *inputs: str, output: str = "", domain: str = "", **attributes: float | Sequence[int]
    ) -> str:
        """Add a node with one output. `domain`: empty for ONNX's own operators."""
        output = output or f"{kind}_{len(self._nodes)}"
        named = fields(5, [attribute(*each) for each in sorted(attributes.items())])
        self._nodes.append(fields(1, inputs) + field(2, output) + field(4, kind) + named + field(7, domain))
        return output
