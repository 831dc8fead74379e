"""Stores waiting texts in order, one process at a time, retrying each until it is confirmed or refused for good."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

from vector_memory.errors import (
    AccessDeniedError,
    ChunkingError,
    DatabaseError,
    DatabaseLockError,
    QuotaExceededError,
    ValidationError,
    where,
)
from vector_memory.writing.outbox import Body, Outbox, Waiting

logger = logging.getLogger(__name__)

T = TypeVar("T")

SECONDS_BETWEEN_LOOKS = 5.0
"""Other processes leave texts behind when they are killed."""

SECONDS_BETWEEN_ATTEMPTS = 2.0
SECONDS_UNTIL_ROOM = 30.0
"""So long a full or hurried namespace is left alone."""

SECONDS_UNTIL_FREE = 0.02
"""After this time a process whose text another one may be delivering looks again."""

SLOW = 1.0
"""After a text has waited this long, callers no longer wait for those behind it."""

ATTEMPTS = 5
"""Number of attempts for which a text that fails for its own reason delays the others."""

ELSEWHERE = "Another process is storing them."

FINAL = frozenset({ValidationError.code, AccessDeniedError.code, ChunkingError.code})
"""Codes of the errors that a text meets each time."""

FOR_ALL = frozenset({QuotaExceededError.code, DatabaseLockError.code})
"""Codes of the errors that each text would meet now."""


class Verdict(Enum):
    """Outcome of an attempt: stored, refused for good, failed for a reason of its own, or not possible now."""

    STORED = "stored"
    REFUSED = "refused"
    FAILED = "failed"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class DeliveryOutcome(Generic[T]):
    """The outcome of an attempt to store a text, and the reason. `code`: of the error. `answer`: to the store."""

    verdict: Verdict
    reason: str = ""
    code: str = ""
    answer: T | None = None


def failure(code: str, reason: str) -> DeliveryOutcome[Any]:
    """Return the outcome of an attempt that failed with an error."""
    verdict = Verdict.REFUSED if code in FINAL else Verdict.LATER if code in FOR_ALL else Verdict.FAILED
    return DeliveryOutcome(verdict, reason, code)


class Delivery(Generic[T]):
    """Stores the texts of an outbox with `deliver`, in its own thread. Without an outbox, it takes no texts."""

    def __init__(self, outbox: Outbox | None, deliver: Callable[[Body], DeliveryOutcome[T]]) -> None:
        self._outbox = outbox
        self._deliver = deliver
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted, self._stopping = threading.Event(), threading.Event()
        self._awaited: dict[Path, Future[DeliveryOutcome[T]]] = {}
        self._failures: Counter[Path] = Counter()
        self._working_since: float | None = None
        self.problem: DeliveryOutcome[T] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether something of this process is to be stored."""
        return bool(self._awaited)

    @property
    def is_held_up(self) -> bool:
        """Whether a text would have to wait for long."""
        since = self._working_since
        return self.problem is not None or (since is not None and time.monotonic() - since > SLOW)

    @property
    def is_clear(self) -> bool:
        """Whether no text waits, apart from those that no longer delay others."""
        return self._outbox is None or all(map(self._is_passed, self._outbox.paths()))

    def start(self) -> None:
        """Start to store waiting texts, including those that other processes left behind."""
        with self._lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
                self._thread.start()
        self._wanted.set()

    def stop(self) -> None:
        """Stop, and leave waiting texts to other processes. Does not wait for the thread."""
        self._stopping.set()
        self._wanted.set()

    def take(self, body: Body) -> Future[DeliveryOutcome[T]]:
        """Write a text to the disk, and have it stored; return the outcome of the first attempt.

        Raises DatabaseError if the disk does not take it: the text is lost unless the caller sends it again.
        """
        if self._outbox is None:
            raise DatabaseError("This machine has no folder to keep the text in: set XDG_STATE_HOME.")
        outcome: Future[DeliveryOutcome[T]] = Future()
        with self._lock:  # the thread must not be done with it before it is known that somebody waits for it
            self._awaited[self._outbox.add(body)] = outcome
        self.start()
        return outcome

    def deliver_waiting(self) -> float:
        """Try to store all that waits; return after how many seconds to try again."""
        self._working_since = self._working_since or time.monotonic()
        self.problem = self._empty(self._outbox) if self._outbox is not None else None
        self._release_gone()
        if self.problem is not None:
            return SECONDS_UNTIL_ROOM if self.problem.code == QuotaExceededError.code else SECONDS_BETWEEN_ATTEMPTS
        if self.is_busy:  # another process delivers
            return SECONDS_UNTIL_FREE
        self._working_since = None
        return SECONDS_BETWEEN_LOOKS

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            self._wanted.wait(pause)
            self._wanted.clear()
            try:
                pause = self.deliver_waiting()
            except Exception as error:  # whatever it was, the next attempt may succeed
                logger.warning("What waits on this machine could not be stored: %s", where(error))
                pause = SECONDS_BETWEEN_ATTEMPTS

    def _empty(self, outbox: Outbox) -> DeliveryOutcome[T] | None:
        """Store the texts of an outbox; return why some have to wait longer."""
        if not outbox.paths():
            return None
        passed = ""
        try:
            with outbox.claimed() as is_ours:
                if not is_ours:
                    return self._released(DeliveryOutcome(Verdict.LATER, ELSEWHERE)) if self.is_held_up else None
                for waiting in outbox.waiting():
                    outcome = self._stored(outbox, waiting)
                    if self._stopping.is_set():
                        return None
                    if self._holds_others_up(waiting.path, outcome):
                        outbox.note_problem(outcome.reason)
                        return self._put_off(outcome)
                    if outcome.verdict is Verdict.FAILED:
                        passed = outcome.reason
                outbox.note_problem(passed)
        except OSError as error:
            return self._put_off(DeliveryOutcome(Verdict.LATER, f"Their folder cannot be used ({error.strerror})."))
        return None

    def _stored(self, outbox: Outbox, waiting: Waiting) -> DeliveryOutcome[T]:
        outcome = self._attempt(waiting.body)
        if outcome.verdict is Verdict.STORED:
            outbox.forget(waiting.path)
        elif outcome.verdict is Verdict.REFUSED:
            outbox.set_aside(waiting.path, outcome.reason)
        self._release(waiting.path, outcome)
        return outcome

    def _holds_others_up(self, path: Path, outcome: DeliveryOutcome[T]) -> bool:
        """Return whether a text delays the others; after some attempts, one that fails for its own reason does not."""
        if outcome.verdict is Verdict.LATER:
            self._failures.clear()
            return True
        if outcome.verdict is Verdict.FAILED:
            self._failures[path] += 1
            return not self._is_passed(path)
        del self._failures[path]
        return False

    def _is_passed(self, path: Path) -> bool:
        return self._failures[path] >= ATTEMPTS

    def _attempt(self, body: Body) -> DeliveryOutcome[T]:
        try:
            return self._deliver(body)
        except Exception as error:
            return DeliveryOutcome(Verdict.FAILED, where(error))

    def _put_off(self, outcome: DeliveryOutcome[T]) -> DeliveryOutcome[T]:
        """Record why texts wait, and release the callers that wait for them."""
        if self.problem is None or self.problem.reason != outcome.reason:
            logger.warning("Texts wait on this machine until they can be stored: %s", outcome.reason)
        self.problem = outcome
        return self._released(outcome)

    def _released(self, outcome: DeliveryOutcome[T]) -> DeliveryOutcome[T]:
        """Release the callers that wait for a text."""
        for path in list(self._awaited):
            self._release(path, outcome)
        return outcome

    def _release_gone(self) -> None:
        """Release the callers that wait for texts that another process has stored."""
        for path in list(self._awaited):
            if not path.exists():
                self._release(path, DeliveryOutcome(Verdict.STORED))

    def _release(self, path: Path, outcome: DeliveryOutcome[T]) -> None:
        with self._lock:
            future = self._awaited.pop(path, None)
        if future is not None and not future.done():
            future.set_result(outcome)
