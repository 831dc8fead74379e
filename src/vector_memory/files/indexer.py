"""Updates the index from the folder: first the words of changed files, then the vectors.

A file can therefore be found by its words a moment after it was written, even if many vectors are still missing or
there is no model.
"""

import hashlib
import logging
import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from vector_memory.chunking import chunk_document
from vector_memory.domain.text import counted, text_in
from vector_memory.embedding import Vectors
from vector_memory.errors import ValidationError, VectorMemoryError, is_about_text, where
from vector_memory.files.folder import FileStatus, MemoryFolder, is_daily
from vector_memory.files.walking import Skipped
from vector_memory.indexing.indexer import Indexer, UnitText
from vector_memory.storage.disk.locking import lock_if_free
from vector_memory.storage.records import Embedded
from vector_memory.storage.sqlite import file_rows
from vector_memory.storage.sqlite.file_index import PASSAGES, FileIndex
from vector_memory.storage.sqlite.file_rows import FileState, NewChunk, Unembedded
from vector_memory.storage.terms import terms

logger = logging.getLogger(__name__)

T = TypeVar("T")

CHUNK_TOKENS = 400
OVERLAP_TOKENS = 80

CHUNKS_AT_ONCE = 8
"""Chunks embedded at a time. This takes about a second, and then more urgent work goes first."""

FILES_PER_LOG_RECORD = 20

SECONDS_TO_EMBED = 60.0
"""Chunks whose embedding takes longer are postponed."""

FAILURES_BEFORE_WAITING = 2
"""A chunk is tried once together with others and once alone before it is postponed."""

SECONDS_BETWEEN_TRIES = 0.05
"""Pause between attempts while another process works on the index."""

NANOSECONDS = 10**9

SETTLED_SECONDS = 2
"""A file that changed less than this before it was read may change again with the same time and size."""


@dataclass(slots=True)
class IndexingProgress:
    """How many of the changed files have been checked in the current run. Other threads read it."""

    files_done: int = 0
    files_total: int = 0


class FileChunk(NamedTuple):
    """A chunk of a file, with its first and last line, counted from 1.

    If a long line was cut, the chunk contains only a part of its first or last line.
    """

    text: str
    start_line: int
    end_line: int


class Stopped(Exception):  # noqa: N818 - it is not an error
    """The memory is being closed."""


class FolderIndexer:
    """Indexes a folder; for use by one thread.

    Several processes may share the index. Each of the two steps runs in one process at a time, so nothing is done
    twice, and indexing words does not wait for another process that computes vectors.

    `stopping`: set when the memory is closed; all methods then raise `Stopped`.
    """

    def __init__(
        self,
        folder: MemoryFolder,
        indexer: Indexer,
        stopping: threading.Event,
        seconds_to_embed: float = SECONDS_TO_EMBED,
    ) -> None:
        self._folder = folder
        self._indexer = indexer
        self._stopping = stopping
        self._seconds_to_embed = seconds_to_embed
        self.progress = IndexingProgress()

    def update_files(self, index: FileIndex) -> None:
        """Index the words of new and changed files, and remove deleted files."""
        with self._exclusive(index.path, "words"):
            with index.read() as connection:
                known = file_rows.files(connection)
            seen = self._folder.scan()
            changed = sorted(path for path, status in seen.items() if not is_known(known.get(path), status))
            self.progress = IndexingProgress(files_total=len(changed))
            indexed = 0
            for path in changed:
                self._require_running()
                indexed += self._update_if_possible(index, path, known.get(path))
                self.progress.files_done += 1
                if self.progress.files_done % FILES_PER_LOG_RECORD == 0:
                    logger.info("Checked %d of %d files", self.progress.files_done, len(changed))
            if indexed:
                logger.info("Indexed the words of %s", counted(indexed, "file"))
            deleted = known.keys() - seen.keys()
            for path in deleted:
                self._remove(index, path)
            if deleted or known.keys() & changed:
                index.purge_deleted()

    def add_missing_vectors(self, index: FileIndex, interrupted: Callable[[], bool]) -> bool:
        """Compute missing vectors until none is missing or `interrupted()`; False: some are still missing.

        Raises EmbeddingUnavailableError.
        """
        if not index.vectors_usable:
            return False
        while not interrupted():
            self._require_running()
            with self._exclusive(index.path, "vectors", interrupted) as is_locked:
                if not is_locked:
                    return False
                with index.read() as connection:
                    if not (chunks := file_rows.next_unembedded(connection, CHUNKS_AT_ONCE)):
                        return True
                if not self._embed(index, chunks):
                    return False
        return False

    def _update_if_possible(self, index: FileIndex, path: str, known: FileState | None) -> bool:
        """Update a file. A file that cannot be indexed is skipped and does not stop the others."""
        try:
            return self._update_file(index, path, known)
        except (VectorMemoryError, Stopped):
            raise
        except Exception as error:
            logger.warning("A file could not be indexed: %s", where(error))
            self._folder.skipped.append(Skipped(path, "it cannot be split into chunks"))
            return False

    def _update_file(self, index: FileIndex, path: str, known: FileState | None) -> bool:
        """Index the words of a file if its content has changed; return whether it has."""
        try:
            data, status = self._folder.read(path)
        except ValidationError:  # deleted in the meantime or unreadable: treated as deleted
            if known is not None:
                self._remove(index, path)
            return False
        state = FileState(path, hashlib.sha256(data).hexdigest(), settled_time(status), status.size)
        if known is not None and known.hash == state.hash:
            with index.write() as connection:
                file_rows.note_unchanged(connection, state)
            return False
        try:
            text = text_in(data)
        except ValidationError:
            self._folder.skipped.append(Skipped(path, "it is not text in UTF-8"))
            if known is not None:
                self._remove(index, path)
            return False
        cut = cut_file(text, self._indexer.token_counter())
        chunks = [NewChunk(*chunk, text_hash(chunk.text), Counter(terms(chunk.text))) for chunk in cut]
        with index.write() as connection:
            file_rows.replace_file(connection, state, chunks, daily=is_daily(path), vectors=index.vectors_usable)
        return True

    def _remove(self, index: FileIndex, path: str) -> None:
        with index.write() as connection:
            file_rows.delete_file(connection, path, vectors=index.vectors_usable)

    def _embed(self, index: FileIndex, chunks: Sequence[Unembedded]) -> bool:
        """Compute the vectors of some chunks; False if that failed and should be tried again later."""
        fingerprint = self._indexer.fingerprint
        try:
            units = [UnitText(chunk.text, 0) for chunk in chunks]
            embedded = within(self._seconds_to_embed, lambda: self._indexer.embed(units))
        except Exception as error:  # TimeoutError comes from `within`
            if not is_about_text(error):
                raise
            # The error's message is not logged, because it may quote the text.
            logger.warning("%s could not be embedded: %s", counted(len(chunks), "chunk"), type(error).__name__)
            with index.write() as connection:
                file_rows.note_failure(connection, [chunk.id for chunk in chunks])
            # Other chunks are tried next, then each of these alone. A chunk that fails alone is postponed.
            return not isinstance(error, TimeoutError) and chunks[0].failures < FAILURES_BEFORE_WAITING
        with index.write() as connection:
            file_rows.adopt_fingerprint(connection, fingerprint)
            for position, chunk in enumerate(chunks):
                file_rows.add_vectors(connection, chunk.id, vectors_at(embedded, position))
        return True

    def _require_running(self) -> None:
        if self._stopping.is_set():
            raise Stopped

    @contextmanager
    def _exclusive(self, index: Path, step: str, interrupted: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Wait until no other process runs this step on the index, and lock it; yield False if `interrupted()` first.

        The lock ends with the process that holds it.
        """
        file = index.with_name(f"{index.name}.{step}.lock")
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            while not (is_locked := lock_if_free(descriptor)) and not interrupted():
                self._require_running()
                time.sleep(SECONDS_BETWEEN_TRIES)
            yield is_locked
        finally:
            os.close(descriptor)


def cut_file(
    text: str, count_tokens: Callable[[str], int], size: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS
) -> list[FileChunk]:
    """Cut a text into chunks of at most about `size` tokens, whose neighbours share up to about `overlap` tokens."""
    ends = [at for at, character in enumerate(text) if character == "\n"]  # only a line feed ends a line
    chunks = chunk_document(text, count_tokens, size, overlap, by_headings=False)
    return [
        FileChunk(chunk.text, bisect_left(ends, chunk.start) + 1, bisect_left(ends, chunk.end) + 1) for chunk in chunks
    ]


def is_known(known: FileState | None, status: FileStatus) -> bool:
    """Whether a file has certainly not changed since it was indexed."""
    return known is not None and (known.mtime, known.size) == status


def settled_time(status: FileStatus) -> int:
    """Return the modification time to store; 0 if the file changed so recently that it must be read again next time."""
    return 0 if time.time_ns() - status.mtime < SETTLED_SECONDS * NANOSECONDS else status.mtime


def text_hash(text: str) -> str:
    """Return the SHA-256 of a chunk's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def vectors_at(embedded: Embedded, position: int) -> Vectors:
    """Return the vectors of the chunk at that position."""
    rows = [row for row, passage in enumerate(embedded.passages) if passage.unit == position]
    vectors: Vectors = embedded.vectors[rows[:PASSAGES]]
    return vectors


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what `work` returns. Raises TimeoutError after `seconds`; the work cannot be stopped and continues."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except Exception as error:  # raised again by `outcome.result`
            outcome.set_exception(error)

    threading.Thread(target=run, name="embedding-files", daemon=True).start()
    return outcome.result(seconds)
