"""Updates the index from the folder: the words of changed files, whose vectors follow in the background.

A file can therefore be found by its words a moment after it was written, even if many vectors are still missing or
there is no model.
"""

import hashlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vector_memory.domain import MemoryKind, NewMemory, Scope
from vector_memory.domain.text import counted, text_in
from vector_memory.errors import ClosedMemoryError, ValidationError
from vector_memory.files.folder import GONE, MemoryFolder, is_daily
from vector_memory.files.index_file import FileIndex
from vector_memory.files.syncing import FileStatus, FileSync
from vector_memory.files.walking import Skipped
from vector_memory.storage.disk.locking import lock_if_free
from vector_memory.texts.redaction import redact
from vector_memory.writing.sync import Origin, Sync

logger = logging.getLogger(__name__)

KIND = MemoryKind.WORKING_MEMORY
"""As memories of this kind, files are stored in their index."""

NO_TEXT = "It has no text."
NOT_TOLD = {NO_TEXT, GONE}
"""Why files are left out without saying so."""

DAILY, OTHER = "daily", "memory"
"""The sessions of the index."""

FILES_PER_LOG_RECORD = 20

SECONDS_BETWEEN_TRIES = 0.05
"""Pause between attempts while another process indexes words."""


@dataclass(slots=True)
class IndexingProgress:
    """How many of the changed files have been checked in the current run. Other threads read it."""

    files_done: int = 0
    files_total: int = 0


@dataclass(frozen=True, slots=True)
class IndexedFile(NewMemory):
    """A file as its index stores it. It may be longer than what agents send. `task_code`: its `place_of`."""

    def __post_init__(self) -> None:
        """Raise ValidationError for a file without text."""
        if not self.content.strip():
            raise ValidationError(NO_TEXT)


def file_scope(*, daily: bool | None = None, path: str | None = None) -> Scope:
    """Return the scope of the daily logs, of the other files, or of all; or of one file."""
    session_id = None if daily is None else DAILY if daily else OTHER
    return Scope(KIND, session_id=session_id, task_code=None if path is None else place_of(path))


def place_of(path: str) -> str:
    """Return what tells the files of an index apart, which may have equal texts: a hash of the path, of any length."""
    return hashlib.sha256(path.encode()).hexdigest()


class FolderIndexer:
    """Indexes the words of a folder; for use by one thread.

    Several processes may share the index. One at a time indexes, so nothing is done twice.

    `stopping`: set when the memory is closed; then ClosedMemoryError is raised. `redacts`: the index has no secrets.
    """

    def __init__(self, folder: MemoryFolder, stopping: threading.Event, *, redacts: bool = False) -> None:
        self._folder = folder
        self._redacts = redacts
        self._stopping = stopping
        self._seen: dict[str, FileStatus] = {}
        self._sync = FileSync(self._memory_of, self._seen.get)
        self.progress = IndexingProgress()

    def update_files(self, index: FileIndex) -> None:
        """Index the words of new and changed files, and remove deleted files."""
        with self._exclusive(index.path):
            self.progress = IndexingProgress()
            self._seen.clear()
            self._seen.update(self._folder.scan())
            files = {path: Origin("", path) for path in sorted(self._seen)}
            sync = Sync(index.storage, index.writer, index.deletion, file_scope())
            outcomes = self._sync.run(sync, files, set(sync.origins()) - {*files.values()}, self._note)
        for outcome in outcomes:
            if outcome.state == "failed" and outcome.reason not in NOT_TOLD:
                self._folder.skipped.append(Skipped(outcome.file, str(outcome.reason).partition(":")[0]))
        indexed = sum(outcome.state in {"stored", "updated"} for outcome in outcomes)
        if indexed:
            logger.info("Indexed the words of %s", counted(indexed, "file"))

    def _memory_of(self, path: str, origin: Origin) -> NewMemory:
        self._require_running()
        data, _ = self._folder.read(path)
        try:
            text = text_in(data)
        except ValidationError:
            raise ValidationError("it is not text in UTF-8") from None
        return IndexedFile(
            kind=KIND,
            agent_id="files",
            content=redact(text, keep_lines=True).text if self._redacts else text,
            session_id=DAILY if is_daily(path) else OTHER,
            task_code=place_of(path),
            title="",  # only the text of a chunk counts
            metadata=origin._asdict(),
        )

    def _note(self, done: int, total: int) -> None:
        self._require_running()
        before, self.progress.files_done, self.progress.files_total = self.progress.files_done, done, total
        if done > before and done % FILES_PER_LOG_RECORD == 0:
            logger.info("Checked %d of %d files", done, total)

    def _require_running(self) -> None:
        if self._stopping.is_set():
            raise ClosedMemoryError

    @contextmanager
    def _exclusive(self, index: Path) -> Iterator[None]:
        """Wait until no other process indexes words. The lock ends with the process that holds it."""
        file = index.with_name(f"{index.name}.words.lock")
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            while not lock_if_free(descriptor):
                self._require_running()
                time.sleep(SECONDS_BETWEEN_TRIES)
            yield
        finally:
            os.close(descriptor)
