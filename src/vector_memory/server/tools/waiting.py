"""Calls that wait for other processes, without holding a thread or a connection."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, sleep
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from vector_memory.answers.models import ChangesResult
from vector_memory.errors import VectorMemoryError
from vector_memory.server.current_store import SessionMemoryStore
from vector_memory.server.turns import in_writers_thread, of_loop
from vector_memory.storage.cancellation import give_way

P = ParamSpec("P")
T = TypeVar("T")

MAX_WAITING = 32
"""Maximum number of calls that wait. Further ones answer at once, to leave room for other requests."""

POLL_SECONDS = 0.15
"""Twenty waiting calls take under 1 % of a core, and notice a commit within 0.2 s."""

BACKLOG_SECONDS = 40.0
"""How long a receipt waits while too many vectors are outstanding. Clients give up after a minute."""

BACKLOG_POLL_SECONDS = 0.5

waiting_calls: RunVar[CapacityLimiter] = RunVar("waiting")
_ends: RunVar[bool] = RunVar("ends", default=False)


async def until_new(
    store: SessionMemoryStore, ask: Callable[[str | int | None], ChangesResult], since: str | int | None, seconds: float
) -> ChangesResult:
    """Return the first answer of `ask(since)` that has something new, or the last one after `seconds`.

    Asks again only after a commit, and then with the cursor of the previous answer. Stops when the client has closed
    the server's input, or the server ends.
    """
    give_up = time.monotonic() + seconds
    version = store.version()
    answer = await run_sync(ask, since)
    waiting = of_loop(waiting_calls, partial(CapacityLimiter, MAX_WAITING))
    if answer.total_new or not waiting.available_tokens:
        return answer
    give_way.get()()
    async with waiting:
        while not answer.total_new and time.monotonic() < give_up and not _ends.get():
            await sleep(POLL_SECONDS)
            if (latest := store.version()) != version:
                version = latest
                answer = await run_sync(ask, answer.cursor)
    return answer


async def stored(store: SessionMemoryStore, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Store with `function` and return the receipt; delay it while too many vectors are outstanding.

    The text is safe before: a client that does not wait for the receipt loses nothing.
    """
    receipt = await in_writers_thread(function, *args, **kwargs)
    give_up, most = time.monotonic() + BACKLOG_SECONDS, store.settings.max_pending_vectors
    with suppress(VectorMemoryError):  # the text is stored in any case
        while most and not _ends.get() and await run_sync(store.count_pending) > most:
            if time.monotonic() >= give_up:
                break
            await sleep(BACKLOG_POLL_SECONDS)
    return receipt


def stop_waiting() -> None:
    """Answer all waiting calls of this event loop now, and later ones at once: the process is ending."""
    _ends.set(True)
