"""How much a namespace may hold, and how often it may be called."""

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from vector_memory.errors import QuotaExceededError
from vector_memory.sessions.writer import require_room
from vector_memory.storage.disk.filesystem import make_private_folders
from vector_memory.storage.disk.locking import lock, lock_file

PACES = "paces"
MINUTE = 60.0
HEAD = struct.Struct("qq")
"""Begins a file of calls: the limit, and how many calls were noted. Their times follow, the latest `limit` of them."""

TIME = struct.Struct("d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of a namespace; None: none. `megabytes`: of its database. `calls_per_minute`: on each machine."""

    memories: int | None = None
    megabytes: int | None = None
    calls_per_minute: int | None = None

    @property
    def limits_size(self) -> bool:
        """Whether it limits what the namespace may hold."""
        return self.memories is not None or self.megabytes is not None

    def require_room(self, memories: int, size: int) -> None:
        """Raise QuotaExceededError if a namespace of this size has no room left."""
        if self.memories is not None:
            require_room(memories, self.memories)
        if self.megabytes is not None and size >= self.megabytes * 2**20:
            raise QuotaExceededError(
                f"This namespace may take {self.megabytes:,} MB and is full: delete memories, or ask for more."
            )


class Paces:
    """Counts the calls of the last minute in each namespace, in files that the processes of a machine share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / PACES

    def count(self, name: str, most: int | None) -> None:
        """Count a call. Raises QuotaExceededError, which says when to try again, if there were `most` already."""
        if most is None:
            return
        make_private_folders(self._folder)
        with lock_file(self._folder / name) as descriptor:
            lock(descriptor)
            wait = wait_for_place(descriptor, most) if most else MINUTE
        if wait:
            raise QuotaExceededError(
                f"This namespace may make {most:,} calls a minute: try again in {max(1, round(wait))} s."
            )


def wait_for_place(descriptor: int, most: int) -> float:
    """Note a call in a file, in place of the one `most` calls ago; or return in how many seconds that is a minute ago.

    Times that are ahead are from before the machine was started.
    """
    now, head = time.monotonic(), os.pread(descriptor, HEAD.size, 0)
    limit, number = HEAD.unpack(head) if len(head) == HEAD.size else (most, 0)
    if limit != most:  # the limit was changed
        number = 0
    place = HEAD.size + number % most * TIME.size
    if number >= most:
        (before,) = TIME.unpack(os.pread(descriptor, TIME.size, place))
        if now - MINUTE < before <= now:
            return float(before + MINUTE - now)
    os.pwrite(descriptor, TIME.pack(now), place)
    os.pwrite(descriptor, HEAD.pack(most, number + 1), 0)
    return 0.0
