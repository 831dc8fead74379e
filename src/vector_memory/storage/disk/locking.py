"""Locks on open files. A lock ends with the descriptor that holds it, and so with its process."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vector_memory.errors import MemoryStorageError
from vector_memory.storage.cancellation import current_call, require_wanted

FILE_LOCK_TIMEOUT_SECONDS = 30.0
SECONDS_BETWEEN_ATTEMPTS = 0.005


def lock(descriptor: int) -> None:
    """Lock a file; wait for other processes until 30 s after the client's call arrived.

    Raises MemoryStorageError after that, and CancelledCallError if the client cancels the call.
    """
    call = current_call.get()
    until = (call.arrived_at if call else time.monotonic()) + FILE_LOCK_TIMEOUT_SECONDS
    while not lock_if_free(descriptor):
        require_wanted()
        if time.monotonic() >= until:
            raise MemoryStorageError("Another process keeps the file locked. Nothing was written: try again.")
        time.sleep(SECONDS_BETWEEN_ATTEMPTS)
    require_wanted()


@contextmanager
def lock_file(path: Path) -> Iterator[int]:
    """Yield a descriptor of a file that exists only to be locked. Its lock ends with the block.

    Raises OSError if it cannot be opened.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def lock_if_free(descriptor: int) -> bool:
    """Lock a file unless another process has locked it; False if it has."""
    import fcntl  # noqa: PLC0415 - Windows has none; servers there offer all tools that need no lock

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
