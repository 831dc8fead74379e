"""Keeps the index in step with the folder: one thread watches, another one indexes."""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vector_memory.errors import EmbeddingUnavailableError, VectorMemoryError, where
from vector_memory.files.folder import MemoryFolder
from vector_memory.files.index_file import IndexFile
from vector_memory.files.indexer import FolderIndexer, Stopped
from vector_memory.storage.sqlite.file_index import FileIndex

if TYPE_CHECKING:
    from watchfiles import Change

logger = logging.getLogger(__name__)

DEBOUNCE_MS = 2_000
"""Changes are gathered for so long at most ..."""

QUIET_MS = 500
"""... or until there are none for so long."""

LOOK_MS = 1_000
"""So often it is looked whether the folder is still there."""

SECONDS_BETWEEN_LOOKS = 1.0
"""While there is no folder."""

SECONDS_TO_WATCH_AGAIN = 60.0
"""After the watcher has failed."""

SECONDS_TO_TRY_AGAIN = 300.0
"""After vectors could not be made."""


class Follower:
    """Indexes what changes in the folder.

    `is_watching`: changes are noticed by themselves; otherwise only when they are asked for. `has_failed`: what was
    asked for last could not be indexed.
    """

    def __init__(
        self,
        folder: MemoryFolder,
        index: IndexFile,
        indexer: FolderIndexer,
        stopping: threading.Event,
        seconds_to_try_again: float = SECONDS_TO_TRY_AGAIN,
    ) -> None:
        self._folder = folder
        self._index = index
        self._indexer = indexer
        self._stopping = stopping
        self._seconds_to_try_again = seconds_to_try_again
        self._changed = threading.Condition()
        self._asked = 1  # for the first look, before which nothing is known
        self._followed = 0
        self._threads: list[threading.Thread] = []
        self.is_watching = False
        self.is_busy = False
        self.has_failed = False

    def start(self) -> None:
        """Index what there is, and go on with what changes."""
        if not self._threads:
            loops = (self._index_when_asked, self._watch)
            self._threads = [threading.Thread(target=loop, name="memory-files", daemon=True) for loop in loops]
            for thread in self._threads:
                thread.start()

    def stop(self, seconds: float) -> None:
        """Stop both threads, which are `stopping`; wait for each at most so long."""
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(seconds)

    def ask(self) -> None:
        """Let the folder be looked through soon."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until the words of all that was asked for are indexed; False: it takes longer, or has failed."""
        with self._changed:
            asked = self._asked
            done = self._changed.wait_for(lambda: self._followed >= asked or self._stopping.is_set(), seconds)
            return done and not self.has_failed

    def _index_when_asked(self) -> None:
        vectors_missing = False
        while not self._stopping.is_set():
            with self._changed:
                patience = self._seconds_to_try_again if vectors_missing else None
                self._changed.wait_for(lambda: self._is_asked() or self._stopping.is_set(), patience)
            try:
                self.is_busy = True
                self._follow()
                vectors_missing = not self._make_vectors()
            except Stopped:
                return
            finally:
                self.is_busy = False

    def _follow(self) -> None:
        def work(index: FileIndex) -> bool:
            self._indexer.follow_files(index)
            return True

        asked = self._asked
        followed = self._logged(lambda: self._index.use(work))
        with self._changed:
            self._followed = asked
            self.has_failed = not followed
            self._changed.notify_all()

    def _make_vectors(self) -> bool:
        def work(index: FileIndex) -> bool:
            return self._indexer.make_vectors(index, self._is_asked)

        try:
            return bool(self._logged(lambda: self._index.use(work)))
        except EmbeddingUnavailableError:  # the model has said so in the log
            return False

    def _logged(self, work: Callable[[], object]) -> object:
        """Return what `work` returns; an unforeseen failure is logged, and tried again with the next change."""
        try:
            return work()
        except (Stopped, EmbeddingUnavailableError):
            raise
        except Exception as error:
            if self._stopping.is_set():
                raise Stopped from error
            reason = error if isinstance(error, VectorMemoryError) else where(error)
            logger.warning("The memory folder could not be indexed: %s", reason)
        return None

    def _is_asked(self) -> bool:
        return self._asked > self._followed

    def _watch(self) -> None:
        while not self._stopping.is_set():
            if not self._folder.exists():
                self._stopping.wait(SECONDS_BETWEEN_LOOKS)
                continue
            failed = not self._watch_while_it_lasts()
            self.is_watching = False
            self.ask()
            if failed:
                self._stopping.wait(SECONDS_TO_WATCH_AGAIN)

    def _watch_while_it_lasts(self) -> bool:
        """Watch the folder until it is another one; False: that failed."""
        try:
            self._watch_folder()
        except Exception as error:  # it raises what the system gives it, and that may not end the server
            name = type(error).__name__
            logger.warning("The memory folder cannot be watched (%s): each search checks for changes", name)
            return False
        return True

    def _watch_folder(self) -> None:
        """Ask for a look at each change."""
        import watchfiles  # noqa: PLC0415 - only for a server that offers this

        watched = identity(self._folder.path)
        for changes in watchfiles.watch(
            self._folder.path,
            watch_filter=self._matters,
            debounce=DEBOUNCE_MS,
            step=QUIET_MS,
            stop_event=self._stopping,
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            if changes or not self.is_watching:  # the first time: what has changed before it was watched
                self.ask()
            self.is_watching = True
            if identity(self._folder.path) != watched:
                return

    def _matters(self, _change: "Change", path: str) -> bool:
        """Whether a change may be one of a Markdown file. What is gone may have been a folder of them."""
        inner = Path(os.path.relpath(path, self._folder.path))
        if any(part.startswith(".") for part in inner.parts):
            return False
        return inner.suffix.lower() == ".md" or not Path(path).is_file()


def identity(folder: Path) -> tuple[int, int] | None:
    """Return what tells a folder from another one with its name; None if there is none."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
