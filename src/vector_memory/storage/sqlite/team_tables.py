"""The namespaces and tokens of a data folder, in a file beside the memories."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.settings import DATABASE_NAME
from vector_memory.storage.disk.filesystem import log_of, make_private_folders, size_of
from vector_memory.storage.disk.ignoring import make_own_folder
from vector_memory.storage.sqlite.connecting import closed_on_error, create_private_file, set_up, wait_for_locks
from vector_memory.storage.sqlite.identity import Identity, identity_of
from vector_memory.storage.sqlite.rows import translated_errors
from vector_memory.storage.sqlite.schema import SHARED
from vector_memory.storage.sqlite.transactions import SqliteConnection
from vector_memory.storage.teams import KEY_BYTES, TABLES, Sizes, Teams, TeamTables

FILE = "teams.db"
NAMESPACES = "namespaces"
VERSION = 1

LOST = (
    f"The namespaces and tokens are lost: restore {FILE} in the data folder, or run `vector-memory namespace create "
    "NAME` for each namespace, which keeps its memory, and create the tokens again."
)


class FolderTables(TeamTables):
    """The tables of a folder. They have no write-ahead log: they are small, read often and rarely changed.

    The file is opened again if it was replaced, as by a backup.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._open: apsw.Connection | None = None
        self._identity: Identity | None = None

    @contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Teams]:
        """Read, or change, in a transaction. Raises DatabaseError."""
        with self._lock, translated_errors(), readable():
            raw = self._connection(may_create=writes)
            try:
                with raw:
                    yield FolderTeams(SqliteConnection(raw), self._folder)
            except BaseException:  # the file may have been restored while it is open
                self._close()
                raise

    def _connection(self, *, may_create: bool) -> apsw.Connection:
        path = self._folder / FILE
        identity = identity_of(str(path))
        if self._open is None or identity != self._identity:
            self._close()
            if not may_create and (self._identity or (self._folder / NAMESPACES).exists()) and not size_of(path):
                raise DatabaseError(LOST)
            if identity is None:
                make_own_folder(self._folder)
                create_private_file(path)
            raw = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)
            with closed_on_error(raw):
                wait_for_locks(raw)
                set_up(raw, "FULL")
                if not raw.pragma("user_version"):
                    create(raw)
            self._open, self._identity = raw, identity_of(str(path))
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def address(self, name: str) -> Path:
        """Return the file of a namespace."""
        return self._folder / NAMESPACES / name / DATABASE_NAME

    def has_memory(self, name: str) -> bool:
        """Return whether the folder of a namespace is still there."""
        return self.address(name).parent.is_dir()

    def sizes(self, name: str) -> Sizes:
        """Return the sizes of a namespace's files."""
        path = self.address(name)
        return Sizes(size_of(path), size_of(log_of(path)))


def create(raw: apsw.Connection) -> None:
    """Create the tables and the key, unless another process was faster."""
    with raw:
        raw.pragma("user_version", VERSION)  # first, since SQLite waits for no lock once the file has been read
        raw.execute(TABLES.format_map(SHARED))
        raw.execute("insert or ignore into server_key values (1, ?)", (os.urandom(KEY_BYTES),))


@contextmanager
def readable() -> Iterator[None]:
    """Say which file is damaged, if the block finds that it is."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise DatabaseError(f"Namespaces and tokens cannot be read: restore {FILE} in the data folder.") from error


class FolderTeams(Teams):
    """The namespaces and tokens of a folder."""

    def __init__(self, connection: SqliteConnection, folder: Path) -> None:
        super().__init__(connection)
        self._folder = folder

    def make_memory(self, name: str) -> None:
        """Make the folder of a namespace."""
        make_private_folders(self._folder / NAMESPACES / name)
