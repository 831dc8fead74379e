"""Storing a memory: hash, chunk, embed, then one write transaction over all tables."""

import hashlib
from dataclasses import replace

from vector_memory.entries import HASH_SHOWN
from vector_memory.errors import DuplicateMemoryError, EmbeddingUnavailableError, NotFoundError
from vector_memory.indexing import Embedded, Indexer, is_chunked
from vector_memory.kinds import TRAITS, MemoryKind
from vector_memory.results import StoreMemoryResult
from vector_memory.storage import memories
from vector_memory.storage.database import Connection, Database
from vector_memory.values import MAX_TITLE, Chunk, NewMemory, utc_now


class Saving:
    """Stores memories."""

    def __init__(self, database: Database, indexer: Indexer) -> None:
        self._database = database
        self._indexer = indexer

    def store(self, memory: NewMemory) -> StoreMemoryResult:
        """Store a memory with everything that makes it findable, and return the receipt.

        Without a usable embedding model the text is kept all the same; its vectors are made when a model is there.
        Raises DuplicateMemoryError, NotFoundError (an observation's report), ChunkingError, DatabaseError.
        """
        content_hash = hashlib.sha256(memory.content.encode()).hexdigest()
        with self._database.read() as connection:
            require_storable(connection, memory, content_hash)
        chunks = self._indexer.chunk(memory.kind, memory.content)
        memory = with_title(memory, chunks)
        embedded, problem = self._embed(memory, chunks)
        now = utc_now()
        with self._database.write() as connection:
            require_storable(connection, memory, content_hash)
            memory_id, late_problem = self._write(connection, memory, content_hash, chunks, embedded, now)
        problem = problem or late_problem
        return receipt(memory, memory_id, content_hash, len(chunks), now, problem)

    def _embed(self, memory: NewMemory, chunks: list[Chunk]) -> tuple[Embedded | None, str | None]:
        """Return the vectors, or None and why there are none."""
        try:
            with self._database.read() as connection:
                self._indexer.require_usable_model(connection)
            pieces = self._indexer.pieces(memory.kind, memory.title, memory.content, chunks)
            return self._indexer.embed(pieces), None
        except EmbeddingUnavailableError as error:
            return None, str(error)

    def _write(
        self,
        connection: Connection,
        new: NewMemory,
        content_hash: str,
        chunks: list[Chunk],
        embedded: Embedded | None,
        now: str,
    ) -> tuple[int, str | None]:
        """Return the id, and why there are no vectors if another process has just brought those of another model."""
        chunked = is_chunked(new.kind)
        memory_id = memories.insert_memory(connection, new, content_hash=content_hash, chunked=chunked, now=now)
        memory = memories.require_memory(connection, memory_id)
        chunk_ids = self._indexer.write_chunks(connection, memory, chunks, now)
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
        raise DuplicateMemoryError(existing)
    report_id = memory.parent_report_id
    if report_id is not None and memories.kind_of(connection, report_id) != MemoryKind.REPORT:
        raise NotFoundError(f"There is no report {report_id}: send the memory_id of a stored report, or leave it out.")


def with_title(memory: NewMemory, chunks: list[Chunk]) -> NewMemory:
    """Give a chunked document without a title that of its first heading."""
    if memory.title is not None:
        return memory
    first = next((chunk.headings[0] for chunk in chunks if chunk.headings), "")
    title = first.lstrip("#").strip()[:MAX_TITLE]
    return replace(memory, title=title) if title else memory


def receipt(
    memory: NewMemory, memory_id: int, content_hash: str, chunk_count: int, now: str, problem: str | None
) -> StoreMemoryResult:
    """Say what was stored, and what could not be done."""
    chunks = f" in {chunk_count} chunk{'' if chunk_count == 1 else 's'}" if TRAITS[memory.kind].chunked else ""
    message = f"Stored {memory.kind} {memory_id}: {len(memory.content):,} characters{chunks}."
    if problem is not None:
        message += f" Not yet findable by meaning. {problem}"
    return StoreMemoryResult(
        message=message,
        memory_id=memory_id,
        memory_type=memory.kind,
        agent_id=memory.agent_id,
        session_id=memory.session_id,
        content_hash=content_hash[:HASH_SHOWN],
        chunks_created=chunk_count,
        created_at=now,
    )
