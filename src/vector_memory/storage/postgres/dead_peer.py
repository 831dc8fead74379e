"""Notices a server that is not heard any more: its machine has stopped, or the network swallows what is sent.

Such a connection is not closed, and an answer may take long for other reasons. So after a while without a word, the
server is asked for something else on another connection.
"""

import select
import socket
import time
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from psycopg.abc import PQGen

T = TypeVar("T")

QUIET_SECONDS = 0.5
"""How long a server may take for an answer before it is asked whether it is there."""

ANSWER_SECONDS = 1.2
"""How long it may take for that."""

ARE_YOU_THERE = (8).to_bytes(4, "big") + (80_877_103).to_bytes(4, "big")
"""The question whether the server offers TLS, which it answers before it knows who asks."""


def attentive(steps: PQGen[T], require_heard: Callable[[], None]) -> PQGen[T]:
    """Return the steps of a wait for an answer. Each time that nothing comes for long, `require_heard` is called."""
    try:
        wanted = next(steps)
        since = time.monotonic()
        while True:
            ready = yield wanted
            if not ready and time.monotonic() - since > QUIET_SECONDS:
                require_heard()
            if ready or time.monotonic() - since > QUIET_SECONDS:
                since = time.monotonic()
            wanted = steps.send(ready)
    except StopIteration as end:
        found: T = end.value
        return found


def is_heard(descriptor: int) -> bool:
    """Return whether the server at the other end of a socket says anything, there or on another connection."""
    with socket.socket(fileno=descriptor) as borrowed:
        try:
            family, address = borrowed.family, borrowed.getpeername()
        except OSError:
            return False
        finally:
            borrowed.detach()
    with closing(socket.socket(family)) as asking:
        asking.settimeout(ANSWER_SECONDS)
        try:
            asking.connect(address)
            asking.sendall(ARE_YOU_THERE)
            asking.recv(1)
        except OSError:
            return has_input(descriptor, 0)
    return True


def has_input(descriptor: int, seconds: float) -> bool:
    """Wait at most this long, and return whether there is something to be read from a socket."""
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], seconds)[0])
    poll = select.poll()  # unlike `select`, it takes descriptors above 1,023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1_000))
