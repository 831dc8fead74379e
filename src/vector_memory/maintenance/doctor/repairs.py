"""Repairs of what is derived from the texts, for memories of any engine."""

from collections.abc import Collection
from dataclasses import replace

from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import Backfill, Progress
from vector_memory.storage.base import Storage, Writer
from vector_memory.storage.maintenance_api import WholeMemory
from vector_memory.tagged.vocabulary import Vocabulary


def is_model_usable(storage: Storage, indexer: Indexer) -> bool:
    """Return whether there is a model whose vectors are comparable with those of the memory."""
    try:
        with storage.read() as reader:
            reader.require_comparable(indexer.fingerprint)
    except EmbeddingUnavailableError:
        return False
    return True


def compute_vectors(storage: Storage, indexer: Indexer, model: EmbeddingModel, on_progress: Progress | None) -> str:
    """Compute missing chunks and vectors; say for how many memories."""
    result = Backfill(storage, indexer, Vocabulary(storage, model)).run(on_progress)
    return f"Computed the vectors of {counted(result.memories_processed, 'memory', 'memories')}."


def strip_derived(writer: Writer, memory_ids: Collection[int]) -> None:
    """Remove what is derived from these memories. Afterwards the words of all memories have to be indexed again."""
    for memory in writer.memories(sorted(memory_ids)).values():
        writer.delete(memory.id)
        bare = WholeMemory(replace(memory, chunk_count=0), [], None)
        writer.upkeep.portions.add_memories([bare], None)


def add_unknown_tags(writer: Writer, tags: dict[str, int], now: str) -> str:
    """Make tags canonical that are in use so many times."""
    for tag, count in tags.items():
        for _ in range(count):
            writer.count_tag(tag, None, now)
    return f"Restored {counted(len(tags), 'canonical tag')}."
