"""Computes the vectors of a memory that is stored without them, or without all of them."""

from collections.abc import Sequence

from vector_memory.domain import Chunk
from vector_memory.indexing.indexer import EmbeddingProgress, Indexer
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Derived, Memory
from vector_memory.storage.unit_text import words_of


def complete(
    storage: Storage, indexer: Indexer, memory: Memory, on_progress: EmbeddingProgress | None = None
) -> int | None:
    """Compute the vectors that a memory lacks, and its chunks if it has none, and store each batch as it is computed.

    Whoever is interrupted leaves the batches that are stored, and the next call goes on after them. Returns the number
    of chunks; None if another process was faster, or the memory is gone. Raises EmbeddingUnavailableError,
    DatabaseError.
    """
    with storage.read() as reader:
        reader.require_comparable(indexer.fingerprint)
        stored = reader.chunks_of(memory.id)
        embedded = reader.embedded_passages(memory.id)
    chunks: Sequence[Chunk] = [part.chunk for part in stored] or indexer.chunk(memory.memory_type, memory.content)
    cut = indexer.cut(indexer.unit_texts(memory.memory_type, memory.title, memory.content, chunks))
    enriched = indexer.enriches(memory.memory_type)
    if embedded != cut.passages[: len(embedded)] or any(part.enriched != enriched for part in stored if embedded):
        # Another release has cut the text in another way, or a process with other settings has embedded its beginning.
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
        with storage.write() as writer:
            if not writer.add_vectors(memory, derived, after=after, is_last=done == total):
                return None
        if on_progress is not None:
            on_progress(done, total)
    return len(chunks)
