"""Limits the number of concurrent searches; namespaces with waiting calls take turns."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial

from anyio.lowlevel import RunVar

from vector_memory.server.current_store import current_caller
from vector_memory.storage.cancellation import give_way

AT_ONCE = 2
"""One works in the interpreter while the other is in the model or the database. More would fight for the interpreter:
with 32 threads a search takes twice the processor time."""

SECONDS_IN_THE_WAY = 0.25
"""A call that takes longer may itself be waiting for a database or a model, and no longer blocks the others."""


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


_turns: RunVar[Turns] = RunVar("turns")


@asynccontextmanager
async def turn_of_caller(*, stores: bool = False) -> AsyncIterator[None]:
    """Wait for a turn of the caller's namespace, and have it during the block. Its stores take turns with searches."""
    try:
        turns = _turns.get()
    except LookupError:
        turns = Turns()
        _turns.set(turns)
    async with turns.taken(f"{current_caller().namespace}{' stores' * stores}"):
        yield
