"""Computes vectors after the receipt: a memory is safe and found by its words at once, and by meaning a moment later.

A process that stores a memory without its vectors leases it in the same transaction. A thread of the same process then
works through its leases, the oldest memory first; short texts need not wait for a long one. If a process ends first,
its leases expire, and the threads of all other processes that have the file open take the memories over, one at a time;
if there is none, the next process that starts does. They also take over some memories that a process with many leases
has not begun. Each batch of vectors is stored when it is computed, so that a killed process loses no finished work. A
text that the engine fails on is retried a few times, and so are texts stored while no engine could be used. Before all
that, the thread reindexes words from earlier rules. In between it erases expired memories.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vector_memory.errors import ClosedMemoryError, DatabaseError, VectorMemoryError, is_about_text, where
from vector_memory.storage.base import Storage, Writer
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.records import Lease, Memory
from vector_memory.writing.indexer import EmbeddingProgress, Indexer, complete

logger = logging.getLogger(__name__)

LEASE_SECONDS = 5.0
"""A process renews its leases twice as often while it works; after this time without it others take them over."""

HANGING_SECONDS = 120.0
"""If a batch takes longer, the engine seems to hang on it, and the leases are not renewed."""

SECONDS_FOR_RECEIPT = 0.01
"""The thread begins this much later than it could: a note's receipt takes a third less of the processor then."""

SHORT = 25_000
"""Texts of up to this many characters usually fit in one batch. They need not wait for longer ones."""


SECONDS_BETWEEN_ERASING = 600.0
"""Expired memories are hidden at once, and their bytes are overwritten within this time."""


class BackgroundVectors:
    """Computes the vectors of memories that were stored without them, in a thread, once it is started."""

    def __init__(self, storage: Storage, indexer: Indexer) -> None:
        self._storage = storage
        self._indexer = indexer
        self.owner = uuid.uuid4().hex
        self._thread: threading.Thread | None = None
        self._first: Callable[[], object] | None = None
        self._erase: Callable[[], bool] | None = None
        self._erase_at = 0.0
        self._said = ""
        self._defers = self._works = self._has_failed = False
        self._progress_at = time.monotonic()
        self._wanted = threading.Event()
        self._stopping = threading.Event()

    @property
    def defers(self) -> bool:
        """Whether memories may be deferred to this process."""
        return self._defers and not self._stopping.is_set()

    @property
    def is_busy(self) -> bool:
        """Whether the thread computes vectors, or is about to."""
        return self._works or self._wanted.is_set()

    def start(
        self,
        *,
        defers: bool = False,
        first: Callable[[], object] | None = None,
        erase: Callable[[], bool] | None = None,
    ) -> None:
        """Begin to compute what others have left behind and, if it `defers`, what this process stores from now on.

        `first` runs before that, as soon as the database allows, and again while it returns True. `erase` is called
        every few minutes; it erases some expired memories, and returns whether there may be more.
        """
        self._defers |= defers
        self._first, self._erase = first or self._first, erase or self._erase
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="vectors", daemon=True)
            thread.start()
            self._thread = thread  # only now: `stop` cannot join a thread that has not been started
        else:
            self._wanted.set()

    def defer(self, writer: Writer, memory_id: int, *, promised: bool) -> None:
        """Promise the vectors of a memory that the transaction adds, or leave them to any process that can.

        Call `begin` when it is committed.
        """
        writer.defer_vectors(memory_id, self._lease() if promised else Lease(owner="", until=0.0))

    def begin(self) -> None:
        """Begin with the deferred memories."""
        self._wanted.set()

    def pause(self, seconds: float) -> bool:
        """Wait this long; False: at once, because the file is being closed."""
        return not self._stopping.wait(seconds)

    def stop(self) -> None:
        """Stop, and leave the rest to others.

        Does not wait for the thread, which may be in the middle of a long text: it writes nothing once the file is
        closed, and the client gives the process little time to end.
        """
        self._stopping.set()
        self._wanted.set()
        if self._thread is None:
            return
        try:
            with self._storage.read() as reader:
                left = reader.vectors.next_leased(self.owner)
            if left is not None:
                self._release()
        except VectorMemoryError as error:  # then the leases expire on their own
            logger.info("Leases were not released: %s", error)

    def _lease(self) -> Lease:
        return Lease(self.owner, time.time() + LEASE_SECONDS)

    def _run(self) -> None:
        is_idle = False
        while not self._stopping.is_set():
            try:
                if is_idle:
                    self._storage.purge_deleted()
                self._erase_expired()
                self._do_first()
                self._work()
            except ClosedMemoryError:
                return
            except VectorMemoryError as error:
                logger.info("Vectors were not computed yet: %s", error)
            except Exception as error:  # whatever it is, the thread continues
                logger.warning("Vectors were not computed yet: %s", where(error))
            # Also without a request: another process may have left something behind, or kept the log from being erased.
            is_idle = not self._wanted.wait(LEASE_SECONDS)
            if not is_idle:
                self._stopping.wait(SECONDS_FOR_RECEIPT)
            self._wanted.clear()

    def _erase_expired(self) -> None:
        if self._erase is None or time.monotonic() < self._erase_at:
            return
        self._erase_at = time.monotonic() + SECONDS_BETWEEN_ERASING
        try:
            if self._erase():
                self._erase_at = 0.0
        except DatabaseError as error:  # vectors must not wait for it
            logger.info("Expired memories were not erased yet: %s", error)

    def _do_first(self) -> None:
        if self._first is None:
            return
        try:
            if not self._first():
                self._first = None
        except ClosedMemoryError:
            raise
        except Exception as error:
            if isinstance(error, DatabaseError) and not isinstance(error, DamagedError):
                if str(error) != self._said:
                    self._said = str(error)
                    logger.warning("Backfill postponed: %s", error)
                return
            logger.warning("Backfill stopped: %s", error if isinstance(error, VectorMemoryError) else where(error))
            self._first = None  # the next start tries again

    def _work(self) -> None:
        self._has_failed = False
        memory = self._next()
        if memory is None:
            return
        with self._kept_leases():
            while memory is not None:
                is_short = len(memory.content) <= SHORT
                self._complete(memory, self._go_on if is_short else self._let_short_ones_pass)
                self._erase_expired()
                memory = self._next()

    def _next(self) -> Memory | None:
        """Return the oldest memory that this process has leased; if there is none, take one over from another.

        Only one, so that other processes share the work, and no other text is blamed for one that kills its process;
        and none after a failure, so that it is not retried at once. Raises EmbeddingUnavailableError,
        having taken nothing over, without a model whose vectors can be used.
        """
        with self._storage.read() as reader:
            memory = reader.vectors.next_leased(self.owner)
            if memory is not None or self._has_failed or not reader.vectors.can_take_over(self.owner):
                return memory
        if not self._indexer.is_loadable:
            return None
        fingerprint = self._indexer.fingerprint
        with self._storage.read() as reader:
            reader.vectors.require_current(fingerprint)
        with self._storage.write() as writer:
            writer.take_over(self._lease())
            return writer.vectors.next_leased(self.owner)  # another process may have been faster

    def _complete(self, memory: Memory, on_progress: EmbeddingProgress) -> None:
        self._progress_at = time.monotonic()
        try:
            complete(self._storage, self._indexer, memory, on_progress)
        except ClosedMemoryError:
            raise
        except Exception as error:
            if not is_about_text(error):
                self._release()  # nobody should wait for them any more; each round retries
                raise
            logger.warning("Memory %d could not be indexed: %s", memory.id, where(error))
            self._has_failed = True
            with self._storage.write() as writer:
                writer.release_leases(self.owner, memory.id)

    def _go_on(self, _done: int, _total: int) -> None:
        """Raise ClosedMemoryError if the file is being closed."""
        self._progress_at = time.monotonic()
        if self._stopping.is_set():
            raise ClosedMemoryError

    def _let_short_ones_pass(self, done: int, total: int) -> None:
        """Between two batches of a long text, complete short ones that were promised in the meantime."""
        self._go_on(done, total)
        while (memory := self._next_short()) is not None:
            self._complete(memory, self._go_on)

    def _next_short(self) -> Memory | None:
        with self._storage.read() as reader:
            return reader.vectors.next_leased(self.owner, SHORT)

    @contextmanager
    def _kept_leases(self) -> Iterator[None]:
        """Renew the leases in a thread of its own: on a busy machine, a single batch can take longer than a lease."""
        self._works, done = True, threading.Event()
        keeper = threading.Thread(target=self._keep_leases, args=(done,), name="leases", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            self._works = False
            done.set()
            keeper.join()

    def _keep_leases(self, done: threading.Event) -> None:
        while not done.wait(LEASE_SECONDS / 2) and not self._stopping.is_set():
            if time.monotonic() - self._progress_at > HANGING_SECONDS:
                continue
            try:
                with self._storage.write() as writer:
                    if not done.is_set():
                        writer.renew_leases(self._lease())
            except VectorMemoryError as error:  # then another process may do the same work, and one of both stores it
                logger.info("Leases were not renewed: %s", error)

    def _release(self) -> None:
        with self._storage.write() as writer:
            writer.release_leases(self.owner)
