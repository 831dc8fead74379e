"""Waiting for what happens in the background."""

import threading
import time
from collections.abc import Callable

import anyio

PATIENCE = 180.0
"""Seconds, for a machine that has much else to do."""


def eventually(holds: Callable[[], object]) -> None:
    """Return as soon as the condition is true."""
    give_up = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < give_up, "it did not come true"
        time.sleep(0.02)


def at_once(*works: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Do all of this at the same time, each in a thread of its own, and wait for the end."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads)


async def until(holds: Callable[[], object]) -> None:
    """Return as soon as the condition is true, and let the event loop go on meanwhile."""
    with anyio.fail_after(PATIENCE):
        while not holds():
            await anyio.sleep(0.02)
