"""Storing a memory: hash, chunk, embed, then one write transaction over all tables."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from vector_memory.domain import Chunk, MemoryKind, NewMemory, utc_now
from vector_memory.errors import DuplicateMemoryError, EmbeddingUnavailableError, NotFoundError
from vector_memory.indexing.background import BackgroundVectors
from vector_memory.indexing.indexer import EmbeddingProgress, Indexer, is_chunked, texts_of
from vector_memory.results.mapping import HASH_SHOWN
from vector_memory.results.sessions import StoreMemoryResult, VectorsState
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.storage.records import Derived, Embedded, History
from vector_memory.validation import MAX_TITLE

Completion = Callable[[Writer, NewMemory, str], NewMemory]
"""Called with the memory and the time, inside the transaction that adds it; returns the memory as it is to be added.

An error that it raises undoes the transaction.
"""


@dataclass(frozen=True, slots=True)
class Saved:
    """A memory that was stored. `problem`: why it cannot be found by meaning yet, if it cannot.

    `token_count`: of the whole content; None for kinds that are not chunked. `passage_count`: what has vectors.
    `is_pending`: the vectors follow in the background.
    """

    memory: NewMemory
    id: int
    content_hash: str
    token_count: int | None
    chunk_count: int
    passage_count: int
    created_at: str
    is_pending: bool
    problem: str | None


class Saving:
    """Stores memories."""

    def __init__(self, storage: Storage, indexer: Indexer, background: BackgroundVectors) -> None:
        self._storage = storage
        self._indexer = indexer
        self._background = background

    def store(self, memory: NewMemory, on_progress: EmbeddingProgress | None = None) -> StoreMemoryResult:
        """Store a memory and return the receipt. Raises as `save`."""
        return receipt(self.save(memory, on_progress=on_progress))

    def save(
        self, memory: NewMemory, complete: Completion | None = None, on_progress: EmbeddingProgress | None = None
    ) -> Saved:
        """Store a memory with everything that makes it findable.

        Without a usable embedding model the text is kept all the same; its vectors are made when a model is there.
        Raises DuplicateMemoryError, NotFoundError (an observation's report), ChunkingError, DatabaseError.
        """
        self._storage.require_time_to_write()
        content_hash = hashlib.sha256(memory.content.encode()).hexdigest()
        with self._storage.read() as reader:
            require_storable(reader, memory, content_hash)
        chunks = self._indexer.chunk(memory.kind, memory.content)
        memory = with_title(memory, chunks)
        token_count = self._indexer.token_counter()(memory.content) if is_chunked(memory.kind) else None
        words = self._storage.prepare_words(texts_of(memory.kind, memory.content, chunks))
        is_pending = self._background.is_running
        embedded, problem = self._embed(memory, chunks, on_progress, defer=is_pending)
        now = utc_now()
        with self._storage.write() as writer:
            require_storable(writer, memory, content_hash)
            embedded, late_problem = usable(writer, embedded)
            if complete is not None:
                memory = complete(writer, memory, now)
            derived = Derived(
                chunks=chunks, words=words, enriched=self._indexer.enriches(memory.kind), embedded=embedded
            )
            memory_id = writer.add_memory(memory, derived, content_hash=content_hash, history=History(now, now, now))
            if is_pending := is_pending and problem is None:
                self._background.defer(writer, memory_id)
        if is_pending:
            self._background.begin()
        return Saved(
            memory=memory,
            id=memory_id,
            content_hash=content_hash,
            token_count=token_count,
            chunk_count=len(chunks),
            passage_count=0 if embedded is None else len(embedded.passages),
            created_at=now,
            is_pending=is_pending,
            problem=problem or late_problem,
        )

    def _embed(
        self, memory: NewMemory, chunks: list[Chunk], on_progress: EmbeddingProgress | None, *, defer: bool
    ) -> tuple[Embedded | None, str | None]:
        """Return the vectors unless they are deferred, or None and why there will be none."""
        try:
            with self._storage.read() as reader:
                reader.require_comparable(self._indexer.fingerprint)
            if defer:
                return None, None
            pieces = self._indexer.pieces(memory.kind, memory.title, memory.content, chunks)
            return self._indexer.embed(pieces, on_progress), None
        except EmbeddingUnavailableError as error:
            return None, str(error)


def require_storable(reader: Reader, memory: NewMemory, content_hash: str) -> None:
    """Raise an error if the memory is stored already, or is about a report that is not there."""
    existing = reader.find_duplicate(memory, content_hash)
    if existing is not None:
        raise DuplicateMemoryError(existing, placed=memory.kind is not MemoryKind.TAGGED)
    report_id = memory.parent_report_id
    if report_id is not None and not is_of_kind(reader, report_id, MemoryKind.REPORT):
        raise NotFoundError(f"There is no report {report_id}: send the memory_id of a stored report, or omit it.")


def is_of_kind(reader: Reader, memory_id: int, kind: MemoryKind) -> bool:
    """Tell whether there is a memory of this kind."""
    return any(origin.memory_type == kind for origin in reader.origins([memory_id]).values())


def usable(reader: Reader, embedded: Embedded | None) -> tuple[Embedded | None, str | None]:
    """Return the vectors, or None and why, if another process has just brought those of another model."""
    try:
        if embedded is not None:
            reader.require_comparable(embedded.fingerprint)
    except EmbeddingUnavailableError as error:
        return None, str(error)
    return embedded, None


def with_title(memory: NewMemory, chunks: list[Chunk]) -> NewMemory:
    """Give a chunked document without a title that of its first heading."""
    if memory.title is not None:
        return memory
    first = next((chunk.headings[0] for chunk in chunks if chunk.headings), "")
    title = first.lstrip("#").strip()[:MAX_TITLE]
    return replace(memory, title=title) if title else memory


def receipt(saved: Saved) -> StoreMemoryResult:
    """Say what was stored, and what of it is indexed."""
    memory = saved.memory
    return StoreMemoryResult(
        message=f"Stored {memory.kind} {saved.id}: {size_in_words(saved)}{said_of_index(saved)}",
        memory_id=saved.id,
        memory_type=memory.kind,
        agent_id=memory.agent_id,
        session_id=memory.session_id,
        content_hash=saved.content_hash[:HASH_SHOWN],
        chunks_created=saved.chunk_count,
        passages_created=saved.passage_count,
        vectors=vectors_state(saved),
        token_count=saved.token_count,
        created_at=saved.created_at,
    )


def vectors_state(saved: Saved) -> VectorsState:
    """Say whether the content can be found by meaning."""
    if saved.is_pending:
        return "pending"
    return "ready" if saved.problem is None else "unavailable"


def size_in_words(saved: Saved) -> str:
    """Say how long the content is."""
    tokens = "" if saved.token_count is None else f", {counted(saved.token_count, 'token')}"
    return counted(len(saved.memory.content), "character") + tokens


def said_of_index(saved: Saved) -> str:
    """Say how the content can be found: passages hold all of it, and its words are indexed in any case."""
    chunks = f"{counted(saved.chunk_count, 'chunk')}, " if saved.chunk_count else ""
    if saved.is_pending:
        return f", {chunks}searchable by words now, and by meaning in a moment."
    if saved.problem is None:
        return f", all of it indexed: {chunks}{counted(saved.passage_count, 'passage')}."
    return f", {chunks}searchable by words, but not yet by meaning. {saved.problem}"


def counted(number: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
