"""Repairs of what is derived from the texts, for memories of any engine."""

from collections.abc import Collection
from dataclasses import replace

from vector_memory.domain import utc_now
from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import Backfill, Progress
from vector_memory.maintenance.doctor.agreement import Faults, Translated, faults_in, unknown_tags
from vector_memory.storage.base import Storage, Writer
from vector_memory.storage.maintenance_api import WholeMemory
from vector_memory.tagged.vocabulary import Vocabulary

DERIVED = {"chunks", "passages", "vectors", "index"}


class Repairs:
    """Rebuilds what is derived from the texts of an open memory."""

    def __init__(self, storage: Storage, model: EmbeddingModel, indexer: Indexer, translated: Translated) -> None:
        self._storage = storage
        self._model = model
        self._indexer = indexer
        self._translated = translated

    def run(self, wrong: set[str], misfiled: Collection[int], on_progress: Progress | None) -> list[str]:
        """Repair what these checks found; return a sentence for each repair.

        `misfiled`: the memories whose vectors have other fields than they. Without a model vectors stay as they are.
        """
        usable = self._is_model_usable()
        done: list[str] = []
        stripped = wrong & DERIVED if usable else set()
        with self._storage.write() as writer:
            if stripped or "keywords" in wrong:
                writer.keywords.clear()  # first: nothing can be removed from a block that is damaged
                if stripped:
                    strip_derived(writer, faults_in(writer, self._translated), misfiled)
                writer.keywords.fill()
                done.append("Rebuilt the keyword index.")
            if "superseded" in wrong:
                others = writer.wrong_lifecycles()
                writer.refresh(others)
                done.append(f"Corrected when {counted(len(others), 'memory', 'memories')} were superseded.")
            if "tags" in wrong:
                done.append(add_unknown_tags(writer, unknown_tags(writer), utc_now()))
        if usable and (stripped or "unindexed" in wrong):
            result = Backfill(self._storage, self._indexer, Vocabulary(self._storage, self._model)).run(on_progress)
            done.append(f"Computed the vectors of {counted(result.memories_processed, 'memory', 'memories')}.")
        return done

    def _is_model_usable(self) -> bool:
        """Return whether there is a model whose vectors are comparable with those of the memory."""
        try:
            with self._storage.read() as reader:
                reader.require_comparable(self._indexer.fingerprint)
        except EmbeddingUnavailableError:
            return False
        return True


def strip_derived(writer: Writer, faults: Faults, misfiled: Collection[int]) -> None:
    """Remove what is derived wrongly. Correct chunks keep their ids. Then the words have to be indexed again.

    Memories with damaged text are left alone: their chunks may be all that is left of it.
    """
    lifetimes = writer.upkeep.portions.lifetimes()
    for memory in writer.memories(sorted((faults.derived | set(misfiled)) - faults.text)).values():
        chunks = [] if memory.id in faults.chunks else writer.chunks_of(memory.id)
        writer.delete(memory.id, for_good=False)
        bare = WholeMemory(replace(memory, chunk_count=len(chunks)), chunks, None)
        writer.upkeep.portions.add_memories([bare], None)
    writer.upkeep.portions.set_lifetimes(lifetimes)


def add_unknown_tags(writer: Writer, tags: dict[str, int], now: str) -> str:
    """Make tags canonical that are in use so many times."""
    for tag, count in tags.items():
        for _ in range(count):
            writer.count_tag(tag, None, now)
    return f"Restored {counted(len(tags), 'canonical tag')}."
