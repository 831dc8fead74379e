"""Reads where the weights are in a safetensors file: 8 bytes with the length of a JSON header, the header, the numbers.

The format has no code in it. Everything the header says is checked before it is used.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vector_memory.errors import EmbeddingUnavailableError

MIN_HEADER = 2  # `{}`
MAX_HEADER = 4_000_000
"""Bytes; the header of an encoder with 24 layers has 50,000."""

ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "U8": 1, "I64": 8}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in the file: the type of its numbers, its shape, and the byte of the file where it begins."""

    kind: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return math.prod(self.shape) * ITEM_BYTES[self.kind]


def read_header(file: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a file by their names.

    Raises EmbeddingUnavailableError if it is no safetensors file, or its header contradicts itself.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not MIN_HEADER <= length <= min(MAX_HEADER, size - 8):
            raise _broken(file)
        header = stream.read(length)
    try:
        named = json.loads(header)
        named.pop("__metadata__", None)
        return {name: _stored(entry, 8 + length, size) for name, entry in named.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _broken(file) from error


def write(file: Path, tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> None:
    """Write a file; each tensor is the type of its numbers, its shape, and the numbers."""
    header: dict[str, Any] = {}
    end = 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 64)  # so that the numbers are aligned
    with file.open("wb") as stream:
        stream.write(len(encoded).to_bytes(8, "little") + encoded)
        for _kind, _shape, data in tensors.values():
            stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _stored(entry: Mapping[str, Any], data_start: int, file_size: int) -> StoredTensor:
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if not all(type(number) is int and number >= 0 for number in (begin, end, *shape)):
        raise ValueError("a number of the header is no count")
    found = StoredTensor(str(entry["dtype"]), shape, data_start + begin)
    if found.kind in ITEM_BYTES and found.size != end - begin:
        raise ValueError("a tensor is longer or shorter than its shape")
    if data_start + end > file_size:
        raise ValueError("a tensor is not inside the file")
    return found


def _broken(file: Path) -> EmbeddingUnavailableError:
    return EmbeddingUnavailableError(f"{file.name} is damaged or not a safetensors file: download it again.")
