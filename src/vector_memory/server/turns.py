"""Decides which calls of this process wait: those over standard input as they are read, those over HTTP as they run.

Calls of one kind and namespace form a queue, and queues take turns. One that is cancelled while it waits never begins.
"""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple, ParamSpec, TypeVar

from anyio import CapacityLimiter, sleep, sleep_forever, to_thread
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from vector_memory.answers.models import ChangesResult
from vector_memory.errors import CancelledCallError, VectorMemoryError
from vector_memory.server.current_store import SessionMemoryStore, current_caller
from vector_memory.storage.cancellation import give_way

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE = 2
"""One works in the interpreter while the other is in the model or the database. More would fight for the interpreter:
with 32 threads a search takes twice the processor time."""

SECONDS_IN_THE_WAY = 0.25
"""A call that takes longer may itself be waiting for a database or a model, and no longer blocks the others."""

LONG_TEXT = 50_000
"""Characters. Longer texts take seconds to embed, and short ones do not wait for them."""


class Kind(NamedTuple):
    """A kind of call.

    `works`: counts towards AT_ONCE for its first SECONDS_IN_THE_WAY. `most`: maximum number at once in a namespace.
    """

    name: str
    works: bool = True
    most: int = 64


SEARCH, LOOK_UP, PAGE = Kind("searches"), Kind("look-ups"), Kind("page")
STORE, LONG_STORE = Kind("stores", most=16), Kind("long stores", works=False, most=2)
FILE, HOOK, OTHER = Kind("files", most=1), Kind("hooks", works=False), Kind("others", works=False)
"""A hook waits for no other call: clients give up after seconds, and nobody repeats it."""


class Turn:
    """A call's turn, whose queue is that of its kind and namespace."""

    works = is_under_way = False

    def __init__(self, turns: "Turns", queue: tuple[str, Kind], begin: Callable[[], object]) -> None:
        self.queue, self.begin, self._turns, self._loop = queue, begin, turns, asyncio.get_running_loop()

    def give_way(self) -> None:
        """Let others work meanwhile. May be called from any thread, and more than once."""
        self._loop.call_soon_threadsafe(self._turns.pass_on, self)


class Turns:
    """The turns of the calls of one event loop."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._free = at_once
        self._queues: dict[tuple[str, Kind], deque[Turn]] = {}
        self._under_way: Counter[tuple[str, Kind]] = Counter()

    def wait(self, begin: Callable[[], object], kind: Kind, namespace: str = "") -> Turn:
        """Call `begin` when it is the call's turn, which lasts until it ends."""
        turn = Turn(self, (namespace, kind), begin)
        self._queues.setdefault(turn.queue, deque()).append(turn)
        self._admit()
        return turn

    def pass_on(self, turn: Turn) -> None:
        """Let others work although a call has not ended."""
        self._free += turn.works
        turn.works = False
        self._admit()

    def end(self, turn: Turn) -> None:
        """Let a call leave, whether it has begun or not."""
        if turn.is_under_way:
            self._under_way[turn.queue] -= 1
            self.pass_on(turn)
            return
        self._queues[turn.queue].remove(turn)
        if not self._queues[turn.queue]:
            del self._queues[turn.queue]

    def _admit(self) -> None:
        """Let calls begin, each from the queue whose last turn was longest ago."""
        while queue := next(filter(self._has_room, self._queues), None):
            waiting = self._queues.pop(queue)
            turn = waiting.popleft()
            if waiting:
                self._queues[queue] = waiting
            self._under_way[queue] += 1
            turn.is_under_way = True
            if queue[1].works:
                turn.works = True
                self._free -= 1
                asyncio.get_running_loop().call_later(SECONDS_IN_THE_WAY, self.pass_on, turn)
            turn.begin()

    def _has_room(self, queue: tuple[str, Kind]) -> bool:
        return self._under_way[queue] < queue[1].most and (self._free > 0 or not queue[1].works)


_turns: RunVar[Turns] = RunVar("turns")
_threads: RunVar[CapacityLimiter] = RunVar("threads")
any_number = partial(CapacityLimiter, math.inf)


def of_loop(variable: RunVar[T], make: Callable[[], T]) -> T:
    """Return the value of a variable in this event loop; `make` creates it at first use."""
    if (found := variable.get(None)) is None:
        found = make()
        variable.set(found)
    return found


def all_turns() -> Turns:
    """Return the turns of this event loop."""
    return of_loop(_turns, Turns)


@asynccontextmanager
async def taken(kind: Kind) -> AsyncIterator[None]:
    """Wait for the caller's turn, and have it during the block. A call that has a turn goes on."""
    if give_way.get(None):
        yield
        return
    begun = asyncio.Event()
    turns = all_turns()
    turn = turns.wait(begun.set, kind, current_caller().namespace)
    before = give_way.set(turn.give_way)
    try:
        await begun.wait()
        yield
    finally:
        give_way.reset(before)
        turns.end(turn)


async def in_worker(kind: Kind, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that writes in a thread that no reader waits for, and return its result."""
    async with taken(kind):
        try:
            return await run_sync(partial(function, *args, **kwargs), limiter=of_loop(_threads, any_number))
        except CancelledCallError:
            # The thread noticed first: the cancellation that ends this task without an answer is about to arrive.
            await sleep_forever()
            raise


async def in_writers_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that writes to the store, and return its result."""
    return await in_worker(kind_of_write(*args), function, *args, **kwargs)


def kind_of_write(*arguments: object) -> Kind:
    """Return the kind of a call that writes to the store."""
    is_long = any(isinstance(argument, str) and len(argument) > LONG_TEXT for argument in arguments)
    return LONG_STORE if is_long else STORE


def kind_of_read(names: Container[str]) -> Kind:
    """Return the kind of a call that reads, by the names of its arguments."""
    return SEARCH if "query" in names or "queries" in names else LOOK_UP


# Calls that wait for other processes, without holding a thread or a connection.

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
    answer = await to_thread.run_sync(ask, since)
    waiting = of_loop(waiting_calls, partial(CapacityLimiter, MAX_WAITING))
    if answer.total_new or not waiting.available_tokens:
        return answer
    give_way.get()()
    async with waiting:
        while not answer.total_new and time.monotonic() < give_up and not _ends.get():
            await sleep(POLL_SECONDS)
            if (latest := store.version()) != version:
                version = latest
                answer = await to_thread.run_sync(ask, answer.cursor)
    return answer


async def stored(store: SessionMemoryStore, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Store with `function` and return the receipt; delay it while too many vectors are outstanding.

    The text is safe before: a client that does not wait for the receipt loses nothing.
    """
    receipt = await in_writers_thread(function, *args, **kwargs)
    give_up, most = time.monotonic() + BACKLOG_SECONDS, store.settings.max_pending_vectors
    with suppress(VectorMemoryError):  # the text is stored in any case
        while most and not _ends.get() and await to_thread.run_sync(store.count_pending) > most:
            if time.monotonic() >= give_up:
                break
            await sleep(BACKLOG_POLL_SECONDS)
    return receipt


def stop_waiting() -> None:
    """Answer all waiting calls of this event loop now, and later ones at once: the process is ending."""
    _ends.set(True)
