"""Computes the vectors of memories and tags that have none: stored without a model, or by the original server.

First, words by earlier rules are indexed again.
"""

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from vector_memory.domain import STORED, Scope
from vector_memory.domain.text import counted
from vector_memory.errors import is_about_text, where
from vector_memory.indexing.indexer import Indexer, complete
from vector_memory.results.overview import BackfillResult
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Memory
from vector_memory.tagged.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

EVERYTHING = Scope(as_of=STORED)

T = TypeVar("T")

PAUSE_SECONDS = 0.02
"""Pause between long transactions. Writers of other processes do not queue for the lock: without a pause they would
wait for it up to 1.2 s, with it usually 0.01 s."""

Progress = Callable[[int, int], None]
"""Called with the number of memories done and their total number."""


class Backfill:
    """Computes missing vectors in short transactions, so its process may end at any time."""

    def __init__(self, storage: Storage, indexer: Indexer, vocabulary: Vocabulary) -> None:
        self._storage = storage
        self._indexer = indexer
        self._vocabulary = vocabulary

    def begin(self, threshold: int) -> None:
        """Index words by earlier rules again, and leave the missing vectors to the background.

        `threshold` memories or more are left to a command.
        """
        self.index_words()
        if 0 < self._count_missing() < threshold:
            fingerprint = self._indexer.fingerprint
            with self._storage.write() as writer:
                writer.require_comparable(fingerprint)
                writer.defer_missing_vectors()
            self._vocabulary.add_missing_vectors()

    def run(self, on_progress: Progress | None = None) -> BackfillResult:
        """Compute the missing vectors. Memories on which the engine fails count as remaining.

        Raises EmbeddingUnavailableError; vectors computed before that are kept.
        """
        self.index_words()
        total = self._count_missing()
        indexed = chunks = 0
        for done, memory in enumerate(self._missing(), start=1):
            chunk_count = if_possible(partial(complete, self._storage, self._indexer), memory)
            indexed += chunk_count is not None
            chunks += chunk_count or 0
            if on_progress is not None:
                on_progress(done, total)
        self._vocabulary.add_missing_vectors()
        with self._storage.read() as reader:
            remaining = reader.count(EVERYTHING, without_vectors=True)
            coming = reader.pending(EVERYTHING).memories
        return BackfillResult(
            memories_processed=indexed,
            chunks_processed=chunks,
            memories_remaining=remaining,
            message=f"Indexed {counted(indexed, 'memory', 'memories')} with {counted(chunks, 'chunk')}; "
            f"{remaining:,} remaining{being_computed(coming)}.",
        )

    def index_words(self) -> None:
        """Index words by earlier rules again, block by block: what is done stays done."""
        with self._storage.read() as reader:
            is_left = reader.upkeep.portions.count_outdated() > 0
        while is_left:
            with self._storage.write() as writer:
                is_left = writer.keywords.index_again()
            time.sleep(PAUSE_SECONDS)

    def _count_missing(self) -> int:
        with self._storage.read() as reader:
            return reader.count(EVERYTHING, without_vectors=True)

    def _missing(self) -> Iterator[Memory]:
        """Yield the memories that lack vectors; at the end those that may kill the process again."""
        for given_up in (False, True):
            memory = self._next(0, given_up=given_up)
            while memory is not None:
                yield memory
                memory = self._next(memory.id, given_up=given_up)

    def _next(self, after_id: int, *, given_up: bool) -> Memory | None:
        with self._storage.read() as reader:
            return reader.next_without_vectors(after_id, given_up=given_up)


def being_computed(number: int) -> str:
    """Say how many of the remaining memories a backfill has left to a server."""
    return f", {number:,} of them being computed by a server" if number else ""


def if_possible(index: Callable[[Memory], T], memory: Memory) -> T | None:
    """Return `index(memory)`, or None if the engine fails on this memory; the others are still indexed."""
    try:
        return index(memory)
    except Exception as error:
        if not is_about_text(error):
            raise
        # The error's message is not logged, because it may quote the text.
        logger.warning("Memory %d could not be indexed: %s", memory.id, where(error))
        return None
