"""Keeps the index up to date with the folder: one thread watches, another indexes."""

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vector_memory.errors import ClosedMemoryError, VectorMemoryError, where
from vector_memory.files.folder import MemoryFolder
from vector_memory.files.index_file import FileIndex, FolderIndexer, IndexFile

if TYPE_CHECKING:
    from watchfiles import Change

logger = logging.getLogger(__name__)

SECONDS_TO_WATCH_AGAIN = 60.0
"""Pause after watching has failed."""


class Watcher:
    """Indexes changes in the folder.

    `is_watching`: changes are noticed when they happen; otherwise only `request` notices them. `has_failed`: the last
    request could not be indexed.
    """

    def __init__(
        self, folder: MemoryFolder, index: IndexFile, indexer: FolderIndexer, stopping: threading.Event
    ) -> None:
        self._folder = folder
        self._index = index
        self._indexer = indexer
        self._stopping = stopping
        self._changed = threading.Condition()
        self._requested = 1  # number of requests; the first is to index the folder at start
        self._indexed = 0  # number of the last request whose words are indexed
        self._threads: list[threading.Thread] = []
        self.is_watching = False
        self.is_busy = False
        self.has_failed = False

    def start(self) -> None:
        """Index the folder and then its changes, in the background."""
        if not self._threads:
            loops = (self._index_on_request, self._watch)
            self._threads = [threading.Thread(target=loop, name="memory-files", daemon=True) for loop in loops]
            for thread in self._threads:
                thread.start()

    def stop(self, seconds: float) -> None:
        """Stop both threads once `stopping` is set; wait at most `seconds` for each."""
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(seconds)

    def request(self) -> None:
        """Have the folder checked for changes soon."""
        with self._changed:
            self._requested += 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until the words of all earlier requests are indexed; False: it takes longer or has failed."""
        with self._changed:
            requested = self._requested
            done = self._changed.wait_for(lambda: self._indexed >= requested or self._stopping.is_set(), seconds)
            return done and not self.has_failed

    def _index_on_request(self) -> None:
        while not self._stopping.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._requested > self._indexed or self._stopping.is_set())
            try:
                self.is_busy = True
                self._update_files()
                self._require_same_model()
            except ClosedMemoryError:
                return
            finally:
                self.is_busy = False

    def _update_files(self) -> None:
        requested = self._requested
        succeeded = self._logged(self._indexer.update_files)
        with self._changed:
            self._indexed = requested
            self.has_failed = not succeeded
            self._changed.notify_all()

    def _require_same_model(self) -> None:
        """Rebuild the index if its vectors are from another model, and index all files."""
        if not self.has_failed:
            before = self._index.current()
            self._logged(FileIndex.require_same_model)
            if self._index.current() is not before:
                self.request()

    def _logged(self, work: Callable[[FileIndex], None]) -> bool:
        """Run an action on the index. Log any failure and return False; the next change retries."""
        try:
            self._index.use(work)
        except ClosedMemoryError:
            raise
        except Exception as error:
            if self._stopping.is_set():
                raise ClosedMemoryError from error
            reason = error if isinstance(error, VectorMemoryError) else where(error)
            logger.warning("The memory folder could not be indexed: %s", reason)
            return False
        return True

    def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                for is_watched in follow([self._folder.path], self._matters, self._stopping):
                    self.request()
                    self.is_watching = is_watched
            except Exception as error:  # it raises any error of the system, which must not end the server
                name = type(error).__name__
                logger.warning("The memory folder cannot be watched (%s): each search checks for changes", name)
                self.is_watching = False
                self.request()
                self._stopping.wait(SECONDS_TO_WATCH_AGAIN)

    def _matters(self, _change: "Change", path: str) -> bool:
        """Whether a change may concern a Markdown file. A deleted path may have been a folder of Markdown files."""
        inner = Path(os.path.relpath(path, self._folder.path))
        if any(part.startswith(".") for part in inner.parts):
            return False
        return inner.suffix.lower() == ".md" or not Path(path).is_file()


# Reports changes in folders, which may vanish and reappear, as when Git switches branches.

DEBOUNCE_MS = 2_000
"""Maximum time for which changes are collected."""

QUIET_MS = 500
"""Changes are reported earlier if there are none for this long."""

EXISTENCE_CHECK_MS = 1_000
"""Interval of checks that the watched folders are still the same ones."""

SECONDS_BETWEEN_CHECKS = 1.0
"""Interval of checks for folders of which none exists."""


def follow(
    folders: Collection[Path], matters: Callable[["Change", str], bool], stopping: threading.Event
) -> Iterator[bool]:
    """Yield True once the folders are watched, and after each change that matters, until `stopping`.

    False: a folder was removed, replaced or has reappeared, and is watched again from the next True on. Raises any
    error
    of the system.
    """
    while not stopping.is_set():
        known = {folder: identity(folder) for folder in folders}
        if any(known.values()):
            yield from _while_the_same(known, matters, stopping)
            yield False
        else:
            stopping.wait(SECONDS_BETWEEN_CHECKS)


def _while_the_same(
    known: dict[Path, tuple[int, int] | None], matters: Callable[["Change", str], bool], stopping: threading.Event
) -> Iterator[bool]:
    import watchfiles  # noqa: PLC0415 - only for what follows a folder

    there = [folder for folder, found in known.items() if found]
    is_first = True
    try:
        for changes in watchfiles.watch(
            *there,
            watch_filter=matters,
            debounce=DEBOUNCE_MS,
            step=QUIET_MS,
            stop_event=stopping,
            rust_timeout=EXISTENCE_CHECK_MS,
            yield_on_timeout=True,
        ):
            # A folder that reappears may have the removed one's inode.
            removed = watchfiles.Change.deleted in {change for change, path in changes if Path(path) in known}
            if removed or {folder: identity(folder) for folder in known} != known:
                return
            if changes or is_first:  # the first time: something may have changed just before
                yield True
            is_first = False
    except FileNotFoundError:  # removed in the meantime
        stopping.wait(SECONDS_BETWEEN_CHECKS)


def identity(folder: Path) -> tuple[int, int] | None:
    """Return a folder's device and inode, which change when it is replaced; None if it does not exist."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
