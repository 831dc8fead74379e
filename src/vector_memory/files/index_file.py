"""The index's file: opened on first use, and rebuilt if it is damaged. Losing it loses no memories."""

import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from vector_memory.domain import MemoryKind, NewMemory, Scope
from vector_memory.domain.text import counted, text_in
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.embedder import Embedder
from vector_memory.errors import (
    ClosedMemoryError,
    DatabaseError,
    DatabaseLockError,
    EmbeddingUnavailableError,
    ValidationError,
)
from vector_memory.files.folder import GONE, MemoryFolder, Skipped, is_daily
from vector_memory.files.syncing import FileStatus, FileSync
from vector_memory.search import Retriever
from vector_memory.settings import Settings
from vector_memory.storage.disk.filesystem import lock_if_free
from vector_memory.storage.records import Embedded
from vector_memory.storage.sqlite.database import SqliteStorage
from vector_memory.storage.sqlite.file_index import (
    IndexDatabase,
    OutdatedIndexError,
    can_load_vector_search,
    is_worthless,
    remove_index,
    require_own_file,
)
from vector_memory.texts.redaction import redact
from vector_memory.writing.background import BackgroundVectors
from vector_memory.writing.deletion import Deletion
from vector_memory.writing.indexer import CutUnits, Indexer
from vector_memory.writing.sync import Origin, Sync
from vector_memory.writing.writer import MemoryLimit, MemoryWriter

logger = logging.getLogger(__name__)

T = TypeVar("T")

CHUNK_TOKENS = 400
OVERLAP_TOKENS = 80

SECONDS_TO_EMBED = 60.0

NO_VECTOR_SEARCH = "sqlite-vec cannot be loaded."


class PatientIndexer(Indexer):
    """An indexer that gives up on a batch after a while, so that others continue; it is retried later."""

    def embed_batches(self, cut: CutUnits, first: int) -> Iterator[Embedded]:
        """Yield batches as `Indexer` does. Raises TimeoutError; the worker keeps running in the background."""
        batches = super().embed_batches(cut, first)
        while (batch := in_time(SECONDS_TO_EMBED, partial(next, batches, None))) is not None:
            yield batch


class FileIndex:
    """The open index: a memory like that of sessions, with what fills and searches it.

    Chunks and ranking follow the specification: chunks of paragraphs, without comparing tokens.
    """

    def __init__(self, path: Path, model: EmbeddingModel, settings: Settings, *, vectors: bool) -> None:
        self.path = path
        database = IndexDatabase(path, dimensions=settings.embedding_dim, vectors=vectors)
        self.is_in_place = database.is_in_place
        """Tells whether the file is still the one that was opened: another process may have rebuilt it."""
        self.storage = storage = SqliteStorage(database)
        settings = settings.model_copy(
            update={
                "default_chunk_size": CHUNK_TOKENS,
                "default_chunk_overlap": OVERLAP_TOKENS,
                "enable_enrichment": False,
                "pending": "",
                "late_interaction": False,
                "use_threshold_filtering": False,
            }
        )
        self._indexer = PatientIndexer(model, settings, by_headings=False)
        self._background = BackgroundVectors(storage, self._indexer)
        self.retriever = Retriever(storage, model, self._background, settings)
        self.writer = MemoryWriter(storage, self._indexer, self._background, settings, MemoryLimit())
        self.deletion = Deletion(storage)
        if vectors:
            self._background.start(defers=True)

    @property
    def is_busy(self) -> bool:
        """Whether vectors are being computed."""
        return self._background.is_busy

    def require_same_model(self) -> None:
        """Raise OutdatedIndexError if a model is loaded and the vectors are from another one."""
        with self.storage.read() as reader:
            stored = reader.vectors.fingerprint()
        if stored is not None and self._indexer.is_ready and stored != self._indexer.fingerprint:
            raise OutdatedIndexError("The index was made with another model.")

    def close(self) -> None:
        """Close the file; repeated calls do nothing."""
        self._background.stop()
        self.storage.close()


class IndexFile:
    """An index that is replaced if it is damaged, by this or another process. Thread-safe.

    It is opened on first use, so a server whose index cannot be opened still offers its other tools. Using it raises
    DatabaseError if it cannot be opened, or if the file belongs to another program. Without sqlite-vec it is another
    file that has only words, and its `model` cannot be used.
    """

    def __init__(self, path: Path, model: EmbeddingModel, settings: Settings) -> None:
        self.has_vectors = can_load_vector_search()
        self.path = path if self.has_vectors else path.with_name(f"{path.name}.words")
        self.model = model if self.has_vectors else EmbeddingModel(no_vector_search)
        self._settings = settings
        self._lock = threading.Lock()
        self._index: FileIndex | None = None

    def use(self, work: Callable[[FileIndex], T]) -> T:
        """Return `work(index)`. If the index is damaged or was replaced in the meantime, repeat it with the new one."""
        index = self.current()
        try:
            return work(index)
        except DatabaseError as error:
            if is_worthless(error):
                self._rebuild(index)
            elif self.current() is index:
                raise
            return work(self.current())

    def current(self) -> FileIndex:
        """Return the current index, after opening it if necessary."""
        with self._lock:
            if self._index is None:
                self._index = self._open()
            elif not self._index.is_in_place():
                self._index.close()
                self._index = self._open()
            return self._index

    def close(self) -> None:
        """Close the file; repeated calls do nothing."""
        if self._index is not None:
            self._index.close()

    def _rebuild(self, damaged: FileIndex) -> None:
        with self._lock:
            if self._index is damaged:
                is_in_place = damaged.is_in_place()  # not asked later: closing deletes the log
                self._index.close()
                if is_in_place:
                    self._remove()
                self._index = self._open()

    def _open(self) -> FileIndex:
        """Open the file. Errors name the setting of its folder, because the caller did not give the path."""
        try:
            return self._opened()
        except DatabaseLockError:
            raise
        except (OSError, DatabaseError) as error:
            reason = f"{error.strerror}." if isinstance(error, OSError) else error
            message = f"The index of the memory files cannot be used: {reason} VECTOR_MEMORY_DB_DIR sets its folder."
            raise DatabaseError(message) from error

    def _opened(self) -> FileIndex:
        require_own_file(self.path)
        before = self._identity()
        try:
            return self._made()
        except DatabaseError as error:
            if not is_worthless(error):
                raise
            if self._identity() == before:  # otherwise another process has already replaced it
                self._remove()
        return self._made()

    def _made(self) -> FileIndex:
        return FileIndex(self.path, self.model, self._settings, vectors=self.has_vectors)

    def _remove(self) -> None:
        """Delete the file. It has a name that only this package uses, and everything in it comes from the folder."""
        logger.warning("The index of the memory folder is damaged or outdated: rebuilding it")
        remove_index(self.path)

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_ctime_ns


def in_time(seconds: float, work: Callable[[], T]) -> T:
    """Return what `work` returns. Raises TimeoutError after `seconds`."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except Exception as error:  # raised again by `outcome.result`
            outcome.set_exception(error)

    threading.Thread(target=run, name="embedding-files", daemon=True).start()
    return outcome.result(seconds)


def no_vector_search() -> Embedder:
    """Say why nothing is embedded."""
    raise EmbeddingUnavailableError(NO_VECTOR_SEARCH)


# Updates the index from the folder: the words of changed files, whose vectors follow in the background.
#
# So a file can be found by its words a moment after it was written, even if many vectors are missing or there is no
# model.

KIND = MemoryKind.WORKING_MEMORY
"""As memories of this kind, files are stored in their index."""

NO_TEXT = "It has no text."
NOT_TOLD = {NO_TEXT, GONE}
"""Reasons to skip files silently."""

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
    """A file as its index stores it. It may be longer than what agents send. `task_code`: that of its `file_scope`."""

    def __post_init__(self) -> None:
        """Raise ValidationError for a file without text."""
        if not self.content.strip():
            raise ValidationError(NO_TEXT)


def file_scope(*, daily: bool | None = None, path: str | None = None) -> Scope:
    """Return the scope of the daily logs, of the other files, or of all; or of one file, named by a hash of its path.

    The hash distinguishes an index's files with equal texts; a path may have any length.
    """
    session_id = None if daily is None else DAILY if daily else OTHER
    task_code = None if path is None else hashlib.sha256(path.encode()).hexdigest()
    return Scope(KIND, session_id=session_id, task_code=task_code)


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
            task_code=file_scope(path=path).task_code,
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
