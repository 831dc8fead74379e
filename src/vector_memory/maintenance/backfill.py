"""Makes the vectors of memories and tags that have none: stored without a model, or by the original server."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from vector_memory.domain import Chunk, Scope
from vector_memory.errors import ClosedMemoryError, VectorMemoryError, where
from vector_memory.indexing.indexer import Indexer, texts_of
from vector_memory.results.overview import BackfillResult
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Derived, Memory
from vector_memory.tagged.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

STOP_SECONDS = 0.1

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with the number of memories done and the number there were to do."""


class Backfill:
    """Works through the memories without vectors, one transaction each, so that it can be stopped at any time."""

    def __init__(self, storage: Storage, indexer: Indexer, vocabulary: Vocabulary) -> None:
        self._storage = storage
        self._indexer = indexer
        self._vocabulary = vocabulary
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, threshold: int) -> None:
        """Run in the background if vectors are missing, but of fewer memories than `threshold`."""
        try:
            with self._storage.read() as reader:
                missing = reader.count(Scope(), without_vectors=True)
        except ClosedMemoryError:  # the server is ending
            return
        except VectorMemoryError as error:
            logger.warning("Backfill not started: %s", error)
            return
        if 0 < missing < threshold:
            thread = threading.Thread(target=self._run_quietly, name="backfill", daemon=True)
            thread.start()
            self._thread = thread  # only now: `stop` cannot join a thread that has not been started

    def stop(self) -> None:
        """Stop a run in the background.

        It may be in the middle of embedding a long memory. Nobody waits for that: it writes nothing any more once the
        file is closed, and what it was at is done by the next run.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def run(self, on_progress: Progress | None = None) -> BackfillResult:
        """Make every missing vector that can be made; the rest counts as remaining.

        Raises EmbeddingUnavailableError; what was done until then stays done.
        """
        with self._storage.read() as reader:
            total = reader.count(Scope(), without_vectors=True)
        done = indexed = chunks = 0
        memory = self._next(0)
        while memory is not None and not self._stopping.is_set():
            chunk_count = if_possible(self._index, memory)
            done += 1
            indexed += chunk_count is not None
            chunks += chunk_count or 0
            if on_progress is not None:
                on_progress(done, total)
            memory = self._next(memory.id)
        if not self._stopping.is_set():
            self._vocabulary.make_missing_vectors()
        with self._storage.read() as reader:
            remaining = reader.count(Scope(), without_vectors=True)
        return BackfillResult(
            memories_processed=indexed,
            chunks_processed=chunks,
            memories_remaining=remaining,
            message=f"Indexed {indexed} {'memory' if indexed == 1 else 'memories'} with {chunks} "
            f"{'chunk' if chunks == 1 else 'chunks'}; {remaining} remaining.",
        )

    def _run_quietly(self) -> None:
        try:
            logger.info("Backfill: %s", self.run().message)
        except ClosedMemoryError:  # what is left is done by the next run
            return
        except VectorMemoryError as error:
            logger.warning("Backfill stopped: %s", error)
        except Exception as error:  # the next start tries again, and the server goes on
            logger.warning("Backfill stopped: %s", where(error))

    def _next(self, after_id: int) -> Memory | None:
        with self._storage.read() as reader:
            return reader.next_without_vectors(after_id)

    def _index(self, memory: Memory) -> int:
        """Make one memory's vectors, and its chunks if they are missing too; return how many chunks it has."""
        with self._storage.read() as reader:
            reader.require_comparable(self._indexer.fingerprint)
            stored = reader.chunks_of(memory.id)
        chunks: Sequence[Chunk] = [part.chunk for part in stored] or self._indexer.chunk(
            memory.memory_type, memory.content
        )
        pieces = self._indexer.pieces(memory.memory_type, memory.title, memory.content, chunks)
        embedded = self._indexer.embed(pieces)
        # The words of chunks that are stored, and of a memory without chunks, are in the index.
        texts = texts_of(memory.memory_type, memory.content, chunks) if chunks and not stored else []
        derived = Derived(
            chunks=chunks,
            words=self._storage.prepare_words(texts),
            enriched=self._indexer.enriches(memory.memory_type),
            embedded=embedded,
        )
        with self._storage.write() as writer:
            # Another process may have indexed or deleted it meanwhile: then nothing is written.
            writer.complete_memory(memory, derived)
        return len(chunks)


def if_possible(index: Callable[[Memory], T], memory: Memory) -> T | None:
    """Return `index(memory)`; None if the engine fails on this memory, which may not stop the rest."""
    try:
        return index(memory)
    except VectorMemoryError:
        raise
    except Exception as error:
        # Not its words: they may quote the text.
        logger.warning("Memory %d could not be indexed: %s", memory.id, type(error).__name__)
        return None
