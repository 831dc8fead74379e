"""A small separate pool of threads for calls that write, so that waiting writers never delay readers."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, sleep_forever
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from vector_memory.errors import CancelledCallError
from vector_memory.server.turns import turn_of_caller

P = ParamSpec("P")
T = TypeVar("T")

WRITERS = 8
"""One writes while the others embed. More would only take processor time from searches."""

LONG = 50_000
LONG_WRITERS = 2
"""Longer texts (in characters) take seconds to embed: LONG_WRITERS at a time, and short texts do not wait for them."""

INTAKE = 4

Limiter = RunVar[CapacityLimiter]

_writers: Limiter = RunVar("writers")
_long_writers: Limiter = RunVar("long_writers")
_file_writers: Limiter = RunVar("file_writers")
_intake: Limiter = RunVar("intake")


async def in_writers_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that writes to the store, and return its result.

    While all of these threads are busy, the call waits without one, and ends at once if the client cancels it.
    """
    work = partial(function, *args, **kwargs)
    if any(isinstance(argument, str) and len(argument) > LONG for argument in args):
        return await _limited(_long_writers, LONG_WRITERS, work)
    async with turn_of_caller(stores=True):
        return await _limited(_writers, WRITERS, work)


async def in_file_writers_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that writes a Markdown file, one call at a time, and return its result."""
    return await _limited(_file_writers, 1, partial(function, *args, **kwargs))


async def in_intake_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that writes a text to the disk, and return its result, without waiting for slow calls."""
    return await _limited(_intake, INTAKE, partial(function, *args, **kwargs))


async def _limited(limiter: Limiter, most: int, work: Callable[[], T]) -> T:
    try:
        found = limiter.get()
    except LookupError:
        found = CapacityLimiter(most)
        limiter.set(found)
    try:
        return await run_sync(work, limiter=found)
    except CancelledCallError:
        # The thread noticed first: the cancellation that ends this task without an answer is about to arrive.
        await sleep_forever()
        raise
