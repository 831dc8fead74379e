"""Syncs memories with their files: those that `ingest --sync` stores, and memory files.

Moved texts are recognized by their hashes, and texts are replaced in one transaction, so no text of an existing file is
ever missing.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from vector_memory.domain import NewMemory
from vector_memory.errors import DuplicateMemoryError, ValidationError, is_about_text, where
from vector_memory.writing.sync import Origin, Sync

logger = logging.getLogger(__name__)

State = Literal["stored", "updated", "unchanged", "removed", "skipped", "deleted_earlier", "failed"]

Progress = Callable[[int, int], None]
"""Called with the number of files that are done, and of all that are new or have changed."""

SETTLED_SECONDS = 2
"""A file that changed less than this before it was read may change again with the same time and size."""

NANOSECONDS = 10**9


class Outcome(NamedTuple):
    """The outcome for a file. `memory_id`: the memory that contains its text, even if it existed before."""

    file: str
    state: State
    memory_id: int | None = None
    reason: str | None = None


class UnreadableFileError(ValidationError):
    """A file cannot be read now. Its text is unknown, so its memory stays."""


class FileStatus(NamedTuple):
    """A file's modification time in nanoseconds and size in bytes; a difference means that it may have changed."""

    mtime: int
    size: int

    @property
    def changed_at(self) -> str:
        """When the file was changed, as memories name times."""
        return datetime.fromtimestamp(self.mtime / NANOSECONDS, UTC).isoformat(timespec="microseconds")

    @property
    def is_settled(self) -> bool:
        """Whether a change from now on will show in the status."""
        return time.time_ns() - self.mtime >= SETTLED_SECONDS * NANOSECONDS


class FileSync:
    """Syncs files, read with `memory_of`; skips files whose `status_of` is unchanged.

    `memory_of` raises UnreadableFileError if a file's text is unknown now, and ValidationError if it has none that can
    be stored.
    """

    def __init__(
        self, memory_of: Callable[[str, Origin], NewMemory], status_of: Callable[[str], FileStatus | None]
    ) -> None:
        self._memory_of = memory_of
        self._status_of = status_of
        self._hashes: dict[str, tuple[FileStatus, str]] = {}

    def run(self, sync: Sync, files: Mapping[str, Origin], gone: Iterable[Origin], note: Progress) -> list[Outcome]:
        """Store new and edited files in place of their earlier texts, and delete the memories of deleted files.

        A file whose text cannot be stored has no memory.
        """
        outcomes: dict[str, Outcome] = {}
        wanted, lost = self._compared(sync, files, outcomes)
        sync.expect(wanted, [*lost, *gone])
        changed, done = sum(not sync.is_kept(origin) for origin in wanted), 0
        for file, origin in files.items():
            if origin in wanted:
                done += not sync.is_kept(origin)
                outcomes[file] = outcome_of(file, partial(sync.put, origin, partial(self._memory_of, file, origin)))
                note(done, changed)
        removed = [Outcome(origin.source, "removed", memory_id) for origin, memory_id in sync.remove_rest()]
        if removed or any(outcome.state == "updated" for outcome in outcomes.values()):
            sync.finish()
        return [outcomes[file] for file in files] + removed

    def _compared(
        self, sync: Sync, files: Mapping[str, Origin], failed: dict[str, Outcome]
    ) -> tuple[dict[Origin, str], list[Origin]]:
        """Return the hashes of the files' texts, and the files without text; note these and unreadable ones.

        The text of unreadable files is unknown, so their memories stay.
        """
        wanted: dict[Origin, str] = {}
        lost = []
        self._hashes = {file: known for file, known in self._hashes.items() if file in files}
        for file, origin in files.items():
            try:
                wanted[origin] = self._hash_of(sync, file, origin)
            except ValidationError as error:
                failed[file] = Outcome(file, "failed", reason=str(error))
                if not isinstance(error, UnreadableFileError):
                    lost.append(origin)
        return wanted, lost

    def _hash_of(self, sync: Sync, file: str, origin: Origin) -> str:
        status = self._status_of(file)
        known = self._hashes.get(file)
        if known is not None and known[0] == status:
            return known[1]
        content_hash = sync.hash_of(self._memory_of(file, origin).content)
        if status is not None and status.is_settled:
            self._hashes[file] = status, content_hash
        return content_hash


def outcome_of(file: str, work: Callable[[], tuple[State, int | None]]) -> Outcome:
    """Return the outcome for a file, of which `work` returns the state and the memory.

    A file that cannot be stored does not stop the others; a failing database does.
    """
    try:
        return Outcome(file, *work())
    except DuplicateMemoryError as error:
        return Outcome(file, "skipped", error.memory_id, f"Memory {error.memory_id} has the same text.")
    except ValidationError as error:
        return Outcome(file, "failed", reason=str(error))
    except Exception as error:
        if not is_about_text(error):
            raise
        logger.warning("A file could not be cut into chunks: %s", where(error))
        return Outcome(file, "failed", reason=f"It cannot be split into chunks ({type(error).__name__}).")


def status_of(file: str | Path) -> FileStatus | None:
    """Return the status of a file; None if it has none."""
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return FileStatus(status.st_mtime_ns, status.st_size)
