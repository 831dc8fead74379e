"""From a text to what makes it findable: chunks, passages and vectors."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vector_memory.chunking import (
    TokenCounter,
    WordPieceCounter,
    chunk_document,
    cut_passages,
    find_token_counter,
    header,
)
from vector_memory.domain import TRAITS, Chunk, Fingerprint, MemoryKind, Span
from vector_memory.embedding import EmbeddingModel, Vectors
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.settings import Settings
from vector_memory.storage.records import Embedded, EmbeddedPassage

BATCH = 64
"""Passages that are embedded between two reports of progress, in about a second. Larger batches save nothing."""

EmbeddingProgress = Callable[[int, int], None]
"""Called with the number of passages embedded, and of those there are."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A text that is indexed by passages of its own: a chunk, or a memory that is not chunked.

    `start`: its place in the memory's content. `header`: what the embedding reads in front of each passage, or nothing.
    """

    text: str
    start: int
    header: str = ""


class Indexer:
    """Makes what the index holds of a text. Nothing here is to run inside a transaction."""

    def __init__(self, model: EmbeddingModel, settings: Settings) -> None:
        self._model = model
        self._settings = settings
        self._lock = threading.Lock()
        self._counter: TokenCounter | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors made here can be compared with. Raises EmbeddingUnavailableError without a model."""
        return self._model.fingerprint

    def chunk(self, kind: str, content: str) -> list[Chunk]:
        """Cut a document into chunks; a memory of a kind that is not chunked has none."""
        if not is_chunked(kind):
            return []
        settings = self._settings
        return chunk_document(
            content, self.token_counter(), settings.default_chunk_size, settings.default_chunk_overlap
        )

    def pieces(self, kind: str, title: str | None, content: str, chunks: Sequence[Chunk]) -> list[Piece]:
        """Return the texts that passages are cut from: the chunks, or the whole content of a kind without chunks."""
        if not is_chunked(kind):
            return [Piece(content, 0)]
        if not self.enriches(kind):
            return [Piece(chunk.text, chunk.start) for chunk in chunks]
        return [Piece(chunk.text, chunk.start, header(title, kind, chunk, len(chunks))) for chunk in chunks]

    def enriches(self, kind: str) -> bool:
        """Tell whether passages of this kind are embedded with a header in front."""
        return self._settings.enable_enrichment and kind in TRAITS and TRAITS[MemoryKind(kind)].enriched

    def embed(self, pieces: Sequence[Piece], on_progress: EmbeddingProgress | None = None) -> Embedded:
        """Cut the pieces into passages and embed them. Raises EmbeddingUnavailableError."""
        passages: list[EmbeddedPassage] = []
        texts: list[str] = []
        for position, piece in enumerate(pieces):
            head = self._bounded(piece.header)
            for span in self._cut(piece.text):
                passages.append(EmbeddedPassage(position, piece.start + span.start, piece.start + span.end))
                texts.append(head + piece.text[span.start : span.end])
        return Embedded(passages, self._vectors(texts, on_progress), self._model.fingerprint)

    def _vectors(self, texts: Sequence[str], on_progress: EmbeddingProgress | None) -> Vectors:
        """Return a vector for each text. They are the same in whatever batches they are made."""
        batches = []
        for start in range(0, max(len(texts), 1), BATCH):
            batches.append(self._model.embed(texts[start : start + BATCH]))
            if on_progress is not None:
                on_progress(min(start + BATCH, len(texts)), len(texts))
        return np.concatenate(batches)

    def _bounded(self, head: str) -> str:
        """Return a header of no more pieces than a passage may have: models read about twice as many."""
        spans = self._model.token_spans(head)[: self._model.tokens_per_vector]
        return f"{head[: spans[-1].end]}\n\n" if spans else ""

    def _cut(self, text: str) -> list[Span]:
        return cut_passages(text, self._model.token_spans, self._model.tokens_per_vector)

    def token_counter(self) -> TokenCounter:
        """Return the counter: found once, unless all there is yet is the estimate."""
        with self._lock:
            if self._counter is None:
                try:
                    self._model.token_spans("")
                except EmbeddingUnavailableError:
                    return find_token_counter(None)
                self._counter = find_token_counter(WordPieceCounter(self._model.token_spans))
            return self._counter


def texts_of(kind: str, content: str, chunks: Sequence[Chunk]) -> list[str]:
    """Return the texts that are found by their words: the chunks, or the content of a kind without chunks."""
    return [chunk.text for chunk in chunks] if is_chunked(kind) else [content]


def is_chunked(kind: str) -> bool:
    """Tell whether memories of this kind are cut into chunks. Kinds that only an old file knows are not."""
    return kind in TRAITS and TRAITS[MemoryKind(kind)].chunked
