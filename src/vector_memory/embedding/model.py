"""The embedding model: loaded in the background or at first use, unloaded when idle."""

import ctypes
import logging
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vector_memory import errors
from vector_memory.domain import Fingerprint, Span
from vector_memory.embedding.description import Calibration
from vector_memory.embedding.embedder import Embedder, Encoded, EncodedQuestion, Vectors

if TYPE_CHECKING:
    from vector_memory.settings import Settings

TOY_MODEL = "toy"
KNOWN_WORDS = 4_096
"""Number of words of questions whose token counts are cached."""

CACHED_QUERIES = 1_000
REMEMBERED_TEXTS = 2_048
"""The passages of 45 reports of 5,000 tokens. Their vectors of 384 numbers take 4 MB, their token states as much."""
TURN_SECONDS = 60.0
"""How long texts wait for others. After that, the engine seems to hang on one, and the others continue."""
NICENESS = 5
"""While processors are scarce, a thread with this niceness gets a third of the time of others."""
LOAD_ATTEMPTS = 2
LOAD_RETRY_SECONDS = 30.0

log = logging.getLogger(__name__)


def load_embedder(settings: "Settings") -> Embedder:
    """Load and return the engine of `settings.embedding_model`. This takes 0.2 s to several seconds.

    Known models and folders with a description run on ONNX Runtime, `toy` is the engine for tests, and any other model
    needs sentence-transformers. Raises EmbeddingUnavailableError if the model cannot be loaded, ConfigurationError if
    the length of its vectors is not VECTOR_MEMORY_EMBEDDING_DIM.
    """
    engine = _load_engine(settings.embedding_model, settings.embedding_model_path, settings.embedding_dim)
    dimensions = engine.fingerprint.dimensions
    if dimensions != settings.embedding_dim:
        raise errors.ConfigurationError(
            f"Vectors of {settings.embedding_model} have {dimensions} numbers, not {settings.embedding_dim}: set "
            f"VECTOR_MEMORY_EMBEDDING_DIM={dimensions}."
        )
    return engine


def _load_engine(name: str, folder: Path | None, dimensions: int) -> Embedder:
    # Imported only when needed, because engines import their runtimes.
    if name == TOY_MODEL:
        from vector_memory.embedding.toy_engine import ToyEngine  # noqa: PLC0415

        return ToyEngine(dimensions)
    from vector_memory.embedding.weights import find_model  # noqa: PLC0415

    found = find_model(name, folder)
    if found is not None:
        from vector_memory.embedding.onnx_engine import OnnxEngine  # noqa: PLC0415

        return OnnxEngine(found)
    from vector_memory.embedding.sentence_transformers_engine import SentenceTransformersEngine  # noqa: PLC0415

    return SentenceTransformersEngine(name, folder)


Key = tuple[Fingerprint, str]
Kept = tuple[Vectors, bytes | None]
"""A text's vector, and the states of its tokens or None."""


class LatestTexts:
    """Caches the latest encoded texts, so that edited documents are not embedded again as a whole; thread-safe."""

    def __init__(self, limit: int = REMEMBERED_TEXTS) -> None:
        """`limit`: number of texts; the one least recently used is dropped first."""
        self._limit = limit
        self._kept: OrderedDict[Key, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str], engine: Embedder, *, with_states: bool = True) -> Encoded:
        """Encode texts; the engine encodes only those not cached (or cached without states, if `with_states`), once."""
        # The model's files may be replaced while it is unloaded.
        keys = [(engine.fingerprint, text) for text in texts]
        kept = self._recall(keys, with_states=with_states and engine.has_states)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in kept}
        if missing:
            computed = engine.encode(list(missing.values()))
            states: Sequence[bytes | None] = computed.states or [None] * len(missing)
            # Copies, because a row would keep its whole array in memory.
            for key, vector, packed in zip(missing, computed.vectors, states, strict=True):
                kept[key] = vector.copy(), packed
        self.remember(kept)
        vectors = np.array([kept[key][0] for key in keys], np.float32).reshape(-1, engine.fingerprint.dimensions)
        found = [packed for key in keys if (packed := kept[key][1]) is not None]
        return Encoded(vectors, found if len(found) == len(keys) else None)

    def _recall(self, keys: Sequence[Key], *, with_states: bool) -> dict[Key, Kept]:
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
        return {key: kept for key, kept in found.items() if kept[1] is not None or not with_states}

    def remember(self, texts: Mapping[Key, Kept]) -> None:
        """Cache encoded texts."""
        with self._lock:
            for key, kept in texts.items():
                self._kept[key] = kept
                self._kept.move_to_end(key)
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)


class EmbeddingModel:
    """An Embedder that loads its engine at first use, or earlier on request; thread-safe.

    Callers wait while the engine loads. If loading fails, every use raises the same EmbeddingUnavailableError at once;
    after 30 s the next use tries again, so that a new model is noticed. If the engine fails on a text, that use raises
    EmbeddingFailedError.
    """

    def __init__(
        self, load: Callable[[], Embedder], clock: Callable[[], float] = time.monotonic, *, queries_first: bool = False
    ) -> None:
        """`load` returns an engine or raises; `clock` returns seconds.

        `queries_first`: embed texts at a lower priority than everything else, for a server with many callers.
        """
        self._load = load
        self._queries_first = queries_first
        self._clock = clock
        self._used_at = 0.0
        self._loading = threading.Lock()
        self._starting = threading.Lock()
        self._loader = threading.Thread()
        self._loads_in_background = False
        self._engine: Embedder | None = None
        self._failure: errors.EmbeddingUnavailableError | None = None
        self._failed_at = 0.0
        self.latest = LatestTexts()
        self._turn = threading.Lock()
        self.token_count = lru_cache(KNOWN_WORDS)(lambda word: len(self.token_spans(word)))
        self._cached_query = lru_cache(CACHED_QUERIES)(self._encode_query)

    def start_loading(self) -> None:
        """Start loading in the background. If loading fails, the next use raises the error."""
        self._loads_in_background = True
        with self._starting:
            if not self._loader.is_alive():
                self._loader = threading.Thread(target=self._load_quietly, name="embedding-model", daemon=True)
                self._loader.start()

    @property
    def is_ready(self) -> bool:
        """Whether the engine is loaded, so that the next use does not wait."""
        return self._engine is not None

    def wait_for_loading(self, seconds: float) -> bool:
        """Wait at most this long for an engine that loads in the background; False: it is still loading.

        If `start_loading` was not called, as in a command, return True at once: the next use loads the engine.
        """
        if self._engine is None and self._loads_in_background:
            self.start_loading()
            self._loader.join(seconds)
        return not self._loader.is_alive()

    def unload_if_idle(self, idle_seconds: float) -> None:
        """Unload the engine if it was not used for `idle_seconds` (0: never); the next use loads it again."""
        if idle_seconds and self._engine is not None and self._clock() - self._used_at >= idle_seconds:
            self._engine, self.latest = None, LatestTexts()
            return_freed_memory()

    @property
    def failure(self) -> errors.EmbeddingUnavailableError | None:
        """The error of the last attempt to load; None if there was none, or the engine is loaded."""
        return self._failure

    @property
    def fingerprint(self) -> Fingerprint:
        """Identifies comparable vectors."""
        with self._loaded() as engine:
            return engine.fingerprint

    @property
    def tokens_per_vector(self) -> int:
        """Maximum number of tokens for one vector."""
        with self._loaded() as engine:
            return engine.tokens_per_vector

    @property
    def has_states(self) -> bool:
        """Whether the engine returns the states of tokens."""
        with self._loaded() as engine:
            return engine.has_states

    def token_spans(self, text: str) -> list[Span]:
        """Return the spans of the tokens of `text`, in characters."""
        with self._loaded() as engine:
            return engine.token_spans(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions)."""
        return self.encode(texts).vectors

    def encode(self, texts: Sequence[str], *, with_states: bool = True) -> Encoded:
        """Return the vectors of texts and the states of their tokens. The last 2,048 texts are cached.

        Only one call runs at a time: an engine uses several processors, and two calls would only take them from
        queries.
        """
        is_turn = self._turn.acquire(timeout=TURN_SECONDS)
        try:
            with self._loaded() as engine:
                encode = partial(self.latest.encode, texts, engine, with_states=with_states)
                if not self._queries_first:
                    return encode()
                with ThreadPoolExecutor(1, initializer=lower_priority) as thread:  # those that it starts inherit it
                    return thread.submit(encode).result()
        finally:
            if is_turn:
                self._turn.release()

    def encode_query(self, text: str) -> EncodedQuestion:
        """Return the vector of a query and the states of its tokens, read-only. The last 1,000 queries are cached.

        A query never waits for texts that are being embedded.
        """
        return self._cached_query(text, self.fingerprint)

    def calibration_for(self, question: str) -> Calibration:
        """Return when a text is close to this question."""
        with self._loaded() as engine:
            return engine.calibration_for(question)

    def _encode_query(self, text: str, _fingerprint: Fingerprint) -> EncodedQuestion:
        with self._loaded() as engine:
            vector, states = engine.encode_query(text)
        # Copies, because a view would keep its whole array in memory.
        encoded = EncodedQuestion(vector.copy(), None if states is None else states.copy())
        for array in encoded:
            if array is not None:
                array.setflags(write=False)
        return encoded

    def _load_quietly(self) -> None:
        with suppress(errors.EmbeddingUnavailableError), self._loaded():
            pass

    @contextmanager
    def _loaded(self) -> Iterator[Embedder]:
        """Yield the engine. Turns exceptions of runtimes, which may be of any kind, into EmbeddingFailedError."""
        self._used_at = self._clock()
        engine = self._engine  # it may be unloaded at any moment
        if engine is None:
            with self._loading:
                if self._engine is None and self._may_try():
                    self._attempt()
                engine = self._engine
                if engine is None:
                    raise errors.EmbeddingUnavailableError(str(self._failure)) from self._failure
        try:
            yield engine
        except errors.VectorMemoryError:
            raise
        except Exception as error:
            log.warning("The embedding model failed: %s", errors.where(error))
            raise errors.EmbeddingFailedError(type(error).__name__) from error

    def _may_try(self) -> bool:
        return self._failure is None or self._clock() - self._failed_at >= LOAD_RETRY_SECONDS

    def _attempt(self) -> None:
        for _ in range(LOAD_ATTEMPTS):
            try:
                self._engine, self._failure = self._load(), None
            except Exception as error:  # runtimes raise any kind of exception
                self._failure, self._failed_at = _as_unavailable(error), self._clock()
                log.warning("Failed to load the embedding model: %s", self._failure, exc_info=error)
            else:
                return


def lower_priority() -> None:
    """Lower the priority of this thread; only on Linux, because elsewhere it would slow the whole process down."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.nice(NICENESS)


def return_freed_memory() -> None:
    """Make glibc return freed memory to the system. Other C libraries need no call."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _as_unavailable(error: Exception) -> errors.EmbeddingUnavailableError:
    if isinstance(error, errors.EmbeddingUnavailableError):
        return error
    # Only our own messages are known to contain nothing but what the user provided.
    reason = str(error) if isinstance(error, errors.VectorMemoryError) else f"loading it raised {type(error).__name__}."
    unavailable = errors.EmbeddingUnavailableError(
        f"The embedding model cannot be used: {reason} See the log for details."
    )
    unavailable.__cause__ = error
    return unavailable
