"""What the doctor finds, for Home.

The doctor works in a process of its own: closing a file that it opens again would release this process's locks on it,
and its checks of a large memory would make the page wait.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from multiprocessing import get_context
from typing import Any

from anyio.lowlevel import RunVar
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from vector_memory.domain import utc_now
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import DatabaseError
from vector_memory.maintenance.doctor import Doctor
from vector_memory.maintenance.doctor.report import Level, Report
from vector_memory.server.turns import of_loop
from vector_memory.settings import MemoryAddress, Settings

POLITE = 10
"""How much lower its priority is than that of servers. With the lowest of all, it hardly gets a turn on a busy machine:
in a test, it had not ended after a minute."""


_turn: RunVar[asyncio.Lock] = RunVar("checkup")
"""Held while one memory of the server is examined: each needs a process, and those who wait need no thread."""


class Checkup:
    """The last report of the doctor. The first request asks for one, and so does each with `again`."""

    def __init__(self, examine: Callable[[], Report]) -> None:
        self._examine = examine
        self._last: dict[str, Any] = {}

    async def report(self, request: Request) -> Response:
        """Return what needs attention, the number of checks, and when they were made. Raises what the doctor raises.

        All who ask while others wait get the same report.
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
