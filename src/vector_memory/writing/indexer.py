"""Derives search data from a text: chunks, passages and vectors; also for a memory that is stored without them."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vector_memory.domain import TRAITS, Chunk, Fingerprint, MemoryKind
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.embedder import Encoded, Vectors
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.settings import Settings
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.postings import words_of
from vector_memory.storage.records import NO_LINKS, Derived, Embedded, EmbeddedPassage, Links, Memory, StoredPassage
from vector_memory.texts.chunks import chunk_document, cut_passages, header
from vector_memory.texts.tokens import TokenCounter, WordPieceCounter, find_token_counter

logger = logging.getLogger(__name__)

BATCH = 64
"""Passages embedded between two progress reports, in about a second. Larger batches save nothing."""

EmbeddingProgress = Callable[[int, int], None]
"""Called with the number of passages embedded so far and the total."""


LinksOf = Callable[[EmbeddingModel, Reader, str, Sequence[str], Vectors, int | None], Links]
"""Finds the memories on the subject of one: see `search.succession.links_of`."""


@dataclass(frozen=True, slots=True)
class UnitText:
    """The text of one unit to embed: a chunk, or a memory that is not chunked.

    `start`: its offset in the memory's content. `header`: text that is embedded in front of each passage; may be empty.
    """

    text: str
    start: int
    header: str = ""


@dataclass(frozen=True, slots=True)
class CutUnits:
    """The passages of a memory's units, in order, and the text that is embedded for each."""

    passages: list[EmbeddedPassage]
    texts: list[str]


class Indexer:
    """Derives what the index stores for a text. Never call it inside a transaction: it is slow."""

    def __init__(
        self, model: EmbeddingModel, settings: Settings, links_of: LinksOf | None = None, *, by_headings: bool = True
    ) -> None:
        """`links_of`: None: memories are not linked. `by_headings`: as in `chunk_document`."""
        self._model = model
        self._links_of = links_of if settings.later else None
        self._by_headings = by_headings
        self._settings = settings
        self._lock = threading.Lock()
        self._counter: TokenCounter | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of these vectors. Raises EmbeddingUnavailableError without a model."""
        return self._model.fingerprint

    @property
    def keeps_states(self) -> bool:
        """Whether the states of tokens are kept with vectors. Raises EmbeddingUnavailableError without a model."""
        return self._settings.late_interaction and self._model.has_states

    @property
    def is_loadable(self) -> bool:
        """Whether the last attempt to load the model, if there was one, has succeeded."""
        return self._model.failure is None

    @property
    def is_ready(self) -> bool:
        """Whether the model is loaded, so that nothing waits for it."""
        return self._model.is_ready

    def chunk(self, kind: str, content: str, *, wait: bool = True) -> list[Chunk]:
        """Split a document into chunks. A kind that is not chunked has none. `wait`: as in `token_counter`."""
        if not is_chunked(kind):
            return []
        settings = self._settings
        return chunk_document(
            content,
            self.token_counter(wait=wait),
            settings.default_chunk_size,
            settings.default_chunk_overlap,
            by_headings=self._by_headings,
        )

    def cut_without_model(self, content: str) -> list[Chunk]:
        """Cut a document of a chunked kind at once, without a model: its tokens may be an estimate."""
        settings = self._settings
        counter = find_token_counter(None)
        return chunk_document(content, counter, settings.default_chunk_size, settings.default_chunk_overlap)

    def unit_texts(self, kind: str, title: str | None, content: str, chunks: Sequence[Chunk]) -> list[UnitText]:
        """Return the texts to embed: the chunks, or the whole content of a kind that is not chunked."""
        if not is_chunked(kind):
            return [UnitText(content, 0)]
        if not self.enriches(kind):
            return [UnitText(chunk.text, chunk.start) for chunk in chunks]
        return [UnitText(chunk.text, chunk.start, header(title, kind, chunk, len(chunks))) for chunk in chunks]

    def enriches(self, kind: str) -> bool:
        """Return whether passages of this kind are embedded with a header in front."""
        return self._settings.enable_enrichment and kind in TRAITS and TRAITS[MemoryKind(kind)].enriched

    def derived(
        self, kind: str, title: str | None, content: str, chunks: Sequence[Chunk] = (), *, wait: bool = True
    ) -> Derived:
        """Return what is stored for a text, without vectors. `chunks`: those it has already. `wait`: as in `chunk`."""
        chunks = chunks or self.chunk(kind, content, wait=wait)
        words = words_of(title, content, chunks, chunked=is_chunked(kind))
        return Derived(chunks=chunks, words=words, enriched=self.enriches(kind))

    def embed(self, units: Sequence[UnitText], on_progress: EmbeddingProgress | None = None) -> Embedded:
        """Split units into passages and embed these. Raises EmbeddingUnavailableError."""
        cut, batches = self.cut(units), []
        for batch, encoded in self._encoded(cut, 0):
            batches.append(encoded)
            if on_progress is not None:
                on_progress(min(batch.stop, len(cut.texts)), len(cut.texts))
        return self._embedded(cut.passages, *batches)

    def embed_batches(self, cut: CutUnits, first: int) -> Iterator[Embedded]:
        """Embed the passages from `first` on; yield each batch when it is computed, and at least one, even if empty.

        Raises EmbeddingUnavailableError.
        """
        for batch, encoded in self._encoded(cut, first):
            yield self._embedded(cut.passages[batch], encoded)

    def cut(self, units: Sequence[UnitText]) -> CutUnits:
        """Split units into passages. Raises EmbeddingUnavailableError."""
        passages: list[EmbeddedPassage] = []
        texts: list[str] = []
        for position, unit in enumerate(units):
            head = self._bounded(unit.header)
            for span in cut_passages(unit.text, self._model.token_spans, self._model.tokens_per_vector):
                passages.append(EmbeddedPassage(position, unit.start + span.start, unit.start + span.end))
                texts.append(head + unit.text[span.start : span.end])
        return CutUnits(passages, texts)

    def links_of(
        self, reader: Reader, kind: str, content: str, embedded: Embedded | None, memory_id: int | None = None
    ) -> Links:
        """Return the links of a memory. `embedded`: its last passages, unless all are stored; `memory_id`: if some are.

        If other memories cannot be read, a new one has no links.
        """
        if self._links_of is None:
            return NO_LINKS
        texts = [] if embedded is None else [content[each.start : each.end] for each in embedded.passages]
        vectors = np.empty((0, reader.vectors.dimensions), np.float32) if embedded is None else embedded.vectors
        try:
            if embedded is not None and memory_id is not None:  # before its stored passages are read
                reader.vectors.require_comparable(embedded.fingerprint)
            with reader.unlimited():  # a link that a caller may not see is left out when it is read
                return self._links_of(self._model, reader, kind, texts, vectors, memory_id)
        except (DamagedError, EmbeddingUnavailableError) as error:  # another process may just have changed the model
            logger.info("Memories were not linked: %s", error)
            return NO_LINKS

    def remember(self, memory: Memory, passages: Sequence[StoredPassage], fingerprint: Fingerprint) -> None:
        """Remember a stored memory's vectors, so that texts in common with later ones are not embedded again."""
        if not self.enriches(memory.memory_type):
            content = memory.content
            texts = {(fingerprint, content[each.start : each.end]): (each.vector, each.states) for each in passages}
            self._model.latest.remember(texts)

    def _encoded(self, cut: CutUnits, first: int) -> Iterator[tuple[slice, Encoded]]:
        """Yield the texts from `first` on in batches, at least one. The batch size does not change the results."""
        for start in range(first, max(len(cut.texts), first + 1), BATCH):
            batch = slice(start, start + BATCH)
            yield batch, self._model.encode(cut.texts[batch], with_states=self._settings.late_interaction)

    def _embedded(self, passages: list[EmbeddedPassage], *batches: Encoded) -> Embedded:
        vectors = np.concatenate([batch.vectors for batch in batches])
        states = [state for batch in batches for state in batch.states or ()] if self._settings.late_interaction else []
        complete = len(states) == len(passages)
        return Embedded(passages, vectors, self._model.fingerprint, states if complete else None)

    def _bounded(self, head: str) -> str:
        """Return a header with at most as many tokens as a passage may have; models read about twice as many."""
        spans = self._model.token_spans(head)[: self._model.tokens_per_vector] if head else ()
        return f"{head[: spans[-1].end]}\n\n" if spans else ""

    def token_counter(self, *, wait: bool = True) -> TokenCounter:
        """Return the best token counter. It is chosen once; until there is a model, it is an estimate.

        Waits for a model that is loading, unless `wait` is false.
        """
        if not (wait or self._counter or self.is_ready):
            return find_token_counter(None)
        with self._lock:
            if self._counter is None:
                try:
                    self._model.token_spans("")
                except EmbeddingUnavailableError:
                    return find_token_counter(None)
                self._counter = find_token_counter(WordPieceCounter(self._model.token_spans))
            return self._counter


def is_chunked(kind: str) -> bool:
    """Return whether memories of this kind are split into chunks. Unknown kinds from old files are not."""
    return kind in TRAITS and TRAITS[MemoryKind(kind)].chunked


def complete(
    storage: Storage, indexer: Indexer, memory: Memory, on_progress: EmbeddingProgress | None = None
) -> int | None:
    """Compute the vectors that a memory lacks, and its chunks if it has none, and store each batch as it is computed.

    An interrupted call leaves the stored batches, and the next call continues after them. Returns the number
    of chunks; None if another process was faster, or the memory is gone. Raises EmbeddingUnavailableError,
    DatabaseError.
    """
    with storage.read() as reader:
        reader.vectors.require_current(indexer.fingerprint)
        stored = reader.chunks.of(memory.id)
        embedded = reader.vectors.embedded_passages(memory.id)
    chunks: Sequence[Chunk] = [part.chunk for part in stored] or indexer.chunk(memory.memory_type, memory.content)
    cut = indexer.cut(indexer.unit_texts(memory.memory_type, memory.title, memory.content, chunks))
    enriched = indexer.enriches(memory.memory_type)
    if embedded != cut.passages[: len(embedded)] or any(part.enriched != enriched for part in stored if embedded):
        # Another release has cut the text differently, or a process with other settings has embedded its beginning.
        with storage.write() as writer:
            writer.discard_vectors(memory.id)
        embedded = []
    # The words of stored chunks, and of a memory that has no chunks, are in the index already.
    new = chunks if not stored else []
    words = words_of(memory.title, memory.content, new, chunked=True)
    done, total = len(embedded), len(cut.passages)
    for batch in indexer.embed_batches(cut, done):
        derived = Derived(chunks=chunks, words=words, enriched=enriched, embedded=batch)
        after, done = done, done + len(batch.passages)
        if done == total:
            with storage.read() as reader:
                links = indexer.links_of(reader, memory.memory_type, memory.content, batch, memory.id)
            derived = replace(derived, links=links)
        with storage.write() as writer:
            if not writer.add_vectors(memory, derived, after=after, is_last=done == total):
                return None
        if on_progress is not None:
            on_progress(done, total)
    return len(chunks)
