"""Computes vectors after the receipt: a memory is safe and found by its words at once, and by meaning a moment later.

Whoever stores a memory without its vectors leases it in the same transaction. A thread of the same process then works
through its leases, the oldest memory first. When a process ends before it is done, its leases run out, and the thread
of any other process that has the file open takes them over; if there is none, the next one that starts does.
"""

import logging
import threading
import time
import uuid

from vector_memory.domain import Scope
from vector_memory.errors import ClosedMemoryError, EmbeddingUnavailableError, VectorMemoryError, where
from vector_memory.indexing.completion import complete
from vector_memory.indexing.indexer import Indexer
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.storage.records import Lease, Memory

logger = logging.getLogger(__name__)

LEASE_SECONDS = 5.0
"""A process renews its leases at least twice as often; after this time without it others take them over."""


class BackgroundVectors:
    """Computes the vectors of memories that were stored without them, in a thread, once it is started."""

    def __init__(self, storage: Storage, indexer: Indexer) -> None:
        self._storage = storage
        self._indexer = indexer
        self._owner = uuid.uuid4().hex
        self._thread: threading.Thread | None = None
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._renewed = 0.0
        self._promised: set[int] = set()

    @property
    def is_running(self) -> bool:
        """Whether memories may be deferred to this process."""
        return self._thread is not None and not self._stopping.is_set()

    def start(self) -> None:
        """Begin to compute what this process defers, and what others have left behind."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="vectors", daemon=True)
            self._thread.start()

    def defer(self, writer: Writer, memory_id: int) -> None:
        """Promise the vectors of a memory that the transaction adds. Call `begin` when it is committed."""
        writer.defer_vectors(memory_id, self._lease())
        self._promised.add(memory_id)

    def begin(self) -> None:
        """Begin with what was deferred."""
        self._wanted.set()

    def count_pending(self, reader: Reader, scope: Scope) -> int:
        """Return how many memories of a scope have vectors that some process is computing now."""
        return reader.count_pending(scope, self._lease())

    def pause(self, seconds: float) -> bool:
        """Wait for so long; False: at once, because the file is being closed."""
        return not self._stopping.wait(seconds)

    def stop(self) -> None:
        """Stop, and leave what is not done to others.

        Does not wait for the thread, which may be in the middle of a long text: it writes nothing once the file is
        closed, and the client gives the process little time to end.
        """
        self._stopping.set()
        self._wanted.set()
        if self._thread is None:
            return
        try:
            with self._storage.read() as reader:
                left = reader.next_pending(self._lease())
            if left is not None:
                with self._storage.write() as writer:
                    writer.release_leases(self._owner)
        except VectorMemoryError as error:  # then the leases run out by themselves
            logger.info("Leases were not released: %s", error)

    def _lease(self) -> Lease:
        now = time.time()
        return Lease(self._owner, now, now + LEASE_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except ClosedMemoryError:
                return
            except VectorMemoryError as error:
                logger.info("Vectors were not computed yet: %s", error)
            except Exception as error:  # whatever it is, the thread goes on
                logger.warning("Vectors were not computed yet: %s", where(error))
            # Also unasked: another process may have left something behind.
            self._wanted.wait(LEASE_SECONDS)
            self._wanted.clear()

    def _work(self) -> None:
        while not self._stopping.is_set():
            with self._storage.read() as reader:
                memory = reader.next_pending(self._lease())
            if memory is None:
                return
            self._renew(at_once=memory.id not in self._promised)
            self._complete(memory)
            self._promised.discard(memory.id)

    def _complete(self, memory: Memory) -> None:
        try:
            complete(self._storage, self._indexer, memory, self._go_on)
        except EmbeddingUnavailableError:
            # Nobody is to wait for them any more; each round tries again.
            with self._storage.write() as writer:
                writer.release_leases(self._owner)
            raise
        except VectorMemoryError:
            raise
        except Exception as error:  # the engine fails on this text: a backfill will try again
            logger.warning("Memory %d could not be indexed: %s", memory.id, type(error).__name__)
            with self._storage.write() as writer:
                writer.settle(memory.id)

    def _go_on(self, _done: int, _total: int) -> None:
        """Keep the leases while a long text is embedded. Raises ClosedMemoryError at the end of the process."""
        if self._stopping.is_set():
            raise ClosedMemoryError
        self._renew(at_once=False)

    def _renew(self, *, at_once: bool) -> None:
        """Renew the leases, and take over what others left behind, unless that was done a moment ago."""
        if at_once or time.monotonic() - self._renewed > LEASE_SECONDS / 2:
            with self._storage.write() as writer:
                writer.take_leases(self._lease())
            self._renewed = time.monotonic()
