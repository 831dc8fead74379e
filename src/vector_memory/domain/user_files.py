"""Finds folders of users, and reads files named by users and clients.

Opens only regular files: a pipe would block, a device might never end.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO

MAX_BYTES = 100_000_000
"""Default maximum length of a file: configuration, tokens, keys."""

KINDS = {"d": "a folder", "l": "a link", "p": "a named pipe", "s": "a socket", "c": "a device", "b": "a device"}

Name = str | os.PathLike[str]


def open_regular(name: Name, flags: int = os.O_RDONLY, folder: int | None = None) -> int:
    """Return a descriptor of a regular file, which `flags` may create.

    `folder`: the open folder of a relative name. Raises OSError, whose `strerror` names the type of any other file.
    """
    with suppress(FileNotFoundError):
        _require_regular(os.stat(name, dir_fd=folder, follow_symlinks=not flags & os.O_NOFOLLOW))
    descriptor = os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o600, dir_fd=folder)
    try:
        _require_regular(os.fstat(descriptor))  # it may have been replaced
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = stat.filemode(status.st_mode)[0]
        number = errno.ELOOP if kind == "l" else errno.EISDIR
        raise OSError(number, f"it is {KINDS.get(kind, 'something else')}, not a file")


@contextmanager
def opened(name: Name, *, links: bool = True) -> Iterator[BufferedReader]:
    """Yield a regular file, open for reading. Raises OSError."""
    with os.fdopen(open_regular(name, os.O_RDONLY if links else os.O_NOFOLLOW), "rb") as stream:
        yield stream


def read_file(name: Name, longest: int = MAX_BYTES, *, links: bool = True) -> bytes:
    """Return the bytes of a regular file. Raises OSError, with EFBIG if it has more than `longest` bytes."""
    with opened(name, links=links) as stream:
        return read_up_to(stream, longest)


def read_up_to(stream: IO[bytes], longest: int) -> bytes:
    """Return the rest of a stream. Raises OSError with EFBIG if it has more than `longest` bytes."""
    data = stream.read(longest + 1)
    if len(data) > longest:
        raise OSError(errno.EFBIG, f"it is longer than {longest:,} bytes")
    return data


def folder_of_user(folder: str, variable: str = "") -> Path | None:
    """Return the folder named by a variable, else this one in the user's home; None if the user has no home."""
    try:
        return Path(os.environ.get(variable) or Path("~", folder)).expanduser()
    except RuntimeError:  # a container often runs as a user that the system does not know
        return None
