"""Counts reads in the background, so that a read neither waits for the count nor fails with it."""

import contextlib
import logging
import queue
import threading
from collections.abc import Sequence
from copy import copy
from typing import Self

from vector_memory.domain import utc_now
from vector_memory.domain.text import counted
from vector_memory.errors import VectorMemoryError, where
from vector_memory.storage.base import Storage

logger = logging.getLogger(__name__)

SECONDS_TO_FLUSH = 3.0


class AccessRecorder:
    """Writes access counts in its own thread, many reads in one transaction."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._counts = True
        self._pending: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="access-recorder", daemon=True)
        self._thread.start()

    def record(self, memory_ids: Sequence[int]) -> None:
        """Note that these memories were returned whole; do nothing if storage is read-only. Returns at once."""
        if memory_ids and self._counts and not self._storage.read_only:
            self._pending.put(list(memory_ids))

    def silent(self) -> Self:
        """Return a recorder that counts nothing. It is not closed."""
        other = copy(self)
        other._counts = False  # noqa: SLF001 - our own copy
        return other

    def close(self) -> None:
        """Write the pending counts and stop. Waits at most 3 s if another process keeps the file locked."""
        self._pending.put(None)
        self._thread.join(SECONDS_TO_FLUSH)

    def _run(self) -> None:
        while (first := self._pending.get()) is not None:
            batch, more = self._rest(first)
            try:
                with self._storage.write() as writer:
                    writer.record_access(batch, utc_now())
            except Exception as error:  # later counts are still written
                reason = error if isinstance(error, VectorMemoryError) else where(error)
                logger.warning("Access counts were not written (%s): %s", counted(len(batch), "read"), reason)
            if not more:
                return

    def _rest(self, batch: list[int]) -> tuple[list[int], bool]:
        """Add everything that is pending to the batch; False if the request to stop was among it."""
        with contextlib.suppress(queue.Empty):
            while (following := self._pending.get_nowait()) is not None:
                batch.extend(following)
            return batch, False
        return batch, True
