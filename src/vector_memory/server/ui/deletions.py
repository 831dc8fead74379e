"""Deletes memories a while after somebody asked for it, unless they change their mind."""

import asyncio
import logging
from asyncio import sleep
from collections.abc import Callable, Sequence

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
        self._due: dict[int, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self.failures: dict[int, str] = {}

    def schedule(self, *memory_ids: int) -> None:
        """Delete memories in a while."""
        loop = asyncio.get_running_loop()
        due, new = loop.time() + self._seconds, [number for number in memory_ids if number not in self._due]
        self._due |= dict.fromkeys(new, due)
        for number in new:
            self.failures.pop(number, None)
        task = loop.create_task(self._delete_later(new, due))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def undo(self, memory_id: int) -> bool:
        """Do not delete a memory; False: it is too late."""
        return self._due.pop(memory_id, None) is not None

    def undo_all(self) -> None:
        """Delete nothing of what waits."""
        self._due.clear()

    def waiting(self) -> dict[int, float]:
        """Return in how many seconds memories will be deleted, by id."""
        now = asyncio.get_running_loop().time()
        return {memory_id: round(max(0.0, due - now), 1) for memory_id, due in self._due.items()}

    async def finish(self) -> None:
        """Delete now what waits, and return when nothing is being deleted."""
        while self._due:
            memory_id, _ = self._due.popitem()
            await self._delete_now(memory_id)
        async with self._turn:
            return

    async def _delete_later(self, memory_ids: Sequence[int], due: float) -> None:
        await sleep(self._seconds)
        for memory_id in memory_ids:
            if self._due.get(memory_id) == due:  # otherwise it was kept, and perhaps deleted again
                del self._due[memory_id]
                await self._delete_now(memory_id)

    async def _delete_now(self, memory_id: int) -> None:
        try:
            async with self._turn:
                await asyncio.to_thread(self._delete, memory_id)
        except NotFoundError:
            return  # somebody else was faster
        except VectorMemoryError as error:
            logger.warning("Memory %d was not deleted: %s", memory_id, error)
            self.failures[memory_id] = str(error)
