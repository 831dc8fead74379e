"""Computes the vectors of a memory that is stored without them."""

from collections.abc import Sequence

from vector_memory.domain import Chunk
from vector_memory.indexing.indexer import EmbeddingProgress, Indexer, searchable_texts
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Derived, Memory


def complete(
    storage: Storage, indexer: Indexer, memory: Memory, on_progress: EmbeddingProgress | None = None
) -> int | None:
    """Compute a memory's vectors, and its chunks if it has none, and store them in one transaction.

    Returns the number of its chunks; None if another process was faster, or the memory is gone: then nothing is
    written. Raises EmbeddingUnavailableError, DatabaseError.
    """
    with storage.read() as reader:
        reader.require_comparable(indexer.fingerprint)
        stored = reader.chunks_of(memory.id)
    chunks: Sequence[Chunk] = [part.chunk for part in stored] or indexer.chunk(memory.memory_type, memory.content)
    units = indexer.unit_texts(memory.memory_type, memory.title, memory.content, chunks)
    embedded = indexer.embed(units, on_progress)
    # The words of stored chunks, and of a memory that has no chunks, are in the index already.
    texts = searchable_texts(memory.memory_type, memory.content, chunks) if chunks and not stored else []
    derived = Derived(
        chunks=chunks,
        words=storage.prepare_words(texts),
        enriched=indexer.enriches(memory.memory_type),
        embedded=embedded,
    )
    with storage.write() as writer:
        return len(chunks) if writer.complete_memory(memory, derived) else None
