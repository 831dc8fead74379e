"""Computes the vectors of memories and tags that have none: stored without a model, or by the original server.

First it finishes what an upgrade has left: words by earlier rules are indexed again, and documents of the original
server that have no chunks yet are cut, so that they are found by their words long before they have vectors.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from vector_memory.domain import MemoryKind, Scope
from vector_memory.domain.text import counted
from vector_memory.errors import ClosedMemoryError, DatabaseError, VectorMemoryError, is_about_text, where
from vector_memory.indexing.background import BackgroundVectors
from vector_memory.indexing.completion import complete
from vector_memory.indexing.indexer import Indexer
from vector_memory.results.overview import BackfillResult
from vector_memory.storage.base import Storage
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.records import Memory
from vector_memory.tagged.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

BACKFILL_STOP_SECONDS = 0.1
RETRY_SECONDS = 10.0
"""How long a backfill pauses after an error of the database before it tries again."""

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with the number of memories done and their total number."""


class Backfill:
    """Computes missing vectors in short transactions, so it can be stopped at any time."""

    def __init__(self, storage: Storage, indexer: Indexer, vocabulary: Vocabulary) -> None:
        self._storage = storage
        self._indexer = indexer
        self._vocabulary = vocabulary
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, threshold: int, background: BackgroundVectors) -> None:
        """Leave what is missing to the background, at once or when the memory can be read.

        `threshold` memories or more are left to a command.
        """
        try:
            with self._storage.read() as reader:
                is_needed = reader.upkeep.count_outdated() > 0 or reader.count(Scope(), without_vectors=True) > 0
        except ClosedMemoryError:  # the server is ending
            return
        except VectorMemoryError:  # the thread says why, and tries again
            is_needed = True
        if is_needed:
            thread = threading.Thread(
                target=self._run_quietly, args=(threshold, background), name="backfill", daemon=True
            )
            thread.start()
            self._thread = thread  # only now: `stop` cannot join a thread that has not been started

    def stop(self) -> None:
        """Stop. This does not wait for what takes long: nothing is written once the file is closed."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(BACKFILL_STOP_SECONDS)

    def run(self, on_progress: Progress | None = None) -> BackfillResult:
        """Compute the missing vectors. Memories on which the engine fails count as remaining.

        Raises EmbeddingUnavailableError; vectors computed before that are kept.
        """
        # All are cut before the first gets vectors: then no two processes can cut one in different ways.
        self._storage.finish_upgrade(partial(self._indexer.chunk, MemoryKind.REPORT))
        total = self._count_missing()
        indexed = chunks = 0
        for done, memory in enumerate(self._missing(), start=1):
            chunk_count = if_possible(partial(complete, self._storage, self._indexer), memory)
            indexed += chunk_count is not None
            chunks += chunk_count or 0
            if on_progress is not None:
                on_progress(done, total)
        if not self._stopping.is_set():
            self._vocabulary.add_missing_vectors()
        with self._storage.read() as reader:
            remaining = reader.count(Scope(), without_vectors=True)
            coming = reader.pending(Scope()).memories
        return BackfillResult(
            memories_processed=indexed,
            chunks_processed=chunks,
            memories_remaining=remaining,
            message=f"Indexed {counted(indexed, 'memory', 'memories')} with {counted(chunks, 'chunk')}; "
            f"{remaining:,} remaining{being_computed(coming)}.",
        )

    def _count_missing(self) -> int:
        with self._storage.read() as reader:
            return reader.count(Scope(), without_vectors=True)

    def _run_quietly(self, threshold: int, background: BackgroundVectors) -> None:
        """Do what is missing, and after an error of the database try again until it is done or `stop` is called."""
        said = None
        while not self._stopping.wait(0.0 if said is None else RETRY_SECONDS):
            try:
                self._begin_missing(threshold, background)
            except ClosedMemoryError:  # what is left is done by the next run
                pass
            except DatabaseError as error:
                if not isinstance(error, DamagedError):
                    if str(error) != said:
                        said = str(error)
                        logger.warning("Backfill postponed: %s", said)
                    continue
                logger.warning("Backfill stopped: %s", error)
            except VectorMemoryError as error:
                logger.warning("Backfill stopped: %s", error)
            except Exception as error:  # the server keeps running, and the next start tries again
                logger.warning("Backfill stopped: %s", where(error))
            return

    def _begin_missing(self, threshold: int, background: BackgroundVectors) -> None:
        self._storage.finish_upgrade(self._indexer.cut_without_model)
        if 0 < self._count_missing() < threshold:
            fingerprint = self._indexer.fingerprint
            with self._storage.write() as writer:
                writer.require_comparable(fingerprint)
                writer.defer_missing_vectors()
            background.begin()
            self._vocabulary.add_missing_vectors()

    def _missing(self) -> Iterator[Memory]:
        """Yield the memories that lack vectors, until `stop`; at the end those that may kill the process again."""
        for given_up in (False, True):
            memory = self._next(0, given_up=given_up)
            while memory is not None and not self._stopping.is_set():
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
