"""Counts who was read, beside the reading: a read neither waits nor fails for it."""

import contextlib
import logging
import queue
import threading
from collections.abc import Sequence

from vector_memory.domain import utc_now
from vector_memory.errors import VectorMemoryError, where
from vector_memory.storage.base import Storage

logger = logging.getLogger(__name__)

SECONDS_TO_CLOSE = 3.0


class AccessRecorder:
    """Writes access counts from a thread of its own, many readings in one transaction."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._pending: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="access-recorder", daemon=True)
        self._thread.start()

    def record(self, memory_ids: Sequence[int]) -> None:
        """Note that these memories were handed out whole, unless nothing may be written. Returns at once."""
        if memory_ids and not self._storage.read_only:
            self._pending.put(list(memory_ids))

    def close(self) -> None:
        """Write what is noted and stop. Nobody waits long for that while another process keeps the file locked."""
        self._pending.put(None)
        self._thread.join(SECONDS_TO_CLOSE)

    def _run(self) -> None:
        while (first := self._pending.get()) is not None:
            batch, more = self._rest(first)
            try:
                with self._storage.write() as writer:
                    writer.record_access(batch, utc_now())
            except Exception as error:  # whatever it is, the counts that follow are written
                reason = error if isinstance(error, VectorMemoryError) else where(error)
                logger.warning("Access counts of %d memories were not written: %s", len(batch), reason)
            if not more:
                return

    def _rest(self, batch: list[int]) -> tuple[list[int], bool]:
        """Take everything that waits; False when the last of it is the order to stop."""
        with contextlib.suppress(queue.Empty):
            while (following := self._pending.get_nowait()) is not None:
                batch.extend(following)
            return batch, False
        return batch, True
