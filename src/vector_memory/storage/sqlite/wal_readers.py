"""Finds out who keeps the write-ahead log from being emptied, from its shared index, without opening the database.

The layout is documented by SQLite (walformat.html): a header, the number of frames already in the database, and five
read marks, each with a lock byte that readers at that mark hold. Nothing is written; a checkpoint would write.
"""

import os
import struct
import sys
from pathlib import Path
from typing import NamedTuple

from vector_memory.storage.disk.filesystem import log_index_of

HEADER = struct.Struct("=16xI")
"""The number of frames in the log."""

MARKS = struct.Struct("=I5I")
"""The number of frames already in the database, and the read marks. A mark is the last frame that its readers see."""

MARKS_AT = 96
FIRST_READ_LOCK = 123
LOCK = struct.Struct("@hhqqi0q")
"""`struct flock` of 64-bit Linux."""


class BlockedFrames(NamedTuple):
    """The number of frames that no checkpoint can move, because a process still reads the state of frame `mark`."""

    frames: int
    mark: int
    process: int


def blocked_frames(path: Path) -> BlockedFrames | None:
    """Return the frames that readers in other processes block; None if there are none, or it cannot be determined.

    Do not call this while this process has the database open: closing the index would drop SQLite's locks.
    """
    if sys.platform != "linux" or LOCK.size != 32:  # noqa: PLR2004 - see LOCK
        return None
    try:
        descriptor = os.open(log_index_of(path), os.O_RDONLY)
    except OSError:
        return None
    try:
        return _read(descriptor)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> BlockedFrames | None:
    data = os.pread(descriptor, MARKS_AT + MARKS.size, 0)
    if len(data) < MARKS_AT + MARKS.size:
        return None
    (frames,) = HEADER.unpack_from(data)
    moved, *marks = MARKS.unpack_from(data, MARKS_AT)
    marks[0] = moved  # readers at the first mark read only the database
    holders = [(mark, holder) for at, mark in enumerate(marks) if (holder := _holder(descriptor, at)) is not None]
    mark, process = min(holders, default=(frames, 0))
    return BlockedFrames(frames - mark, mark, process) if mark < frames else None


def _holder(descriptor: int, mark: int) -> int | None:
    """Return the id of a process that reads at a mark, or None."""
    import fcntl  # noqa: PLC0415 - not available on every system

    question = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, FIRST_READ_LOCK + mark, 1, 0)
    kind, *_, process = LOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else process
