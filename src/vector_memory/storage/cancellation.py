"""The client's call that a thread works for: its arrival, its cancellation, and how it yields to others."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from vector_memory.errors import CancelledCallError


@dataclass(slots=True, eq=False)
class Call:
    """A client's request. `arrived_at`: in seconds of the monotonic clock.

    `has_written`: the call has started to change the file, and will be completed even if it is cancelled.
    """

    arrived_at: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    has_written: bool = False


current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""Set when the server receives a request; the tasks and threads that work for the request inherit it."""


give_way: ContextVar[Callable[[], object]] = ContextVar("give_way", default=lambda: None)
"""Called before a thread waits for long, so that others can work in the meantime."""


def require_wanted() -> None:
    """Raise CancelledCallError if this thread works for a call that was cancelled and has written nothing."""
    call = current_call.get()
    if call is not None and call.cancelled and not call.has_written:
        raise CancelledCallError
