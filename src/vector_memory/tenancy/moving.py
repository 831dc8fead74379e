"""Moves a namespace to another database while servers use it: its memory, limits and tokens.

The memory is copied, and the copy catches up in rounds with what has changed in the meantime. Writers wait only for the
last round. Then the namespace is gone from the first database, so nothing can be stored there any more.
"""

import time

from vector_memory.errors import DatabaseLockError
from vector_memory.maintenance.backfill import Progress
from vector_memory.settings import DEFAULT_DIM
from vector_memory.storage.opening import following
from vector_memory.tenancy.registry import DatabaseRegistry

HOLD_SECONDS = 5.0
"""For so long writers wait at most."""

MOST_ROUNDS = 10
"""Rounds become shorter, since less has changed during a short one. On a busy server that may take a few."""

SHORT_SECONDS = 0.5
"""The round after one that took no longer than this is the last."""

TOO_BUSY = (
    f"The namespace was not moved, because its writers would have to wait for more than {HOLD_SECONDS:.0f} seconds. "
    "Repeat the command when the databases are less busy. If that does not help, stop its servers, and use "
    "`vector-memory copy`."
)


def move(source: DatabaseRegistry, target: DatabaseRegistry, name: str, on_progress: Progress) -> int:
    """Move a namespace, and return its number of memories.

    If that fails, it is as before in the source, and the call can be repeated. Raises NotFoundError if there is none,
    DatabaseLockError if writers would have to wait for too long, and ValidationError if the target has other memories
    or tokens under its names.
    """
    quota = source.quota(name)
    if name not in target.names():
        target.create(name)
    with following(source.address(name), target.address(name), DEFAULT_DIM) as follower:
        follower.copy(on_progress)
        for _ in range(MOST_ROUNDS):
            began = time.monotonic()
            follower.catch_up()
            if time.monotonic() - began < SHORT_SECONDS:
                break
        with source.giving_away(name) as tokens:
            until = time.monotonic() + HOLD_SECONDS

            def in_time() -> None:
                if time.monotonic() > until:
                    raise DatabaseLockError(TOO_BUSY)

            count = follower.catch_up(in_time, HOLD_SECONDS)
            target.set_quota(name, quota)
            target.take_over(tokens)
            in_time()
    return count
