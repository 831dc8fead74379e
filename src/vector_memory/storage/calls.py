"""The client's call that a thread works for: when it arrived, and whether the client still wants it."""

import time
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Call:
    """A request of a client. `arrived_at`: in seconds of the monotonic clock.

    `has_written`: it has begun to change the file, and is finished from then on, cancelled or not.
    """

    arrived_at: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    has_written: bool = False


current_call: ContextVar[Call | None] = ContextVar("current_call", default=None)
"""Set when a request is handed to the server; the tasks and threads that work for it inherit it."""
