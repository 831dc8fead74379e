"""One SQLite file in WAL mode: one writing connection and a pool of reading ones."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal

import apsw

from vector_memory.errors import ClosedMemoryError, DatabaseError, DatabaseLockError
from vector_memory.storage.base import Storage
from vector_memory.storage.disk.ignoring import keep_out_of_git
from vector_memory.storage.sqlite import migrations
from vector_memory.storage.sqlite.connecting import (
    UnwritableFile,
    closed_on_error,
    create_private_file,
    erase_if_unread,
    forbid_writes,
    full_disk_detected,
    is_there,
    is_writable,
    keep_log_short,
    load_vector_search,
    noting,
    require_creatable,
    require_safe_sqlite,
    set_up,
    stop_when_unwanted,
    unerased,
    use_write_ahead_log,
    wait_for_locks,
    waiting_at_most,
)
from vector_memory.storage.sqlite.identity import OpenFiles, checkpoint_moved_database
from vector_memory.storage.sqlite.legacy import Cut
from vector_memory.storage.sqlite.rows import fetch_value, translated_errors
from vector_memory.storage.sqlite.transactions import SqliteReader, SqliteWriter
from vector_memory.storage.write_lock import LOCK_TIMEOUT_SECONDS, WriteLock

logger = logging.getLogger(__name__)

NO_UPGRADE = (
    "The database was written by the original server and must be upgraded first, but you may not write to it: open it "
    "once as a user who may."
)

Connection = apsw.Connection
"""What `read` and `write` yield, for the functions of this package."""

Mode = Literal["FULL", "NORMAL"]
"""Of `pragma synchronous`."""


class Database:
    """An open database file. Safe to use from several threads; several processes can have the same file open.

    A file that does not exist is an empty memory: the first `write` creates it with its folder (modes 0600 and 0700).
    `dimensions`: the length of the vectors, for a new file. `read_only`: nothing can be written, except to upgrade an
    older file; the file and its folder need not be writable. `cut`: cuts the documents of a file of the original
    server; without it, the next process that has it does so. `extend`: prepares a connection for the tables. Raises
    DatabaseError if the file cannot be used or a newer release wrote it; so does each `read` and `write` while another
    file is at `path`.
    """

    def __init__(
        self,
        path: Path,
        *,
        dimensions: int,
        synchronous: Mode = "FULL",
        read_only: bool = False,
        cut: Cut | None = None,
        extend: Callable[[apsw.Connection], None] = load_vector_search,
    ) -> None:
        require_safe_sqlite()
        self.path = path
        self._dimensions = dimensions
        self.read_only = read_only
        self._synchronous = synchronous
        self._cut = cut
        self._extend = extend
        self._write_lock = WriteLock((apsw.BusyError, apsw.LockedError))
        self._closed = False
        self._unwritable: UnwritableFile | None = None
        self._purge_follows = False
        self._is_opened = False
        self._readers = ReaderPool(self._new_reader)
        self._opening = threading.Lock()
        with noting(path), translated_errors():
            if not self._opened_if_there() and not read_only:
                require_creatable(path)
        if not read_only and path.parent.is_dir():
            keep_out_of_git(path)

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Yield a connection that sees one state of the file. Never waits for writers."""
        with translated_errors(), self._reader() as connection:
            connection.execute("begin")
            try:
                yield connection
            finally:
                # A failing disk may fail here again; that must not hide the first error.
                with suppress(apsw.Error):
                    connection.execute("rollback")

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """Yield a connection in a write transaction: committed at the end of the block, rolled back on any error.

        `begin immediate` takes the lock at once, so that what the block reads is current when it writes. Raises
        DatabaseLockError if another process holds the lock for too long, CancelledCallError if the client cancels.
        """
        if self.read_only:
            raise DatabaseError("This memory is open for reading only: use a server without --read-only.")
        with translated_errors(), self._write_lock.turn(LOCK_TIMEOUT_SECONDS) as turn:
            self.create()
            with waiting_at_most(self._writer, 0):  # SQLite's own wait could not be cancelled, nor share our time limit
                turn.take(lambda: self._writer.execute("begin immediate"))
            try:
                self._files.require_in_place()
                waiting = unerased(self._writer)
                yield self._writer
                has_deleted = unerased(self._writer) != waiting
                self._writer.execute("commit")
            except BaseException:
                # If the disk is full, SQLite may have rolled back already.
                if self._writer.in_transaction:
                    self._writer.execute("rollback")
                raise
            # Not after each of many deletes: `purge_deleted` follows the last one.
            self._purge_follows |= has_deleted
            if waiting is not None and not self._purge_follows:
                erase_if_unread(self._writer)

    def create(self) -> None:
        """Open the file; create it, without memories, if it does not exist."""
        with translated_errors():
            if self._opened_if_there():
                return
            self._require_open()
            if create_private_file(self.path):
                logger.info("Created the database %s", self.path)
            self._opened_if_there()

    def version(self) -> int:
        """Return a number that changes with every commit of any process; 0 while there is no file."""
        with translated_errors():
            self._require_open()
            if not self._opened_if_there():
                return 0
            if self._unwritable is not None:
                return self._unwritable.version()
            self._files.require_in_place()
            return self._readers.version()

    def purge_deleted(self) -> bool:
        """Move the log into the file and empty it, so that deleted bytes are gone from both.

        False: somebody else is reading or writing. This does not wait: the file records that bytes have to be erased,
        and every process retries after its next write, when it has had nothing to embed for some seconds, and when it
        opens or closes the file.
        """
        if not self._is_opened:
            return True
        try:
            with self._write_lock.turn(LOCK_TIMEOUT_SECONDS):
                self._purge_follows = False
                return erase_if_unread(self._writer)
        except DatabaseLockError:
            return False

    def require_time_to_write(self) -> None:
        """Raise what `write` would raise at once; call this before a long preparation."""
        self._write_lock.require_time(LOCK_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Close every connection after the running transaction, if any; waiting writers get ClosedMemoryError."""
        with self._write_lock.last_turn():
            was_closed, self._closed = self._closed, True
            if was_closed or not self._is_opened:
                return
            if not self.read_only and self._files.are_in_place():
                erase_if_unread(self._writer)
            self._readers.close()
            if self._unwritable is not None:
                return
            if not self.read_only and self._files.left_log_behind():
                with suppress(apsw.Error):
                    checkpoint_moved_database(self._writer)
            self._writer.close()

    def _reader(self) -> AbstractContextManager[apsw.Connection]:
        self._require_open()
        if not self._opened_if_there():
            return empty_memory(self._dimensions, self._extend)
        if self._unwritable is not None:
            return self._unwritable.reader()
        self._files.require_in_place()
        return self._readers.connection()

    def _new_reader(self) -> apsw.Connection:
        self._files.require_in_place()  # closing another file that uses our log would drop our locks on the log's index
        connection = self._connect()
        with closed_on_error(connection):
            self._files.require_in_place()  # otherwise it may have opened another file
            forbid_writes(connection)
            stop_when_unwanted(connection)
        return connection

    def _opened_if_there(self) -> bool:
        """Open the file unless it is open; False: it does not exist."""
        if not self._is_opened:
            with self._opening:
                if not self._is_opened and is_there(self.path):
                    self._open()
                    self._is_opened = True
        return self._is_opened

    def _open(self) -> None:
        """Open the file for writing; without a writing connection if this user may only read it."""
        if self.read_only and not is_writable(self.path):
            self._unwritable = UnwritableFile(self.path, self._extend)
            with self._unwritable.reader() as reader:
                if not self._is_present(reader):
                    raise DatabaseError(NO_UPGRADE)
            return
        self._writer = writer = self._connect()
        with closed_on_error(writer), full_disk_detected(writer):
            keep_log_short(writer)
            stop_when_unwanted(writer)
            self._prepare(writer, self._dimensions)
            self._files = OpenFiles(self.path, writer)
            if self.read_only:
                forbid_writes(writer)
            else:
                erase_if_unread(writer)

    def _is_present(self, connection: apsw.Connection) -> bool:
        """Return whether the file has the tables of this release. Raises DatabaseError for those of another one."""
        return migrations.version_of(connection) == migrations.VERSION

    def _prepare(self, writer: apsw.Connection, dimensions: int) -> None:
        """Upgrade the file to the current schema, or reject it unchanged."""
        migrations.require_ours(writer)
        use_write_ahead_log(writer)
        migrations.migrate(writer, dimensions, self._cut)

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedMemoryError

    def _connect(self) -> apsw.Connection:
        # Without the create flag: if the file was moved away, do not create an empty one.
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        with closed_on_error(connection), full_disk_detected(connection):
            wait_for_locks(connection)
            self._extend(connection)
            set_up(connection, self._synchronous)
        return connection


def shrink_database(path: Path) -> None:
    """Rewrite a database without its unused pages, under its write lock."""
    with translated_errors(), closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        wait_for_locks(connection)
        set_up(connection, "FULL")
        connection.execute("vacuum")
        connection.pragma("wal_checkpoint", "truncate")


# Connections that only read: a pool of them, and those to a file that does not exist yet.

MAX_IDLE = 8


class ReaderPool:
    """Lends connections, and keeps a few that are not in use. Safe to use from several threads."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        """`connect` opens a connection that only reads."""
        self._connect = connect
        self._idle: list[apsw.Connection] = []
        self._watch: apsw.Connection | None = None
        self._watching = threading.Lock()
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[apsw.Connection]:
        """Yield a connection that nobody else uses."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            if self._closed or len(self._idle) >= MAX_IDLE:
                connection.close()
            else:
                self._idle.append(connection)

    def version(self) -> int:
        """Return a number that changes with every commit, as a connection that nobody else uses sees it.

        This takes microseconds.
        """
        with self._watching:
            if self._watch is None:
                self._watch = self._connect()
            return int(fetch_value(self._watch, "pragma data_version"))

    def close(self) -> None:
        """Close the idle connections now, and each of the others after its use."""
        self._closed = True
        with self._watching:
            if self._watch is not None:
                self._watch.close()
        while self._idle:
            self._idle.pop().close()


@lru_cache(maxsize=1)
def new_image(dimensions: int, extend: Callable[[apsw.Connection], None]) -> bytes:
    """Return the bytes of a new file. `extend`: prepares a connection for the tables."""
    with closing(apsw.Connection(":memory:")) as connection:
        extend(connection)
        migrations.migrate(connection, dimensions)
        return connection.serialize("main")


@contextmanager
def empty_memory(dimensions: int, extend: Callable[[apsw.Connection], None]) -> Iterator[apsw.Connection]:
    """Yield a connection to the tables of a new file, in RAM."""
    with closing(apsw.Connection(":memory:")) as connection:
        extend(connection)
        connection.deserialize("main", new_image(dimensions, extend))
        forbid_writes(connection)
        yield connection


# The storage engine over one SQLite file.


# ruff: noqa: D102 - the methods are described in storage.base


class SqliteStorage(Storage):
    """A memory in a file."""

    _database: Database

    @contextmanager
    def read(self) -> Iterator[SqliteReader]:
        with self._database.read() as connection:
            yield SqliteReader(connection)

    @contextmanager
    def write(self) -> Iterator[SqliteWriter]:
        with self._database.write() as connection:
            yield SqliteWriter(connection)

    def purge_deleted(self) -> bool:
        return self._database.purge_deleted()
