"""The write lock: waits first for other threads of this process, then for other processes, within one time limit."""

import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vector_memory.errors import ClosedMemoryError, DatabaseLockError
from vector_memory.storage.cancellation import current_call, give_way, require_wanted

LOCK_ADVICE = "Another process kept the database locked for too long. Nothing was changed; repeating the call is safe."

LOCK_TIMEOUT_SECONDS = 30.0
"""Counted from the arrival of the client's call; for other writers, from the start of the wait."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.1
"""Seconds between two attempts. A waiting thread notices a cancellation within the longest pause."""

STALLED_SECONDS = 2.0
"""If no writer gets the lock for this long, it counts as stuck. Until then, even a call whose time is over keeps
waiting: it may have spent its time embedding, and other writers are merely ahead of it."""


class WriteLock:
    """Lets one thread of the process write at a time. Every wait ends.

    `busy`: the errors by which the engine says that another process is writing. `advice`: what to say of a wait that
    takes too long, and why it does.
    """

    def __init__(self, busy: tuple[type[Exception], ...], advice: Callable[[], str] = lambda: LOCK_ADVICE) -> None:
        self.busy, self.advice = busy, advice
        self.is_closed = False
        self.stalled_since = self.waited_at = -math.inf
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, seconds: float) -> Iterator["Reservation"]:
        """Wait until no other thread writes. `seconds`: the limit of this wait and that of `Reservation.take` together.

        The time counts from the arrival of the call that the thread works for, or from now. Raises DatabaseLockError,
        or ClosedMemoryError if the store is closed in the meantime.
        """
        turn = Reservation(self, seconds)
        turn.require_reason_to_wait()
        while not self._lock.acquire(timeout=LONGEST_PAUSE):
            turn.wait()
        try:
            turn.require_wanted()  # the thread that was ahead may have closed the file
            yield turn
        finally:
            self._lock.release()

    @contextmanager
    def last_turn(self) -> Iterator[None]:
        """Make all waiting writers fail, and wait only for the running transaction."""
        self.is_closed = True
        with self._lock:
            yield

    def require_time(self, seconds: float) -> None:
        """Raise what `turn` would raise at once, so that nothing is prepared in vain."""
        Reservation(self, seconds).require_reason_to_wait()

    def patience(self, seconds: float) -> Callable[[], float]:
        """Return what says how long a commit may take that needs no turn, counted as `turn` does."""
        return Reservation(self, seconds).seconds_left


class Reservation:
    """The wait of one writer."""

    def __init__(self, lock: WriteLock, seconds: float) -> None:
        self._lock = lock
        self._call = current_call.get()
        now = time.monotonic()
        self._until = (self._call.arrived_at if self._call else now) + seconds
        self._enough = min(seconds, STALLED_SECONDS)
        if now - lock.waited_at > STALLED_SECONDS:  # nobody is waiting
            lock.stalled_since = now

    def take(self, begin: Callable[[], object]) -> None:
        """Call `begin` until it does not fail because another process is writing."""
        pause = SHORTEST_PAUSE
        while True:
            self.require_wanted()
            try:
                begin()
                break
            except self._lock.busy:
                self.wait()
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads processes out, protects nothing
            pause = min(pause * 2, LONGEST_PAUSE)
        self._lock.stalled_since, self._lock.waited_at = time.monotonic(), -math.inf
        if self._call is not None:
            self._call.has_written = True

    def seconds_left(self) -> float:
        """Return how long the commit may take, so that the call is answered in time."""
        return max(self._until - time.monotonic(), self._enough)

    def wait(self) -> None:
        """Let other calls work meanwhile. Raises what `require_reason_to_wait` raises."""
        give_way.get()()
        self._lock.waited_at = time.monotonic()
        self.require_reason_to_wait()

    def require_reason_to_wait(self) -> None:
        """Raise what `require_wanted` raises, or DatabaseLockError if the time is over and the lock is stuck."""
        self.require_wanted()
        now = time.monotonic()
        if now >= self._until and now - self._lock.stalled_since >= self._enough:
            raise DatabaseLockError(self._lock.advice())

    def require_wanted(self) -> None:
        """Raise an error if the result is no longer wanted."""
        if self._lock.is_closed:
            raise ClosedMemoryError
        require_wanted()
