"""The index's file: opened on first use, and rebuilt if it is damaged. Losing it loses no memories."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from vector_memory.errors import DatabaseError, DatabaseLockError
from vector_memory.storage.sqlite.file_index import FileIndex, is_worthless, remove_index, require_own_file

logger = logging.getLogger(__name__)

T = TypeVar("T")


class IndexFile:
    """An index that is replaced if it is damaged, by this or another process. Thread-safe.

    It is opened on first use, so a server whose index cannot be opened still offers its other tools. Using it raises
    DatabaseError if it cannot be opened, or if the file belongs to another program.
    """

    def __init__(self, path: Path, dimensions: int) -> None:
        self.path = path
        self._dimensions = dimensions
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
            return FileIndex(self.path, dimensions=self._dimensions)
        except DatabaseError as error:
            if not is_worthless(error):
                raise
            if self._identity() == before:  # otherwise another process has already replaced it
                self._remove()
        return FileIndex(self.path, dimensions=self._dimensions)

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
