"""Models with tiny random weights, each in a folder, and their forward pass in numpy."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from encoder import BLOCK, FLOAT, INT64, UINT8, Encoder, Stored, field, fields, tensor
from encoder import described as value
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from vector_memory.embedding.model_folder import ModelFolder
from vector_memory.embedding.weights import described

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "lease", "queue", "the", "of", "a", "one", "##s", "shard", ",", ";", ":"]
WORDS += ["query", "passage"]
PIECES = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "▁lease",
    "▁queue",
    "▁the",
    "▁of",
    "▁a",
    "▁one",
    "s",
    "▁shard",
    ",",
    ";",
    ":",
]
PIECES += ["▁query", "▁passage", "▁"]
WIDTH, HEADS, INNER, LAYERS, POSITIONS, EPSILON = 64, 4, 96, 2, 64, 1e-5
Numbers = NDArray[np.float32]

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "mean": {},
    "cls": {"pooling": "cls"},
    "a unigram tokenizer": {"unigram": True},
    "4 bits": {"kind": UINT8},
}


class Tiny:
    """A model in a folder. `weights`: as 32-bit floats, by their names. `stored`: where they are in the file."""

    def __init__(
        self, folder: Path, pooling: str = "mean", kind: int = FLOAT, name: str = "model.onnx",
        data: str = "model.onnx.data", *, unigram: bool = False,
    ) -> None:  # fmt: skip
        self.folder, self.pooling, self.kind, self.unigram = folder, pooling, kind, unigram
        self.tolerance = 0.01 if kind == UINT8 else 2e-6
        self.vocabulary = len(PIECES if self.unigram else WORDS)
        self.description: dict[str, Any] = {
            "name": "tiny", "pooling": pooling, "query_prefix": "query: ", "passage_prefix": "passage: ",
            "tokens": POSITIONS - 2, "passage_tokens": POSITIONS - 2,
        }  # fmt: skip
        self.tokenizer = self._tokenizer()
        self.weights: dict[str, Numbers] = {}
        self.stored: dict[str, Stored] = {}
        model = folder / name
        model.parent.mkdir(exist_ok=True)
        self._write_weights(model.parent / data)
        model.write_bytes(Encoder(self.stored, data, HEADS, EPSILON).build())
        self.describe()

    def describe(self, **change: Any) -> None:
        (self.folder / "vector-memory.json").write_text(json.dumps(self.description | change))

    def model(self) -> ModelFolder:
        return described(self.folder, "a test")

    def tokens(self, text: str) -> list[int]:
        found: list[int] = self.tokenizer.encode(text).ids
        return [*found[: POSITIONS - 1], found[-1]] if len(found) > POSITIONS else found

    def _tokenizer(self) -> Tokenizer:
        if self.unigram:
            tokenizer = Tokenizer(models.Unigram([(piece, -float(at)) for at, piece in enumerate(PIECES)], unk_id=3))
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
            first, last = ("<s>", 0), ("</s>", 2)
        else:
            tokenizer = Tokenizer(models.WordPiece({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))  # noqa: S106
            tokenizer.normalizer = normalizers.BertNormalizer()
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            first, last = ("[CLS]", 2), ("[SEP]", 3)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{first[0]} $A {last[0]}", special_tokens=[first, last]
        )
        tokenizer.enable_truncation(16)  # which the engine must switch off
        tokenizer.enable_padding(length=16)
        copy = Tokenizer.from_str(tokenizer.to_str())
        copy.no_truncation()
        copy.no_padding()
        tokenizer.save(str(self.folder / "tokenizer.json"))
        return copy

    def _write_weights(self, file: Path) -> None:
        drawn = np.random.default_rng(7)
        shapes: dict[str, tuple[int, ...]] = {
            "embeddings.word_embeddings.weight": (self.vocabulary, WIDTH),
            "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
            "embeddings.token_type_embeddings.weight": (2, WIDTH),
            "embeddings.LayerNorm.weight": (WIDTH,),
            "embeddings.LayerNorm.bias": (WIDTH,),
        }
        for layer in range(LAYERS):
            here = f"encoder.layer.{layer}"
            for part, rows, columns in (
                *((f"attention.self.{name}", WIDTH, WIDTH) for name in ("query", "key", "value")),
                ("attention.output.dense", WIDTH, WIDTH),
                ("intermediate.dense", INNER, WIDTH),
                ("output.dense", WIDTH, INNER),
            ):
                shapes[f"{here}.{part}.weight"] = (rows, columns)
                shapes[f"{here}.{part}.bias"] = (rows,)
            for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
                shapes[f"{here}.{norm}.weight"] = shapes[f"{here}.{norm}.bias"] = (WIDTH,)
        with file.open("wb") as data:
            for name, shape in shapes.items():
                numbers = drawn.normal(0, 0.2, shape).astype(np.float32) + (1 if name.endswith("Norm.weight") else 0)
                for key, stored in self._rounded(name, numbers.astype(np.float32)).items():
                    kind = UINT8 if stored.dtype == np.uint8 else FLOAT
                    self.stored[key] = Stored(kind, stored.shape, data.tell())
                    data.write(stored.tobytes())

    def _rounded(self, name: str, numbers: Numbers) -> dict[str, NDArray[Any]]:
        """Return how a weight is stored, and keep what it then stands for."""
        is_matrix = numbers.ndim == 2 and "position" not in name and "type" not in name
        self.weights[name] = numbers
        if self.kind == FLOAT or not is_matrix:
            return {name: numbers}
        blocks = numbers.reshape(len(numbers), -1, BLOCK)
        scales = np.abs(blocks).max(-1) / 7
        levels = np.round(blocks / scales[..., None]).astype(np.int8)
        self.weights[name] = (levels * scales[..., None]).reshape(numbers.shape).astype(np.float32)
        halves = (levels + 8).astype(np.uint8).reshape(numbers.shape)
        return {name: halves[:, 0::2] | halves[:, 1::2] << 4, f"{name}.scales": scales.astype(np.float32)}


def looked_up(table: Numbers) -> bytes:
    """Return a model in one file whose states are the rows of a table."""
    node = fields(1, ["table", "input_ids"]) + field(2, "hidden") + field(4, "Gather")
    ids = value("input_ids", INT64, ["batch", "length"])
    hidden = value("hidden", FLOAT, ["batch", "length", *table.shape[1:]])
    numbers = tensor("table", FLOAT, table.shape) + field(9, table.tobytes())
    graph = field(1, node) + field(2, "m") + field(5, numbers) + field(11, ids) + field(12, hidden)
    return field(1, 10) + field(7, graph) + field(8, field(1, "") + field(2, 20))


def forward(tiny: Tiny, tokens: list[int]) -> Numbers:
    """Return the vector of a text: BERT's encoder, pooled, of length one. In 64 bits."""
    weights = {name: each.astype(np.float64) for name, each in tiny.weights.items()}

    def linear(x: NDArray[Any], name: str) -> NDArray[Any]:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: NDArray[Any], name: str) -> NDArray[Any]:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["embeddings.word_embeddings.weight"][tokens]
    x = x + weights["embeddings.position_embeddings.weight"][: len(tokens)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        query, key, value = (
            linear(x, f"{layer}.attention.self.{name}").reshape(len(tokens), HEADS, -1).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        weighed = np.exp(query @ key.transpose(0, 2, 1) / np.sqrt(WIDTH // HEADS))
        mixed = (weighed / weighed.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(tokens), WIDTH)
        x = norm(linear(mixed, f"{layer}.attention.output.dense") + x, f"{layer}.attention.output.LayerNorm")
        raised = linear(x, f"{layer}.intermediate.dense")
        x = norm(linear(_gelu(raised), f"{layer}.output.dense") + x, f"{layer}.output.LayerNorm")
    pooled = x.mean(0) if tiny.pooling == "mean" else x[0]
    vector: Numbers = (pooled / np.linalg.norm(pooled)).astype(np.float32)
    return vector


def _gelu(x: NDArray[Any]) -> NDArray[Any]:
    return x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2
