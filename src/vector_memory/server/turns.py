"""Limits the number of concurrent searches and stores, so that waiting writers never delay readers.

Namespaces with waiting calls take turns.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, sleep_forever
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from vector_memory.errors import CancelledCallError
from vector_memory.server.current_store import current_caller
from vector_memory.storage.cancellation import give_way

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE = 2
"""One works in the interpreter while the other is in the model or the database. More would fight for the interpreter:
with 32 threads a search takes twice the processor time."""

SECONDS_IN_THE_WAY = 0.25
"""A call that takes longer may itself be waiting for a database or a model, and no longer blocks the others."""

WRITERS = 8
"""One writes while the others embed. More would only take processor time from searches."""

LONG = 50_000
LONG_WRITERS = 2
"""Longer texts (in characters) take seconds to embed: LONG_WRITERS at a time, and short texts do not wait for them."""

INTAKE = 4


class Turns:
    """Turns for the calls of one event loop. A call that is cancelled while it waits has never begun."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def taken(self, namespace: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it during the block or until the call yields it."""
        await self._wait(namespace)
        loop, turn = asyncio.get_running_loop(), ExitStack()
        turn.callback(self._pass_on)
        give_way.set(partial(loop.call_soon_threadsafe, turn.close))
        timer = loop.call_later(SECONDS_IN_THE_WAY, turn.close)
        try:
            yield
        finally:
            timer.cancel()
            turn.close()  # once more does nothing

    async def _wait(self, namespace: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came at the same moment
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give the turn to the namespace that has waited the longest since its last one."""
        while self._waiting:
            namespace, turns = next(iter(self._waiting.items()))
            del self._waiting[namespace]
            turn = turns.popleft()
            if turns:
                self._waiting[namespace] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


Limiter = RunVar[CapacityLimiter]

_turns: RunVar[Turns] = RunVar("turns")
_writers: Limiter = RunVar("writers")
_long_writers: Limiter = RunVar("long_writers")
_file_writers: Limiter = RunVar("file_writers")
_intake: Limiter = RunVar("intake")


def of_loop(variable: RunVar[T], make: Callable[[], T]) -> T:
    """Return the value that a variable has in this event loop; `make` makes it at the first time."""
    if (found := variable.get(None)) is None:
        found = make()
        variable.set(found)
    return found


@asynccontextmanager
async def turn_of_caller(work: str = "searches") -> AsyncIterator[None]:
    """Wait for a turn of the caller's namespace, and have it during the block. Its kinds of `work` also take turns."""
    async with of_loop(_turns, Turns).taken(f"{current_caller().namespace} {work}"):
        yield


async def in_writers_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that writes to the store, and return its result.

    While all of these threads are busy, the call waits without one, and ends at once if the client cancels it.
    """
    work = partial(function, *args, **kwargs)
    if any(isinstance(argument, str) and len(argument) > LONG for argument in args):
        return await _limited(_long_writers, LONG_WRITERS, work)
    async with turn_of_caller("stores"):
        return await _limited(_writers, WRITERS, work)


async def in_file_writers_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that writes a Markdown file, one call at a time, and return its result."""
    return await _limited(_file_writers, 1, partial(function, *args, **kwargs))


async def in_intake_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that writes a text to the disk, and return its result, without waiting for slow calls."""
    return await _limited(_intake, INTAKE, partial(function, *args, **kwargs))


async def _limited(limiter: Limiter, most: int, work: Callable[[], T]) -> T:
    try:
        return await run_sync(work, limiter=of_loop(limiter, partial(CapacityLimiter, most)))
    except CancelledCallError:
        # The thread noticed first: the cancellation that ends this task without an answer is about to arrive.
        await sleep_forever()
        raise
