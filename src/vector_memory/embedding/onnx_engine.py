"""The engine for models of the BERT family: a tokenizer, and ONNX Runtime on the CPU.

Weights in a separate file are mapped into memory. A text's vector is the mean of the last hidden states, or the first
of them, divided by max(its length, 1e-12), as in sentence-transformers. If the model has a file for it, its language is
then removed (see `LanguageBias`).

Only texts with the same number of tokens share a call, so nothing is padded or masked. This is fastest on a CPU, and a
text always has the same vector, bit for bit, whatever else is in the call. Each call has one thread, and several run at
once: threads that share a call wait for each other at every operator.
"""

import itertools
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.description import UNREADABLE, Calibration
from vector_memory.embedding.embedder import Embedder, Encoded, EncodedQuestion, Vectors, require_unit_length
from vector_memory.embedding.model_folder import BIAS_FILE, TOKENIZER_FILE, ModelFolder
from vector_memory.embedding.token_states import Content, States, of_question, packed
from vector_memory.errors import EmbeddingUnavailableError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding


SPECIAL_TOKENS = 2
UNKNOWN_TOKENS = ("[UNK]", "<unk>")
UNUSUAL = "\u13a6 \U00010380"
"""Letters that hardly any vocabulary has: a tokenizer without an unknown token fails on them."""

WORD = re.compile(r"[^ \t\r\n]+")
LONGEST_KNOWN, MOST_KNOWN = 64, 32_768
"""Maximum length and number of words whose tokens are cached: about 8 MB."""

Tokens = NDArray[np.int64]


class ModelTokenizer:
    """A model's tokenizer. Its methods raise EmbeddingUnavailableError if it fails on a text."""

    def __init__(self, model: ModelFolder) -> None:
        """Read the model's file. Raises EmbeddingUnavailableError if it cannot be used."""
        from tokenizers import Tokenizer  # noqa: PLC0415 - lazy, as everywhere in this package
        from tokenizers.pre_tokenizers import BertPreTokenizer  # noqa: PLC0415

        try:
            self._tokenizer = Tokenizer.from_file(str(model.file(TOKENIZER_FILE)))
        except Exception as error:  # the library raises nothing more specific
            raise model.unusable(TOKENIZER_FILE, "is not a tokenizer's file") from error
        self._tokenizer.no_truncation()  # the file may configure truncation and padding
        self._tokenizer.no_padding()
        self._reads_words_alone = isinstance(self._tokenizer.pre_tokenizer, BertPreTokenizer)
        self._known: dict[str, Sequence[Span]] = {}
        self.token = self._tokenizer.id_to_token
        """Returns the text of a token in the vocabulary; None if there is no such token."""
        _encoding_of(self._tokenizer.encode_batch, UNUSUAL)
        self.special = self._tokenizer.encode("").ids
        if len(self.special) != SPECIAL_TOKENS:
            raise model.unusable(TOKENIZER_FILE, "must put one token before a text and one after it")

    def tokens(self, text: str, longest: int) -> Tokens:
        """Return the first `longest` tokens of a text between the special ones."""
        encoding = _encoding_of(self._tokenizer.encode_batch_fast, text)
        first, last = self.special
        return np.array([first, *encoding.ids[:longest], last], np.int64)

    def spans(self, text: str) -> list[Span]:
        """Return the spans of the tokens, in characters. A Hangul syllable has 2-3 tokens with the same span."""
        if not self._reads_words_alone:
            return self._spans(text)
        words = [(found.start(), found[0]) for found in WORD.finditer(text)]
        if len(self._known) > MOST_KNOWN:
            self._known = {}
        known = self._known  # another thread may replace it
        new = self._spans_of(list(dict.fromkeys(word for _, word in words if word not in known)))
        known.update((word, spans) for word, spans in new.items() if len(word) <= LONGEST_KNOWN)
        return [
            Span(at + start, at + end)
            for at, word in words
            for start, end in (new[word] if word in new else known[word])
        ]

    def _spans_of(self, words: Sequence[str]) -> dict[str, Sequence[Span]]:
        spans = self._spans(" ".join(words)) if words else []
        found, first, at = dict[str, Sequence[Span]](), 0, 0
        for word in words:
            last = bisect_left(spans, at + len(word), first, key=attrgetter("start"))
            found[word] = tuple(Span(start - at, end - at) for start, end in spans[first:last])
            first, at = last, at + len(word) + 1
        return found

    def _spans(self, text: str) -> list[Span]:
        # encode_batch releases the interpreter lock; encode would hold it for 1 s on 500 kB.
        return list(itertools.starmap(Span, _encoding_of(self._tokenizer.encode_batch, text).offsets))

    def unknown_characters(self, text: str) -> int:
        """Count the characters without a token, such as those of an unknown script."""
        encoding = _encoding_of(self._tokenizer.encode_batch, text)
        unknown = [self._tokenizer.token_to_id(token) for token in UNKNOWN_TOKENS]
        spans = (span for token, span in zip(encoding.ids, encoding.offsets, strict=True) if token in unknown)
        return sum(end - start for start, end in spans)


def _encoding_of(encode: Callable[..., list["Encoding"]], text: str) -> "Encoding":
    """Return the tokens of a text without special ones. Raises EmbeddingUnavailableError if the tokenizer fails."""
    try:
        return encode([text], add_special_tokens=False)[0]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library is not an Exception
        raise EmbeddingUnavailableError(
            f"The model's {TOKENIZER_FILE} cannot read every text: download the model again."
        ) from error


# Limits of one call: larger batches are not faster, and the process keeps the memory they allocate.
MAX_TEXTS = 8
MAX_TOKENS = 256
# The user needs the other CPUs.
MAX_CALLS = 4
SMALLEST_LENGTH = np.float32(1e-12)
ENGINE = "onnxruntime"


class TextRole(NamedTuple):
    """How texts are read: as questions or as passages. `prefix`: put before each text.

    `mean`: the mean vector of such texts, if their language is to be removed (see `LanguageBias`).
    """

    prefix: str
    prefix_tokens: int
    mean: Vectors | None


class OnnxEngine(Embedder):
    """Computes the vectors of one model on the CPU; thread-safe."""

    def __init__(self, model: ModelFolder, calls: int | None = None) -> None:
        """Load the model. `calls`: number of parallel calls; default: one per available CPU, at most four.

        Raises EmbeddingUnavailableError if the files are not the official ones, or cannot be used.
        """
        if not model.is_complete:
            raise EmbeddingUnavailableError(f"{model.source} does not contain a whole model. {model.remedy}")
        with ThreadPoolExecutor(1) as background:
            verified = background.submit(
                partial(model.verify, *model.weights, again=False)
            )  # 90 MB, while the rest loads
            digests = model.verify(TOKENIZER_FILE, *([BIAS_FILE] if model.bias_file else []))
            self._tokenizer = ModelTokenizer(model)
            _import_runtime()  # meanwhile
            digests |= verified.result()
        self._description = model.description
        self._session = _open_session(model)
        self._inputs = [each.name for each in self._session.get_inputs()]
        self.has_states = model.description.late_interaction
        self.tokens_per_vector = model.description.passage_tokens
        width = self._measured_width()
        precision = model.official.precision if model.official else "onnx"
        self.fingerprint = Fingerprint(model.identity(digests), width, precision, ENGINE)
        self._bias = read_bias(model.file(BIAS_FILE), width) if model.bias_file else None
        of_questions, of_passages = (self._bias.query_mean, self._bias.passage_mean) if self._bias else (None, None)
        self._questions = self._reading(model.description.query_prefix, of_questions)
        self._passages = self._reading(model.description.passage_prefix, of_passages)
        self._calls = calls or min(MAX_CALLS, _available_cpus())
        if not model.official:
            self.encode_query("")  # raises if the weights are damaged

    def token_spans(self, text: str) -> list[Span]:
        """Return the spans of the tokens, in characters. A Hangul syllable has 2-3 tokens with the same span."""
        return self._tokenizer.spans(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions).

        Only the model's maximum number of tokens is read: 254 for all-MiniLM-L6-v2.
        """
        return self._vectors(texts, self._passages)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Return the same vectors, and the states of the tokens if the model's description enables them."""
        if not self.has_states:
            return Encoded(self.embed(texts))
        found = [b""] * len(texts)

        def keep(index: int, states: States) -> None:
            found[index] = packed(states)

        return Encoded(self._vectors(texts, self._passages, keep), found)

    def encode_query(self, text: str) -> EncodedQuestion:
        """Return the vector of a question, and the states of its tokens if the model's description enables them."""
        if not self.has_states:
            return EncodedQuestion(self._vectors([text], self._questions)[0])
        found: list[States] = []
        vectors = self._vectors([text], self._questions, lambda _, states: found.append(of_question(states)))
        return EncodedQuestion(vectors[0], *found)

    def calibration_for(self, question: str) -> Calibration:
        """Return when an answer to this question is close."""
        if question and 2 * self._tokenizer.unknown_characters(question) >= len("".join(question.split())):
            return UNREADABLE
        return self._description.calibration_for(question, lambda word: len(self.token_spans(word)))

    def _vectors(
        self, texts: Sequence[str], reading: TextRole, keep: Callable[[int, States], None] | None = None
    ) -> Vectors:
        """Return the unit vectors of texts. `keep`: called with the index of each text and its content's states."""
        tokens = [self._tokenizer.tokens(reading.prefix + text, self._description.tokens) for text in texts]
        vectors = np.empty((len(tokens), self.fingerprint.dimensions), np.float32)
        is_mean = self._description.pooling == "mean"

        def embed_group(group: list[int]) -> None:
            hidden = self._hidden(np.stack([tokens[index] for index in group]))
            for index, states in zip(group, hidden, strict=True):
                pooled = states.mean(axis=0) if is_mean else states[0]
                vectors[index] = _unit_vectors(self._without_language(pooled, reading))
                if keep is not None:
                    own = slice(1 + reading.prefix_tokens, -1)
                    content = self._content.of(tokens[index][own], states[own])
                    keep(index, self._without_language(content, reading))

        _for_each(embed_group, list(equal_length_groups([len(each) for each in tokens])), self._calls)
        return require_unit_length(vectors)

    def _hidden(self, ids: Tokens) -> Vectors:
        """Return the last hidden states, shape (texts, tokens, width)."""
        given: dict[str, Any] = {"input_ids": ids}
        for name in self._inputs:
            if name != "input_ids":  # a mask of ones, and zeros for the types of tokens
                given[name] = np.full_like(ids, 1 if name == "attention_mask" else 0)
        hidden: Vectors = self._session.run(None, given)[0]
        return hidden

    @cached_property
    def _content(self) -> Content:
        return Content(self._tokenizer.token)

    def _reading(self, prefix: str, mean: Vectors | None) -> TextRole:
        return TextRole(prefix, len(self.token_spans(prefix.rstrip())), mean)

    def _without_language(self, vectors: Vectors, reading: TextRole) -> Vectors:
        if self._bias is None or reading.mean is None:
            return vectors
        return self._bias.removed(_unit_vectors(vectors), reading.mean)

    def _measured_width(self) -> int:
        states = self._hidden(np.array([self._tokenizer.special], np.int64))
        if states.ndim != len(("texts", "tokens", "width")) or states.dtype != np.float32:
            raise EmbeddingUnavailableError(
                "The first output of model.onnx must be the last hidden states, as 32-bit floats: export the model "
                "without pooling."
            )
        return int(states.shape[2])


def equal_length_groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of indices with equal lengths, the longest first: at most 8 texts, and 256 tokens if several."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    for length, same in itertools.groupby(order, key=lengths.__getitem__):
        size = min(MAX_TEXTS, max(1, MAX_TOKENS // length))
        while group := list(itertools.islice(same, size)):
            yield group


def _for_each(work: Callable[[list[int]], None], groups: Sequence[list[int]], threads: int) -> None:
    """Work on groups in parallel; a single group, as in a query, needs no other thread."""
    if len(groups) == 1 or threads == 1:
        for group in groups:
            work(group)
        return
    # A new pool each time: starting threads takes 0.1 ms, and a pool would not survive a fork.
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, groups):
            pass


def _unit_vectors(vectors: Vectors) -> Vectors:
    """Return vectors, shape (..., width), with length 1."""
    with np.errstate(all="ignore"):  # weights may be damaged; vectors are checked later
        lengths = np.sqrt(np.sum(vectors * vectors, axis=-1, keepdims=True))
        unit: Vectors = vectors / np.maximum(lengths, SMALLEST_LENGTH)
    return unit


def _import_runtime() -> ModuleType:
    """Import ONNX Runtime without its telemetry, which would resolve a host and write a device id on import."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime  # noqa: PLC0415 - lazy, as everywhere in this package

    return onnxruntime  # type: ignore[no-any-return]


def _open_session(model: ModelFolder) -> "InferenceSession":
    """Open a model. Raises EmbeddingUnavailableError if it cannot be used."""
    onnxruntime = _import_runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.enable_mem_pattern = False  # it only helps with repeated shapes
    try:
        return onnxruntime.InferenceSession(
            model.file(model.model_file),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=["EmbedLayerNormFusion", "SkipLayerNormFusion"],  # both make these models slower
        )
    except Exception as error:  # the runtime raises many kinds
        raise model.unusable(model.model_file, "cannot be loaded") from error


def _available_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Removes a text's language from vectors, so that its meaning is left.
#
# A multilingual model puts texts of one language near each other, whatever they are about. The means of parallel texts
# in several languages differ only by language: the directions between these means are removed from each vector (Yang et
# al. 2021, arXiv:2109.04727). Subtracting the overall mean first spreads cosines, which are all high.

FEWEST_ROWS = 3
"""Rows of the file: two means, and a direction."""


@dataclass(frozen=True, slots=True)
class LanguageBias:
    """The mean vectors of questions and of passages, shape (width,), and orthonormal directions, shape (n, width).

    A model's folder has them in a file, as rows of 16-bit floats; scripts/make_language_bias.py writes it.
    """

    query_mean: Vectors
    passage_mean: Vectors
    directions: Vectors

    def removed(self, vectors: Vectors, mean: Vectors) -> Vectors:
        """Remove the mean and the directions from unit vectors, shape (..., width); changes their lengths."""
        rest = vectors - mean
        return np.asarray(rest - (rest @ self.directions.T) @ self.directions, np.float32)

    def write(self, file: Path) -> None:
        """Write the file."""
        np.save(file, np.vstack([self.query_mean, self.passage_mean, self.directions]).astype(np.float16))


def read_bias(file: Path, width: int) -> LanguageBias:
    """Read a bias file for vectors of `width` numbers.

    Raises EmbeddingUnavailableError if it is damaged or for another model.
    """
    try:
        rows = np.lib.format.open_memmap(file, mode="r")  # allocates no more than the file's size, and loads no pickles
    except Exception as error:  # numpy raises many kinds for a damaged header
        raise EmbeddingUnavailableError(f"{file.name} is damaged: recreate it with this model.") from error
    if rows.dtype != np.float16 or rows.shape[1:] != (width,) or len(rows) < FEWEST_ROWS:
        raise EmbeddingUnavailableError(f"{file.name} does not fit the model: recreate it with this model.")
    numbers: Vectors = rows.astype(np.float32)
    return LanguageBias(numbers[0], numbers[1], numbers[2:])
