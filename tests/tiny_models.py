"""Models of the BERT family with tiny random weights, each in a folder, and their forward pass in numpy."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from vector_memory.embedding import safetensors
from vector_memory.embedding.encoder import BLOCK
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
WIDTH, HEADS, INNER, LAYERS, EPSILON = 64, 4, 96, 2, 1e-5
Numbers = NDArray[np.float32]
Tensor = tuple[str, tuple[int, ...], bytes]

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bert, mean": {},
    "bert, cls": {"pooling": "cls"},
    "bert, names with a prefix": {"prefix": "bert."},
    "xlm-roberta, mean": {"family": "xlm-roberta"},
    "roberta, cls": {"family": "roberta", "pooling": "cls", "prefix": "roberta."},
    "bert with a unigram tokenizer": {"unigram": True},
    "16-bit floats": {"kind": "F16"},
    "brain floats": {"kind": "BF16"},
    "4 bits": {"kind": "U8"},
}


class Tiny:
    """A model in a folder. Attributes: `weights` as 32-bit floats, by the names without the prefix."""

    def __init__(
        self, folder: Path, family: str = "bert", pooling: str = "mean", prefix: str = "", kind: str = "F32",
        unigram: bool | None = None, positions: int = 64,
    ) -> None:  # fmt: skip
        self.folder, self.pooling, self.prefix, self.kind = folder, pooling, prefix, kind
        self.first_position = 0 if family == "bert" else 2
        self.unigram = family != "bert" if unigram is None else unigram
        self.positions = positions
        self.tolerance = 0.01 if kind == "U8" else 2e-6
        self.vocabulary = len(PIECES if self.unigram else WORDS)
        self.config: dict[str, Any] = {
            "model_type": family, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "intermediate_size": INNER, "vocab_size": self.vocabulary, "max_position_embeddings": positions,
            "layer_norm_eps": EPSILON, "hidden_act": "gelu", "pad_token_id": self.first_position and 1,
        }  # fmt: skip
        self.description: dict[str, Any] = {
            "name": "tiny", "pooling": pooling, "query_prefix": "query: ", "passage_prefix": "passage: ",
        }  # fmt: skip
        self.tokenizer = self._tokenizer()
        self.weights: dict[str, Numbers] = {}
        self._write_weights()
        self.tokenizer.save(str(folder / "tokenizer.json"))
        self.configure()
        self.describe()

    def configure(self, **change: Any) -> None:
        (self.folder / "config.json").write_text(json.dumps(self.config | change))

    def describe(self, **change: Any) -> None:
        (self.folder / "vector-memory.json").write_text(json.dumps(self.description | change))

    def add(self, tensors: dict[str, Tensor]) -> None:
        """Write the weights with further ones."""
        safetensors.write(self.folder / "model.safetensors", tensors | self.tensors)

    def model(self) -> ModelFolder:
        return described(self.folder, "a test")

    def tokens(self, text: str) -> list[int]:
        found: list[int] = self.tokenizer.encode(text).ids
        longest = self.positions - self.first_position
        return [*found[: longest - 1], found[-1]] if len(found) > longest else found

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

    def _write_weights(self) -> None:
        drawn = np.random.default_rng(7)
        shapes: dict[str, tuple[int, ...]] = {
            "embeddings.word_embeddings.weight": (self.vocabulary, WIDTH),
            "embeddings.position_embeddings.weight": (self.positions, WIDTH),
            "embeddings.token_type_embeddings.weight": (2 if self.first_position == 0 else 1, WIDTH),
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
        tensors: dict[str, Tensor] = {}
        for name, shape in shapes.items():
            numbers = drawn.normal(0, 0.2, shape).astype(np.float32) + (1 if name.endswith("Norm.weight") else 0)
            for key, stored in self._stored(name, numbers.astype(np.float32)):
                tensors[self.prefix + key] = stored
        self.tensors = tensors
        self.add({})

    def _stored(self, name: str, numbers: Numbers) -> list[tuple[str, tuple[str, tuple[int, ...], bytes]]]:
        """Return how a weight is stored, and keep what it then stands for."""
        is_matrix = numbers.ndim == 2 and "position" not in name and "type" not in name
        if self.kind == "U8" and is_matrix:
            blocks = numbers.reshape(len(numbers), -1, BLOCK)
            scales = np.abs(blocks).max(-1) / 7
            levels = np.round(blocks / scales[..., None]).astype(np.int8)
            self.weights[name] = (levels * scales[..., None]).reshape(numbers.shape).astype(np.float32)
            halves = (levels + 8).astype(np.uint8).reshape(numbers.shape)
            packed = halves[:, 0::2] | halves[:, 1::2] << 4
            return [(name, ("U8", packed.shape, packed.tobytes())), (f"{name}.scales", _floats(scales))]
        if self.kind == "F16":
            half = numbers.astype(np.float16)
            self.weights[name] = half.astype(np.float32)
            return [(name, ("F16", numbers.shape, half.tobytes()))]
        if self.kind == "BF16":
            upper = (numbers.view(np.uint32) >> 16).astype(np.uint16)
            self.weights[name] = (upper.astype(np.uint32) << 16).view(np.float32)
            return [(name, ("BF16", numbers.shape, upper.tobytes()))]
        self.weights[name] = numbers
        return [(name, _floats(numbers))]


def _floats(numbers: NDArray[Any]) -> tuple[str, tuple[int, ...], bytes]:
    return "F32", numbers.shape, numbers.astype(np.float32).tobytes()


def forward(tiny: Tiny, tokens: list[int]) -> Numbers:
    """Return the vector of a text: BERT's encoder, pooled, of length one. In 64 bits."""
    weights = {name: each.astype(np.float64) for name, each in tiny.weights.items()}

    def linear(x: NDArray[Any], name: str) -> NDArray[Any]:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: NDArray[Any], name: str) -> NDArray[Any]:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    places = np.arange(len(tokens)) + tiny.first_position
    x = weights["embeddings.word_embeddings.weight"][tokens]
    x = x + weights["embeddings.position_embeddings.weight"][places]
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
