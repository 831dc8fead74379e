"""Recomputes all vectors with another model.

The change is recorded in the memory first: from then on only vectors of this model are stored. Searches of processes
with the earlier model use its vectors until all memories have new ones (`storage.queries.change_of_model`). The
backfill computes these, so this can be stopped at any time, and whoever comes next finishes it.
"""

from contextlib import nullcontext
from typing import NamedTuple

from vector_memory.domain.text import counted
from vector_memory.errors import DatabaseError, OtherModelError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import Backfill, Progress, if_possible
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Memory

OTHER_MODEL = (
    "A `vector-memory reembed` with another model has started and ended this one: choose one model and repeat the "
    "command with it."
)


class Reembedded(NamedTuple):
    """How many memories got new vectors, and how many still have none; `message` says it in words."""

    memories: int
    remaining: int
    message: str


class Reembedding:
    """Changes the model of a memory, and adds the states of tokens that are missing."""

    def __init__(self, storage: Storage, indexer: Indexer, backfill: Backfill) -> None:
        self._storage = storage
        self._indexer = indexer
        self._backfill = backfill

    def run(self, on_progress: Progress | None = None) -> Reembedded:
        """Recompute the vectors with this model, and compute those of memories that have none.

        Raises EmbeddingUnavailableError, DatabaseError; work completed before that is kept.
        """
        fingerprint = self._indexer.fingerprint
        with self._storage.read() as reader:
            is_current = reader.fingerprint() == fingerprint
        if not is_current:
            with self._storage.write() as writer:
                writer.upkeep.change.begin(fingerprint)
        try:
            backfilled = self._backfill.run(on_progress)
            with self._storage.read() as reader:
                reader.require_current(fingerprint)
            recomputed = self._add_states(on_progress) if self._indexer.keeps_states else 0
        except OtherModelError:
            raise DatabaseError(OTHER_MODEL) from None
        done, remaining = recomputed + backfilled.memories_processed, backfilled.memories_remaining
        memories = counted(done, "memory", "memories")
        summary = f"recomputed {memories}, {remaining:,} remaining" if done or remaining else "nothing to do"
        return Reembedded(done, remaining, f"The vectors are from {fingerprint}: {summary}.")

    def _add_states(self, on_progress: Progress | None) -> int:
        """Recompute the vectors of memories that lack states of tokens, and return of how many."""
        with self._storage.read() as reader:  # which may look at every passage, so not while others wait to write
            lacking = reader.upkeep.change.without_states()
        recomputed = 0
        with self._backfill.lease.held() if lacking else nullcontext():
            for done, number in enumerate(lacking, start=1):
                self._backfill.lease.keep()
                with self._storage.read() as reader:
                    memory = reader.memories([number]).get(number)
                if memory is not None:
                    recomputed += if_possible(self._replace, memory) is not None
                if on_progress is not None:
                    on_progress(done, len(lacking))
        return recomputed

    def _replace(self, memory: Memory) -> int:
        """Recompute the vectors of one memory; return how many."""
        with self._storage.read() as reader:
            chunks = [stored.chunk for stored in reader.chunks_of(memory.id)]
        units = self._indexer.unit_texts(memory.memory_type, memory.title, memory.content, chunks)
        embedded = self._indexer.embed(units)
        with self._storage.write() as writer:
            writer.replace_vectors(memory, embedded)
        return len(embedded.passages)
