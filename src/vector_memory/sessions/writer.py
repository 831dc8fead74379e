"""Storing a memory: hash, chunk, embed, then one write transaction over all tables."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from vector_memory.domain import Chunk, MemoryKind, NewMemory, utc_now
from vector_memory.errors import DuplicateMemoryError, EmbeddingUnavailableError, NotFoundError
from vector_memory.indexing.indexer import Embedded, EmbeddingProgress, Indexer, is_chunked, words_of
from vector_memory.results.mapping import HASH_SHOWN
from vector_memory.results.sessions import StoreMemoryResult
from vector_memory.storage.sqlite import memories
from vector_memory.storage.sqlite.database import Connection, Database
from vector_memory.storage.sqlite.keywords import Words
from vector_memory.validation import MAX_TITLE

Completion = Callable[[Connection, NewMemory, str], NewMemory]
"""Called with the memory and the time, inside the transaction that adds it; returns the memory as it is to be added.

An error that it raises undoes the transaction.
"""


@dataclass(frozen=True, slots=True)
class Saved:
    """A memory that was stored. `problem`: why it cannot be found by meaning yet, if it cannot.

    `token_count`: of the whole content; None for kinds that are not chunked. `passage_count`: what has vectors.
    """

    memory: NewMemory
    id: int
    content_hash: str
    token_count: int | None
    chunk_count: int
    passage_count: int
    created_at: str
    problem: str | None


class Saving:
    """Stores memories."""

    def __init__(self, database: Database, indexer: Indexer) -> None:
        self._database = database
        self._indexer = indexer

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
        self._database.require_time_to_write()
        content_hash = hashlib.sha256(memory.content.encode()).hexdigest()
        with self._database.read() as connection:
            require_storable(connection, memory, content_hash)
        chunks = self._indexer.chunk(memory.kind, memory.content)
        memory = with_title(memory, chunks)
        token_count = self._indexer.token_counter()(memory.content) if is_chunked(memory.kind) else None
        words = words_of(memory.kind, memory.content, chunks)
        embedded, problem = self._embed(memory, chunks, on_progress)
        now = utc_now()
        with self._database.write() as connection:
            require_storable(connection, memory, content_hash)
            if complete is not None:
                memory = complete(connection, memory, now)
            memory_id, late_problem = self._write(connection, memory, content_hash, chunks, words, embedded, now)
        problem = problem or late_problem
        return Saved(
            memory=memory,
            id=memory_id,
            content_hash=content_hash,
            token_count=token_count,
            chunk_count=len(chunks),
            passage_count=0 if embedded is None or problem else len(embedded.passages),
            created_at=now,
            problem=problem,
        )

    def _embed(
        self, memory: NewMemory, chunks: list[Chunk], on_progress: EmbeddingProgress | None
    ) -> tuple[Embedded | None, str | None]:
        """Return the vectors, or None and why there are none."""
        try:
            with self._database.read() as connection:
                self._indexer.require_usable_model(connection)
            pieces = self._indexer.pieces(memory.kind, memory.title, memory.content, chunks)
            return self._indexer.embed(pieces, on_progress), None
        except EmbeddingUnavailableError as error:
            return None, str(error)

    def _write(
        self,
        connection: Connection,
        new: NewMemory,
        content_hash: str,
        chunks: list[Chunk],
        words: Words,
        embedded: Embedded | None,
        now: str,
    ) -> tuple[int, str | None]:
        """Return the id, and why there are no vectors if another process has just brought those of another model."""
        own_words = None if is_chunked(new.kind) else words
        memory_id = memories.insert_memory(connection, new, content_hash=content_hash, words=own_words, now=now)
        memory = memories.require_memory(connection, memory_id)
        chunk_ids = self._indexer.write_chunks(connection, memory, chunks, words, now)
        try:
            if embedded is not None:
                self._indexer.write_vectors(connection, memory, chunk_ids, embedded)
        except EmbeddingUnavailableError as error:
            return memory_id, str(error)
        return memory_id, None


def require_storable(connection: Connection, memory: NewMemory, content_hash: str) -> None:
    """Raise an error if the memory is stored already, or is about a report that is not there."""
    existing = memories.find_duplicate(connection, memory, content_hash)
    if existing is not None:
        raise DuplicateMemoryError(existing, placed=memory.kind is not MemoryKind.TAGGED)
    report_id = memory.parent_report_id
    if report_id is not None and memories.kind_of(connection, report_id) != MemoryKind.REPORT:
        raise NotFoundError(f"There is no report {report_id}: send the memory_id of a stored report, or omit it.")


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
        token_count=saved.token_count,
        created_at=saved.created_at,
    )


def size_in_words(saved: Saved) -> str:
    """Say how long the content is."""
    tokens = "" if saved.token_count is None else f", {counted(saved.token_count, 'token')}"
    return counted(len(saved.memory.content), "character") + tokens


def said_of_index(saved: Saved) -> str:
    """Say how the content can be found: passages hold all of it, and its words are indexed in any case."""
    chunks = f"{counted(saved.chunk_count, 'chunk')}, " if saved.chunk_count else ""
    if saved.problem is None:
        return f", all of it indexed: {chunks}{counted(saved.passage_count, 'passage')}."
    return f", {chunks}searchable by words, but not yet by meaning. {saved.problem}"


def counted(number: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
