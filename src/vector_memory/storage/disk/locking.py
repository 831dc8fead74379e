"""Locks on open files. Each goes with the descriptor, and so with the process, that has it."""

import time

from vector_memory.errors import CancelledCallError, MemoryStorageError
from vector_memory.storage.calls import Call, current_call

LOCK_TIMEOUT_SECONDS = 30.0
SECONDS_BETWEEN_LOOKS = 0.005


def lock(descriptor: int) -> None:
    """Lock a file, as soon as nobody else has it locked, at most 30 s after the client's call arrived.

    Raises MemoryStorageError when that takes longer, and CancelledCallError when the client has cancelled the call.
    """
    call = current_call.get()
    until = (call.arrived_at if call else time.monotonic()) + LOCK_TIMEOUT_SECONDS
    while not lock_if_free(descriptor):
        require_wanted(call)
        if time.monotonic() >= until:
            raise MemoryStorageError("Another program keeps today's log locked. Nothing was written: try again.")
        time.sleep(SECONDS_BETWEEN_LOOKS)
    require_wanted(call)


def require_wanted(call: Call | None) -> None:
    """Raise CancelledCallError if the client no longer wants the result."""
    if call is not None and call.cancelled:
        raise CancelledCallError


def lock_if_free(descriptor: int) -> bool:
    """Lock a file if nobody else has it locked; False: somebody has."""
    import fcntl  # noqa: PLC0415 - Windows has none, and its servers offer the other tools

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
