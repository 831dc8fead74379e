"""Stores many memories at a time, as from the history of a client."""

from collections.abc import Sequence

from vector_memory.domain import NewMemory, utc_now
from vector_memory.indexing.indexer import Indexer, is_chunked
from vector_memory.sessions.writer import hash_of, with_title
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Derived, History
from vector_memory.storage.searchable import searchable_texts


class Batches:
    """Stores memories without their vectors, which the backfill computes."""

    def __init__(self, storage: Storage, indexer: Indexer) -> None:
        self._storage = storage
        self._indexer = indexer

    def new_among(self, memories: Sequence[NewMemory]) -> list[NewMemory]:
        """Return the memories that are not stored yet, without repetitions."""
        new: dict[object, NewMemory] = {}
        with self._storage.read() as reader:
            for memory in memories:
                place = (memory.kind, memory.agent_id, memory.session_id, memory.session_iter, memory.task_code)
                key = (hash_of(memory.content), place, memory.parent_report_id, memory.metadata.get("category"))
                if key not in new and reader.find_duplicate(memory, key[0]) is None:
                    new[key] = memory
        return list(new.values())

    def store(self, memories: Sequence[NewMemory]) -> list[NewMemory]:
        """Store memories in one transaction, and return them without those that were stored before.

        Each is found by its words at once. Raises ChunkingError, DatabaseError; then nothing is stored.
        """
        self._storage.require_time_to_write()
        prepared = [self._prepared(memory) for memory in memories]
        stored, now = [], utc_now()
        with self._storage.write() as writer:
            for memory, derived in prepared:
                content_hash, created_at = hash_of(memory.content), memory.created_at or now
                if writer.find_duplicate(memory, content_hash) is None:
                    history = History(created_at, created_at, created_at)
                    writer.add_memory(memory, derived, content_hash=content_hash, history=history)
                    stored.append(memory)
        return stored

    def _prepared(self, memory: NewMemory) -> tuple[NewMemory, Derived]:
        chunks = self._indexer.chunk(memory.kind, memory.content)
        memory, chunked = with_title(memory), is_chunked(memory.kind)
        words = self._storage.prepare_words(searchable_texts(memory.title, memory.content, chunks, chunked=chunked))
        derived = Derived(chunks=chunks, words=words, enriched=self._indexer.enriches(memory.kind), embedded=None)
        return memory, derived
