"""The default engine: ONNX Runtime over the official all-MiniLM-L6-v2 weights.

`minilm.onnx` holds only the graph (made by scripts/make_minilm_graph.py); its weights are byte offsets into
model.safetensors, which ONNX Runtime maps into memory. Pooling and normalisation are those of sentence-transformers:
the mean of the last hidden states, divided by max(its length, 1e-12).

Only texts with the same number of tokens share a call, so nothing is padded or masked. This is fastest on a CPU, and
every number is computed in the same order whatever else is in the call: a text always has the same vector, bit for bit.
Each call has one thread, and several run at once: threads that share a call wait for each other at every operator.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.embedder import Vectors
from vector_memory.embedding.weights import MODEL_FILE, TOKENIZER_FILE, Weights
from vector_memory.errors import EmbeddingUnavailableError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

DIMENSIONS = 384
# The model was trained on 128 tokens and reads 256 (sentence-transformers' max_seq_length), including [CLS] and [SEP].
TRAINED_TOKENS = 126
READ_TOKENS = 254
CLS, SEP = 101, 102
# Limits of one call: larger batches are not faster, and the process keeps the memory they allocate.
MAX_TEXTS = 8
MAX_TOKENS = 256
# The user needs the other CPUs.
MAX_CALLS = 4
SMALLEST_LENGTH = np.float32(1e-12)
GRAPH = "minilm.onnx"
# The placeholder for the weights' file in the graph; its fixed width allows replacement in place.
LOCATION = b"./" + b"@" * 64

Tokens = NDArray[np.int64]


class OnnxEngine:
    """Computes all-MiniLM-L6-v2 vectors on the CPU; thread-safe."""

    fingerprint = Fingerprint("all-MiniLM-L6-v2", DIMENSIONS, "fp32", "onnxruntime")
    tokens_per_vector = TRAINED_TOKENS

    def __init__(self, weights: Weights, calls: int | None = None) -> None:
        """Load the model. `calls`: how many run at once; default: one per available CPU, at most four.

        Raises EmbeddingUnavailableError if the files are not the official ones.
        """
        weights.verify(TOKENIZER_FILE)
        with ThreadPoolExecutor(1) as background:
            verified = background.submit(weights.verify, MODEL_FILE)  # hash 90 MB while the rest loads
            self._tokenizer = _load_tokenizer(weights)
            _import_runtime()  # now rather than in _open_session, while the hash is computed
            verified.result()
        self._session = _open_session(weights)
        self._calls = calls or min(MAX_CALLS, _available_cpus())

    def token_spans(self, text: str) -> list[Span]:
        """Return the spans of the tokens, in characters. A Hangul syllable has 2-3 tokens with the same span."""
        # encode_batch releases the interpreter lock; encode would hold it for 1 s on 500 kB.
        return list(itertools.starmap(Span, self._tokenizer.encode_batch([text], add_special_tokens=False)[0].offsets))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape (len(texts), 384). Only the first 254 tokens of a text are read."""
        tokens = [self._tokens(text) for text in texts]
        vectors = np.empty((len(tokens), DIMENSIONS), np.float32)

        def embed_group(group: list[int]) -> None:
            (hidden,) = self._session.run(["hidden"], {"input_ids": np.stack([tokens[index] for index in group])})
            for index, states in zip(group, hidden, strict=True):
                vectors[index] = _pool(states)

        _for_each(embed_group, list(equal_length_groups([len(each) for each in tokens])), self._calls)
        return vectors

    def _tokens(self, text: str) -> Tokens:
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return np.array([CLS, *encoding.ids[:READ_TOKENS], SEP], np.int64)


def equal_length_groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of indices with equal lengths, the longest first: at most 8 texts, and 256 tokens if several."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    for length, same in itertools.groupby(order, key=lengths.__getitem__):
        size = min(MAX_TEXTS, max(1, MAX_TOKENS // length))
        while group := list(itertools.islice(same, size)):
            yield group


def _for_each(work: Callable[[list[int]], None], groups: Sequence[list[int]], threads: int) -> None:
    """Work on every group, on several at once. A single group needs no other thread, as in a query."""
    if len(groups) == 1 or threads == 1:
        for group in groups:
            work(group)
        return
    # A pool for each use: starting threads takes 0.1 ms, and a kept one would not survive a fork.
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, groups):
            pass


def _pool(states: Vectors) -> Vectors:
    mean: Vectors = states.mean(axis=0)
    unit: Vectors = mean / np.maximum(np.sqrt(np.sum(mean * mean)), SMALLEST_LENGTH)
    return unit


def _load_tokenizer(weights: Weights) -> "Tokenizer":
    from tokenizers import Tokenizer  # noqa: PLC0415 - lazy, as everywhere in this package

    tokenizer = Tokenizer.from_file(str(weights.file(TOKENIZER_FILE)))
    tokenizer.no_truncation()  # the file configures truncation and padding to 128 tokens
    tokenizer.no_padding()
    return tokenizer


def _import_runtime() -> ModuleType:
    """Import ONNX Runtime without its telemetry, which would resolve a host and write a device id on import."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime  # noqa: PLC0415 - lazy, as everywhere in this package

    return onnxruntime  # type: ignore[no-any-return]


def _open_session(weights: Weights) -> "InferenceSession":
    onnxruntime = _import_runtime()
    model = weights.file(MODEL_FILE)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.enable_mem_pattern = False  # it plans memory for shapes that repeat; these do not
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(model.parent))
    return onnxruntime.InferenceSession(
        _graph_over(model.name),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["EmbedLayerNormFusion", "SkipLayerNormFusion"],  # both make this model slower
    )


def _graph_over(file_name: str) -> bytes:
    """Return the graph with the path of the weights' file, which may be a blob in the Hugging Face cache."""
    location = b"./" + file_name.encode().rjust(len(LOCATION) - 2, b"/")  # `.///name` is `name`
    if len(location) != len(LOCATION):
        raise EmbeddingUnavailableError("The name of the file that model.safetensors links to is too long: rename it.")
    return (files("vector_memory.embedding") / GRAPH).read_bytes().replace(LOCATION, location)


def _available_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
