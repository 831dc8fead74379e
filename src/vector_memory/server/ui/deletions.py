"""Deletes memories a while after somebody asked for it, unless they change their mind."""

import asyncio
import logging
from collections.abc import Callable

from vector_memory.errors import NotFoundError, VectorMemoryError

logger = logging.getLogger(__name__)

SECONDS = 10.0
"""How long a deletion can be taken back."""


class Deletions:
    """Deletions that wait. They are done on time whether or not a page is open, and at once when the server ends.

    `failures`: why memories could not be deleted, by id. Methods are called in the event loop.
    """

    def __init__(self, delete: Callable[[int], object], seconds: float = SECONDS) -> None:
        self._delete = delete
        self._seconds = seconds
        self._waiting: dict[int, tuple[float, asyncio.Task[None]]] = {}
        self.failures: dict[int, str] = {}

    def schedule(self, memory_id: int) -> None:
        """Delete a memory in a while."""
        if memory_id not in self._waiting:
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._delete_later(memory_id))
            self._waiting[memory_id] = loop.time() + self._seconds, task
            self.failures.pop(memory_id, None)

    def undo(self, memory_id: int) -> bool:
        """Do not delete a memory; False: it is too late."""
        _, task = self._waiting.pop(memory_id, (0.0, None))
        return task is not None and task.cancel()

    def waiting(self) -> dict[int, float]:
        """Return in how many seconds memories will be deleted, by id."""
        now = asyncio.get_running_loop().time()
        return {memory_id: round(max(0.0, due - now), 1) for memory_id, (due, _) in self._waiting.items()}

    async def finish(self) -> None:
        """Delete now what waits."""
        for memory_id in list(self._waiting):
            self.undo(memory_id)
            await self._delete_now(memory_id)

    async def _delete_later(self, memory_id: int) -> None:
        await asyncio.sleep(self._seconds)
        del self._waiting[memory_id]
        await self._delete_now(memory_id)

    async def _delete_now(self, memory_id: int) -> None:
        try:
            await asyncio.to_thread(self._delete, memory_id)
        except NotFoundError:
            return  # somebody else was faster
        except VectorMemoryError as error:
            logger.warning("Memory %d was not deleted: %s", memory_id, error)
            self.failures[memory_id] = str(error)
