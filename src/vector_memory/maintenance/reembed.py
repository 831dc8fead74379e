"""Recomputes all vectors with another model. Searches use the old vectors until all new ones exist."""

import time
from typing import NamedTuple

from vector_memory.domain import Fingerprint, Scope
from vector_memory.domain.text import counted
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.backfill import PAUSE_SECONDS, Backfill, Progress, if_possible
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.queries.reembedding import SpareVectors
from vector_memory.storage.records import NO_LINKS, Links, Memory, Origin


class Reembedded(NamedTuple):
    """How many memories got new vectors, and how many still have none; `message` says it in words."""

    memories: int
    remaining: int
    message: str


class Reembedding:
    """Fills spare vectors memory by memory, swaps them with those in use, and erases the old vectors.

    Each step is one transaction, so it can be stopped at any time and repeated. Until the swap, servers with the old
    model search, store and delete as usual. If several processes do this at once, they may repeat each other's work,
    and one with another model ends the others; both waste time but do no harm.
    """

    def __init__(self, storage: Storage, indexer: Indexer, backfill: Backfill) -> None:
        self._storage = storage
        self._indexer = indexer
        self._backfill = backfill

    def run(self, on_progress: Progress | None = None) -> Reembedded:
        """Recompute the vectors with this model, and compute those of memories that have none.

        Raises EmbeddingUnavailableError, DatabaseError; work completed before that is kept.
        """
        model = str(self._indexer.fingerprint)
        recomputed = self._recompute(on_progress) if self._begin() else 0
        if recomputed:
            self._link()
        self._erase()
        backfilled = self._backfill.run(on_progress)
        done, remaining = recomputed + backfilled.memories_processed, backfilled.memories_remaining
        memories = counted(done, "memory", "memories")
        summary = f"recomputed {memories}, {remaining:,} remaining" if done or remaining else "nothing to do"
        return Reembedded(done, remaining, f"The vectors are from {model}: {summary}.")

    def _begin(self) -> bool:
        """Erase the spare vectors of another model and begin those of this one; False: none are needed."""
        fingerprint, keeps_states = self._indexer.fingerprint, self._indexer.keeps_states
        with self._storage.read() as reader:  # which may look at every passage, so not while others wait to write
            spare = reader.upkeep.spare_vectors
            lacks_states = keeps_states and spare.are_states_missing()
            # Those that were begun without states would be in use without them.
            is_begun = keeps_states and spare.needed_for() == fingerprint
            is_begun_without = is_begun and spare.are_states_missing(spare=True)
        with self._storage.write() as writer:
            needed = lacks_states or not are_comparable(writer, fingerprint)
            if is_begun_without or writer.upkeep.spare_vectors.needed_for() != fingerprint:
                writer.upkeep.spare_vectors.discard()
        self._erase()
        with self._storage.write() as writer:
            if needed and not writer.upkeep.spare_vectors.exist():
                writer.upkeep.spare_vectors.begin(fingerprint)
        return needed

    def _recompute(self, on_progress: Progress | None) -> int:
        """Recompute the vectors of all memories that have some, and put them in use; return the number of memories."""
        with self._storage.read() as reader:
            total = reader.upkeep.spare_vectors.count_missing()
        done = recomputed = 0
        memory = self._next_or_swap(0)
        while memory is not None:
            recomputed += if_possible(self._index, memory) is not None
            done += 1
            if on_progress is not None:
                on_progress(done, max(done, total))
            # Memories stored in the meantime have larger ids.
            memory = self._next_or_swap(memory.id)
        return recomputed

    def _next_or_swap(self, after_id: int) -> Memory | None:
        """Return the next memory to recompute; None if there is none and the new vectors are in use.

        Raises EmbeddingUnavailableError if the engine failed on most memories.
        """
        with self._storage.write() as writer:
            if self._is_complete(writer):
                return None
            memory = writer.upkeep.spare_vectors.next_missing(after_id)
            if memory is None:
                require_most_recomputed(writer.upkeep.spare_vectors)
                writer.upkeep.spare_vectors.swap()
            return memory

    def _index(self, memory: Memory) -> int:
        """Recompute the vectors of one memory; return how many."""
        with self._storage.read() as reader:
            chunks = [stored.chunk for stored in reader.chunks_of(memory.id)]
        embedded = self._indexer.embed(
            self._indexer.unit_texts(memory.memory_type, memory.title, memory.content, chunks)
        )
        with self._storage.write() as writer:
            # Another process may have done this, or deleted the memory, in the meantime.
            if not self._is_complete(writer) and writer.upkeep.spare_vectors.is_missing(memory.id):
                writer.upkeep.spare_vectors.add(memory, embedded)
        return len(embedded.passages)

    def _link(self) -> None:
        """Find the later memories on the subjects of others again, each by what was stored before it."""
        with self._storage.write() as writer:
            writer.remove_links()
        with self._storage.read() as reader:
            ids = reader.ids(Scope())
        for number in ids:
            with self._storage.read() as reader:
                links = self._links_of(reader, number)
            if links.evidence or links.series:
                with self._storage.write() as writer:
                    writer.link(number, links)

    def _links_of(self, reader: Reader, memory_id: int) -> Links:
        memory = reader.memories([memory_id]).get(memory_id)
        if memory is None:
            return NO_LINKS
        links = self._indexer.links_of(reader, memory.memory_type, memory.content, None, memory_id)
        older = [one.id for one in reader.origins(list(links.evidence)).values() if order_of(one) < order_of(memory)]
        return links._replace(evidence={number: links.evidence[number] for number in older})

    def _is_complete(self, reader: Reader) -> bool:
        """Return whether the new vectors are in use. Raises DatabaseError if another process has discarded them."""
        if reader.upkeep.spare_vectors.needed_for() != self._indexer.fingerprint:
            if are_comparable(reader, self._indexer.fingerprint):
                return True
            raise DatabaseError(
                "A `vector-memory reembed` with another model has started and discarded the progress of this one: "
                "choose one model and repeat the command with it."
            )
        return False

    def _erase(self) -> None:
        """Erase vectors that are no longer needed, in short steps that do not block other writers."""
        erased = False
        while self._erase_step():
            erased = True
            time.sleep(PAUSE_SECONDS)
        if erased:
            self._storage.purge_deleted()

    def _erase_step(self) -> bool:
        with self._storage.write() as writer:
            return writer.upkeep.spare_vectors.erase_step()


def order_of(origin: Origin) -> tuple[int, str, int]:
    """Return what sorts memories in the order of storing, whatever the clocks of their machines said."""
    return origin.turn, origin.created_at, origin.id


def are_comparable(reader: Reader, fingerprint: Fingerprint) -> bool:
    """Return whether vectors of this fingerprint are comparable with those in use."""
    try:
        reader.require_comparable(fingerprint)
    except EmbeddingUnavailableError:
        return False
    return True


def require_most_recomputed(spare: SpareVectors) -> None:
    """Raise EmbeddingUnavailableError if more memories would lose their vectors than have new ones."""
    missing, recomputed = spare.count_missing(), spare.count_recomputed()
    if missing > recomputed:
        raise EmbeddingUnavailableError(
            f"The model failed on {missing:,} of {counted(missing + recomputed, 'memory', 'memories')}, so the old "
            "vectors stay in use. "
            "See the log for the reason, and repeat the command once it is fixed."
        )
