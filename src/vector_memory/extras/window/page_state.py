"""What the page keeps between requests: deletions that can be undone, the last examination, the files it shows."""

import asyncio
import logging
import os
from asyncio import sleep
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing import get_context
from typing import Any

from anyio.lowlevel import RunVar
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from vector_memory.domain import Scope, utc_now
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import DatabaseError, NotFoundError, VectorMemoryError
from vector_memory.extras.window.page import render
from vector_memory.files import FileMemory
from vector_memory.files.memory import ListedFile
from vector_memory.server.turns import of_loop
from vector_memory.settings import MemoryAddress, Settings
from vector_memory.upkeep.doctor import Doctor
from vector_memory.upkeep.doctor.report import Level, Report

logger = logging.getLogger(__name__)

SECONDS = 10.0
"""How long a deletion can be taken back."""


class Deletions:
    """Delayed deletions. They run on time whether or not a page is open, and at once when the server ends.

    `failures`: why memories could not be deleted, by id. Methods are called in the event loop.
    """

    def __init__(self, delete: Callable[[int], object], seconds: float = SECONDS) -> None:
        self._delete = delete
        self._seconds = seconds
        self._due: dict[int, float] = {}
        self.undo_all = self._due.clear
        """Cancels all deletions."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self.failures: dict[int, str] = {}

    def schedule(self, *memory_ids: int) -> None:
        """Schedule the deletion of memories."""
        loop = asyncio.get_running_loop()
        due, new = loop.time() + self._seconds, [number for number in memory_ids if number not in self._due]
        self._due |= dict.fromkeys(new, due)
        for number in new:
            self.failures.pop(number, None)
        task = loop.create_task(self._delete_later(new, due))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def undo(self, memory_id: int) -> bool:
        """Cancel a deletion; return False if it is too late."""
        return self._due.pop(memory_id, None) is not None

    def waiting(self) -> dict[int, float]:
        """Return in how many seconds memories will be deleted, by id."""
        now = asyncio.get_running_loop().time()
        return {memory_id: round(max(0.0, due - now), 1) for memory_id, due in self._due.items()}

    async def finish(self) -> None:
        """Run all deletions now; return when they are done."""
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


# What the doctor finds, for Home.


POLITE = 10
"""How much lower its priority is than that of servers. With the lowest of all, it hardly gets a turn on a busy machine:
in a test, it had not ended after a minute."""


_turn: RunVar[asyncio.Lock] = RunVar("checkup")
"""Held while one memory of the server is examined: each needs a process, and those who wait need no thread."""


class Checkup:
    """The doctor's last report. The first request runs the doctor, and so does each with `again`."""

    def __init__(self, examine: Callable[[], Report]) -> None:
        self._examine = examine
        self._last: dict[str, Any] = {}

    async def report(self, request: Request) -> Response:
        """Return what needs attention, the number of checks, and when they were made. Raises what the doctor raises.

        Requests that arrive in the meantime share the report.
        """
        known = self._last
        async with of_loop(_turn, asyncio.Lock):
            if self._last is known and (not known or "again" in request.query_params):
                found = (await run_in_threadpool(self._examine)).findings
                wrong = [asdict(finding) for finding in found if finding.state != Level.OK]
                self._last = {"findings": wrong, "checks": len(found), "examined_at": utc_now()}
        return JSONResponse(self._last)


def examine(address: MemoryAddress, settings: Settings) -> Report:
    """Examine a memory in a new process. Raises DatabaseError if that ends early."""
    try:
        with ProcessPoolExecutor(1, get_context("spawn"), os.nice, (POLITE,)) as pool:
            return pool.submit(_examine, address, settings).result()
    except BrokenProcessPool as error:
        raise DatabaseError("The examination was interrupted: run `vector-memory doctor`.") from error


def _examine(address: MemoryAddress, settings: Settings) -> Report:
    return Doctor(address, settings, EmbeddingModel(lambda: load_embedder(settings))).examine()


# Memory files on the page: in lists, passages of them among the results of a search, and the text of a file.


FILE = "memory_file"
"""Their kind on the page, beside the kinds of memory."""

LINES, BEGINNING = 20, 200
"""Lines of a file that are read for a list, and characters that are shown."""

END = "9999"
"""After every time."""


class ShownFiles:
    """The files of a memory folder; None: there is none."""

    def __init__(self, memory: FileMemory | None) -> None:
        self._memory = memory

    def __bool__(self) -> bool:
        return self._memory is not None

    def version(self) -> int:
        """Return a number that changes with the files, a moment later."""
        if self._memory is not None:
            with suppress(VectorMemoryError):  # memories are shown without an index, too
                return self._memory.version()
        return 0

    def listed(self, scope: Scope) -> list[ListedFile]:
        """Return the files in a scope, the last changed first. `containing` is compared with their paths.

        Files have no agent, session or tags: a scope that names one has no files.
        """
        others = replace(scope, created_after=None, created_before=None, containing=None, as_of=None)
        if self._memory is None or others != Scope():
            return []
        first, last, part = scope.created_after or "", scope.created_before or END, (scope.containing or "").casefold()
        files = self._memory.listed()
        return [file for file in files if first <= file.changed_at <= last and part in file.path.casefold()]

    def entry(self, file: ListedFile) -> dict[str, Any]:
        """Return a file as an entry of a list of memories."""
        beginning = ""
        if self._memory is not None:
            with suppress(VectorMemoryError):  # it may be gone by now
                beginning = self._memory.get(file.path, 1, LINES).content[:BEGINNING]
        shown = {"title": file.path, "created_at": file.changed_at, "content_length": file.size}
        return {"memory_type": FILE, "path": file.path, "beginning": beginning, **shown}

    def found(self, query: str, limit: int) -> list[dict[str, Any]]:
        """Return the passages that match a query best, with the names of other results."""
        if self._memory is None:
            return []
        return [
            {
                **one.model_dump(mode="json", by_alias=False),
                "memory_type": FILE,
                "unit": f"{one.path}:{one.start_line}",
                "title": one.path,
            }
            for one in self._memory.search(query, limit).results
        ]

    def file(self, request: Request) -> Response:
        """Return the text of a file, as far as it fits, also as HTML. Raises NotFoundError, ValidationError."""
        path = request.query_params.get("path", "")
        if self._memory is None:
            return JSONResponse({"error": "NotFound", "message": "There is no folder of memory files."}, 404)
        found = self._memory.get(path)
        return JSONResponse({**found.model_dump(mode="json", by_alias=False), "html": render(found.content)})
