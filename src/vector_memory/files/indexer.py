"""Brings the index in step with the folder: first the words of what has changed, then the vectors.

So a file is found by its words a moment after it was written, however many vectors are still to be made, and whether
there is a model or not.
"""

import hashlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from vector_memory.embedding import Vectors
from vector_memory.errors import ValidationError, VectorMemoryError, where
from vector_memory.files.chunker import cut_file
from vector_memory.files.folder import FileStatus, MemoryFolder, is_daily, text_of
from vector_memory.files.walking import Skipped
from vector_memory.indexing.indexer import Indexer, Piece
from vector_memory.storage.disk.locking import lock_if_free
from vector_memory.storage.records import Embedded
from vector_memory.storage.sqlite import file_rows
from vector_memory.storage.sqlite.file_index import PASSAGES, FileIndex
from vector_memory.storage.sqlite.file_rows import FileState, NewChunk, Unembedded
from vector_memory.storage.terms import terms

logger = logging.getLogger(__name__)

T = TypeVar("T")

CHUNKS_AT_ONCE = 8
"""So many chunks are embedded together: the pauses in which something else can be asked for are about a second."""

FILES_PER_REPORT = 20

SECONDS_TO_EMBED = 60.0
"""Chunks whose embedding takes longer are left for later."""

FAILURES_AT_ONCE = 2
"""A chunk is tried with others and alone before it has to wait."""

SECONDS_BETWEEN_TRIES = 0.05
"""While another process is at work on the index."""

NANOSECONDS = 10**9

SURE_SECONDS = 2
"""A file that was changed so shortly before it was read may change again without another time or size."""


@dataclass(slots=True)
class Progress:
    """How far the present round is: files with changes, then chunks without vectors. Read by other threads."""

    files_done: int = 0
    files_total: int = 0


class Stopped(Exception):  # noqa: N818 - it is no error
    """The server is closing."""


class FolderIndexer:
    """Works for one thread.

    Several processes may work on the same index: one at a time takes each of the two steps, so that nothing is done
    twice, and no words have to wait for the vectors that another process makes.

    `stopping`: set when the server closes; then `Stopped` is raised.
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
        self.progress = Progress()

    def follow_files(self, index: FileIndex) -> None:
        """Index the words of files that are new or have changed, and take out those that are gone."""
        with self._alone(index.path, "words"):
            with index.read() as connection:
                known = file_rows.files(connection)
            seen = self._folder.scan()
            changed = sorted(path for path, status in seen.items() if not is_known(known.get(path), status))
            self.progress = Progress(files_total=len(changed))
            indexed = 0
            for path in changed:
                self._require_going_on()
                indexed += self._follow_if_possible(index, path, known.get(path))
                self.progress.files_done += 1
                if self.progress.files_done % FILES_PER_REPORT == 0:
                    logger.info("Checked %d of %d files", self.progress.files_done, len(changed))
            if indexed:
                logger.info("Indexed the words of %d files", indexed)
            gone = known.keys() - seen.keys()
            for path in gone:
                self._forget(index, path)
            if gone or known.keys() & changed:
                index.forget_deleted()

    def make_vectors(self, index: FileIndex, interrupted: Callable[[], bool]) -> bool:
        """Make vectors that are missing until there are none, or something is more urgent; False: some are left.

        Raises EmbeddingUnavailableError.
        """
        if not index.vectors_usable:
            return False
        while not interrupted():
            self._require_going_on()
            with self._alone(index.path, "vectors", interrupted) as is_alone:
                if not is_alone:
                    return False
                with index.read() as connection:
                    if not (chunks := file_rows.next_unembedded(connection, CHUNKS_AT_ONCE)):
                        return True
                if not self._embed(index, chunks):
                    return False
        return False

    def _follow_if_possible(self, index: FileIndex, path: str, known: FileState | None) -> bool:
        """Follow a file; one that nothing can be made of stops no other."""
        try:
            return self._follow_file(index, path, known)
        except (VectorMemoryError, Stopped):
            raise
        except Exception as error:
            logger.warning("A file could not be indexed: %s", where(error))
            self._folder.skipped.append(Skipped(path, "it cannot be split into chunks"))
            return False

    def _follow_file(self, index: FileIndex, path: str, known: FileState | None) -> bool:
        """Index the words of a file if its content is another than is known; return whether it is."""
        try:
            data, status = self._folder.read(path)
        except ValidationError:  # gone again, or not to be read: as if it were not there
            if known is not None:
                self._forget(index, path)
            return False
        state = FileState(path, hashlib.sha256(data).hexdigest(), lasting(status), status.size)
        if known is not None and known.hash == state.hash:
            with index.write() as connection:
                file_rows.note_unchanged(connection, state)
            return False
        cut = cut_file(text_of(data), self._indexer.token_counter())
        chunks = [NewChunk(*chunk, text_hash(chunk.text), Counter(terms(chunk.text))) for chunk in cut]
        with index.write() as connection:
            file_rows.replace_file(connection, state, chunks, daily=is_daily(path), vectors=index.vectors_usable)
        return True

    def _forget(self, index: FileIndex, path: str) -> None:
        with index.write() as connection:
            file_rows.delete_file(connection, path, vectors=index.vectors_usable)

    def _embed(self, index: FileIndex, chunks: Sequence[Unembedded]) -> bool:
        """Make the vectors of some chunks; False if that failed and is to be tried another time."""
        fingerprint = self._indexer.fingerprint
        try:
            pieces = [Piece(chunk.text, 0) for chunk in chunks]
            embedded = within(self._seconds_to_embed, lambda: self._indexer.embed(pieces))
        except VectorMemoryError:
            raise
        except Exception as error:  # run-times raise whatever they like; a TimeoutError is ours
            # Not its words: they may quote the text.
            logger.warning("%d chunks could not be embedded: %s", len(chunks), type(error).__name__)
            with index.write() as connection:
                file_rows.note_failure(connection, [chunk.id for chunk in chunks])
            # Others are tried next, and then each of these alone; what fails alone as well has to wait.
            return not isinstance(error, TimeoutError) and chunks[0].failures < FAILURES_AT_ONCE
        with index.write() as connection:
            file_rows.adopt_fingerprint(connection, fingerprint)
            for position, chunk in enumerate(chunks):
                file_rows.add_vectors(connection, chunk.id, vectors_of(embedded, position))
        return True

    def _require_going_on(self) -> None:
        if self._stopping.is_set():
            raise Stopped

    @contextmanager
    def _alone(self, index: Path, step: str, interrupted: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Wait until no other process is at this step of its work on the index; False: something is more urgent.

        A lock goes with the process that has it.
        """
        file = index.with_name(f"{index.name}.{step}.lock")
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            while not (is_alone := lock_if_free(descriptor)) and not interrupted():
                self._require_going_on()
                time.sleep(SECONDS_BETWEEN_TRIES)
            yield is_alone
        finally:
            os.close(descriptor)


def is_known(known: FileState | None, status: FileStatus) -> bool:
    """Whether a file is surely as it was indexed."""
    return known is not None and (known.mtime, known.size) == status


def lasting(status: FileStatus) -> int:
    """Return the time to know a file by; 0 if it may change without showing it, so that it is read again next time."""
    return 0 if time.time_ns() - status.mtime < SURE_SECONDS * NANOSECONDS else status.mtime


def text_hash(text: str) -> str:
    """Return the SHA-256 of a chunk's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def vectors_of(embedded: Embedded, position: int) -> Vectors:
    """Return the vectors of the piece at that position."""
    rows = [row for row, passage in enumerate(embedded.passages) if passage.piece == position]
    vectors: Vectors = embedded.vectors[rows[:PASSAGES]]
    return vectors


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what `work` returns. Raises TimeoutError after so long; the work itself cannot be stopped and goes on."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except Exception as error:  # whatever it is, it is raised where it is waited for
            outcome.set_exception(error)

    threading.Thread(target=run, name="embedding-files", daemon=True).start()
    return outcome.result(seconds)
