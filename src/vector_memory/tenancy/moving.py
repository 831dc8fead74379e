"""Moves a namespace to another database while servers use it: its memory, limits and tokens.

The memory is copied twice, because the first copy takes long. Writers wait only for the second, which brings what has
changed in the meantime. Then the namespace is gone from the first database, so nothing can be stored there any more.
"""

import time
from contextlib import closing

from vector_memory.domain import STORED, Scope
from vector_memory.errors import DatabaseLockError
from vector_memory.maintenance.backfill import Progress
from vector_memory.maintenance.copying import CopiedMemories, copying
from vector_memory.settings import DEFAULT_DIM
from vector_memory.storage.base import Storage
from vector_memory.storage.opening import open_storage
from vector_memory.tenancy.registry import DatabaseRegistry

HOLD_SECONDS = 5.0
"""For so long writers wait at most."""

TOO_LARGE = (
    f"The namespace was not moved, because its writers would have to wait for more than {HOLD_SECONDS:.0f} seconds. "
    "Repeat the command when the databases are less busy. If that does not help, stop its servers, and use "
    "`vector-memory copy`."
)


def move(source: DatabaseRegistry, target: DatabaseRegistry, name: str, on_progress: Progress) -> CopiedMemories:
    """Move a namespace. If that fails, it is as before in the source, and the call can be repeated.

    Raises NotFoundError if there is none, DatabaseLockError if writers would have to wait for too long, and
    ValidationError if the target has other memories or tokens under its names.
    """
    quota = source.quota(name)
    with closing(open_storage(source.address(name), dimensions=DEFAULT_DIM, read_only=True)) as origin:
        if name not in target.names():
            target.create(name)
        with closing(open_storage(target.address(name), dimensions=DEFAULT_DIM)) as copy:
            with copying(origin, copy) as first:
                first.copy_memories(on_progress)
                first.complete(on_progress)
            with source.giving_away(name) as tokens:
                until = time.monotonic() + HOLD_SECONDS

                def in_time(*_: int) -> None:
                    if time.monotonic() > until:
                        raise DatabaseLockError(TOO_LARGE)

                forget_deleted(origin, copy)
                with copying(origin, copy) as second:
                    copied = second.copy_memories(in_time)
                    second.complete(in_time)
                target.set_quota(name, quota)
                target.take_over(tokens)
                in_time()
    return copied


def forget_deleted(origin: Storage, copy: Storage) -> None:
    """Delete from a copy what was deleted from its origin since."""
    everything = Scope(as_of=STORED)
    with origin.read() as reader:
        kept = set(reader.ids(everything))
    with copy.write() as writer:
        for memory_id in writer.ids(everything):
            if memory_id not in kept:
                writer.delete(memory_id)
