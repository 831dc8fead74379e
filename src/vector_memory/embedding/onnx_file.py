"""Writes ONNX models without the `onnx` package: the few messages of its protocol buffers that an encoder needs.

The numbers are those of onnx.proto. Fields are written in their order, so the same graph gives the same bytes.
"""

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum

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
