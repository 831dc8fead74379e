"""Stores that wait on this machine until the shared memory can be reached, in order, each in a file of its own."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import make_private_folders
from vector_memory.storage.disk.locking import lock_if_free

MAX_WAITING = 10_000
MAX_BYTES = 256 * 2**20
REFUSED = "refused"
"""Folder for what the shared memory did not accept: nothing is thrown away."""


class Waiting(NamedTuple):
    """A call that waits, and its file."""

    path: Path
    tool: str
    arguments: dict[str, Any]


class Outbox:
    """A folder of calls that wait to be sent. Several processes may share it: one at a time sends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, tool: str, arguments: dict[str, Any]) -> None:
        """Keep a call. When this returns it survives a power failure. Raises DatabaseError if there is no room."""
        make_private_folders(self._folder)
        data = json.dumps({"tool": tool, "arguments": arguments}).encode()
        waiting = self._paths()
        if len(waiting) >= MAX_WAITING or sum(path.stat().st_size for path in waiting) + len(data) > MAX_BYTES:
            raise DatabaseError(
                "Too much waits to be sent to the shared memory, which cannot be reached. Try again later."
            )
        draft = self._folder / f"{time.time_ns():020}-{os.getpid()}.new"
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        draft.rename(draft.with_suffix(".json"))

    def is_empty(self) -> bool:
        """Return whether nothing waits."""
        return not self._paths()

    def waiting(self) -> Iterator[Waiting]:
        """Yield what waits, the oldest first. A file that cannot be read is set aside."""
        for path in self._paths():
            try:
                call = json.loads(path.read_bytes())
                yield Waiting(path, call["tool"], call["arguments"])
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError):
                self._set_aside(path)

    def sent(self, call: Waiting) -> None:
        """Forget a call that was answered."""
        call.path.unlink(missing_ok=True)

    def refused(self, call: Waiting) -> None:
        """Set a call aside that can never succeed."""
        self._set_aside(call.path)

    @contextmanager
    def sending(self) -> Iterator[bool]:
        """Yield whether this process may send: no other does so during the block."""
        make_private_folders(self._folder)
        descriptor = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            yield lock_if_free(descriptor)
        finally:
            os.close(descriptor)

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))

    def _set_aside(self, path: Path) -> None:
        aside = self._folder / REFUSED
        make_private_folders(aside)
        path.rename(aside / path.name)
