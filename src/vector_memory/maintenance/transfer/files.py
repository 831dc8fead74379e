"""Output files of exports and reports."""

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.drafts import Rules, draft_of


@contextmanager
def new_file(target: Path, *, overwrite: bool, databases: Sequence[Path]) -> Iterator[IO[bytes]]:
    """Yield a stream to a file that exists, complete, only after the block succeeds.

    Pipes and terminals are written to directly. Raises ValidationError if the file exists and `overwrite` is false, or
    if it is one of `databases` or any other, which are never replaced; DatabaseError if it cannot be written.
    """
    if is_stream(target):
        with written_to(target) as stream:
            yield stream
        return
    with draft_of(target, Rules(overwrite=overwrite, databases=databases)) as draft:
        with draft.open() as stream:
            yield stream
        draft.publish()


@contextmanager
def written_to(target: Path) -> Iterator[IO[bytes]]:
    """Yield an open pipe or device. Raises BrokenPipeError if its reader is gone, as for standard output."""
    try:
        with target.open("wb") as stream:
            yield stream
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DatabaseError(f"{target} could not be written ({error.strerror}): choose another path.") from error


def is_stream(target: Path) -> bool:
    """Whether a path is a pipe or a character device, such as a terminal."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)
