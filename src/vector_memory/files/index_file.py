"""The index's file: opened on first use, and rebuilt if it is damaged. Losing it loses no memories."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TypeVar

from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.embedder import Embedder
from vector_memory.errors import DatabaseError, DatabaseLockError, EmbeddingUnavailableError
from vector_memory.search import Retriever
from vector_memory.settings import Settings
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
from vector_memory.writing.background import BackgroundVectors
from vector_memory.writing.deletion import Deletion
from vector_memory.writing.indexer import CutUnits, Indexer
from vector_memory.writing.writer import MemoryWriter, Room

logger = logging.getLogger(__name__)

T = TypeVar("T")

CHUNK_TOKENS = 400
OVERLAP_TOKENS = 80

SECONDS_TO_EMBED = 60.0

NO_VECTOR_SEARCH = "sqlite-vec cannot be loaded."


class PatientIndexer(Indexer):
    """An indexer whose embedding of a batch fails after a while, so that others go on; it is tried again later."""

    def embed_batches(self, cut: CutUnits, first: int) -> Iterator[Embedded]:
        """Yield batches as `Indexer` does. Raises TimeoutError: the work cannot be stopped, and goes on unseen."""
        batches = super().embed_batches(cut, first)
        while (batch := in_time(SECONDS_TO_EMBED, partial(next, batches, None))) is not None:
            yield batch


class FileIndex:
    """The open index: a memory like that of sessions, with what fills and searches it.

    Chunks and ranking are those of the specification: chunks of paragraphs, of which no tokens are compared.
    """

    def __init__(self, path: Path, model: EmbeddingModel, settings: Settings, *, vectors: bool) -> None:
        self.path = path
        self._database = IndexDatabase(path, dimensions=settings.embedding_dim, vectors=vectors)
        self.storage = storage = SqliteStorage(self._database)
        settings = settings.model_copy(
            update={
                "default_chunk_size": CHUNK_TOKENS,
                "default_chunk_overlap": OVERLAP_TOKENS,
                "enable_enrichment": False,
                "late_interaction": False,
                "use_threshold_filtering": False,
            }
        )
        self._indexer = PatientIndexer(model, settings, by_headings=False)
        self._background = BackgroundVectors(storage, self._indexer)
        self.retriever = Retriever(storage, model, self._background, settings)
        self.writer = MemoryWriter(storage, self._indexer, self._background, settings.redact, Room())
        self.deletion = Deletion(storage)
        if vectors:
            self._background.start(defers=True)

    @property
    def is_busy(self) -> bool:
        """Whether vectors are being computed."""
        return self._background.is_busy

    def is_in_place(self) -> bool:
        """Whether the file is still the one that was opened: another process may have made it anew."""
        return self._database.is_in_place()

    def require_same_model(self) -> None:
        """Raise OutdatedIndexError if the vectors are of another model than the one that is loaded, if one is."""
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
    file, which has only words, and its `model` cannot be used.
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
