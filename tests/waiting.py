"""Waiting for what happens in the background."""

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


async def until(holds: Callable[[], object]) -> None:
    """Return as soon as the condition is true, and let the event loop go on meanwhile."""
    with anyio.fail_after(PATIENCE):
        while not holds():
            await anyio.sleep(0.02)
