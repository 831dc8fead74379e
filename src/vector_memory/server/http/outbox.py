"""Stores that wait on this machine until the shared memory can be reached, in order, each in a file of its own."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from vector_memory.errors import DatabaseError
from vector_memory.server.http.remote import NOBODY, Speaker
from vector_memory.storage.disk.filesystem import make_private_folders, size_of
from vector_memory.storage.disk.locking import lock, lock_file, lock_if_free

MAX_WAITING = 10_000
MAX_BYTES = 256 * 2**20
REFUSED = "refused"
"""Folder for what the shared memory did not accept: nothing is thrown away."""

ADDING = "adding"
SENDING = "sending"
"""Files to lock: one process at a time adds, and one sends."""


class Waiting(NamedTuple):
    """A call that waits, and its file."""

    path: Path
    tool: str
    arguments: dict[str, Any]
    speaker: Speaker


class Outbox:
    """A folder of calls that wait to be sent. Several processes may share it: one at a time sends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, tool: str, arguments: dict[str, Any], speaker: Speaker = NOBODY) -> None:
        """Keep a call. When this returns it survives a power failure.

        Raises DatabaseError if there is no room, or the folder cannot be written.
        """
        call = {"tool": tool, "arguments": arguments, "speaker": speaker._asdict()}
        data = json.dumps(call).encode()
        try:
            make_private_folders(self._folder)
            with lock_file(self._folder / ADDING) as adding:
                lock(adding)
                self._write(data)
        except OSError as error:
            raise DatabaseError(
                f"The shared memory cannot be reached, and this machine could not keep the text ({error.strerror}): "
                "try again later."
            ) from error

    def is_empty(self) -> bool:
        """Return whether nothing waits."""
        return not self._paths()

    def waiting(self) -> Iterator[Waiting]:
        """Yield what waits, the oldest first. A file that is damaged is set aside."""
        for path in self._paths():
            try:
                call = json.loads(path.read_bytes())
                yield Waiting(path, call["tool"], dict(call["arguments"]), Speaker(**call["speaker"]))
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
        with lock_file(self._folder / SENDING) as sending:
            yield lock_if_free(sending)

    def _write(self, data: bytes) -> None:
        for unfinished in self._folder.glob("*.new"):  # of a process that was killed: nobody was told that it is kept
            unfinished.unlink()
        waiting = self._paths()
        if len(waiting) >= MAX_WAITING or sum(map(size_of, waiting)) + len(data) > MAX_BYTES:
            raise DatabaseError(
                "The shared memory cannot be reached, and too many texts wait to be sent there. Try again later."
            )
        # By the time, so that it is used only once, but after those that wait: clocks are set back, too.
        number = max(time.time_ns(), int(waiting[-1].stem) + 1 if waiting else 0)
        draft = self._folder / f"{number:020}.new"
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        draft.rename(draft.with_suffix(".json"))
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _paths(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("*.json") if path.stem.isdecimal())

    def _set_aside(self, path: Path) -> None:
        aside = self._folder / REFUSED
        make_private_folders(aside)
        path.rename(aside / path.name)
