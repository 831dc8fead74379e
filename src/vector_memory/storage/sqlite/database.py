"""One SQLite file in WAL mode: one writing connection, a pool of reading ones, and one door for each."""

import contextlib
import json
import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import apsw

from vector_memory.errors import ClosedMemoryError, ConfigurationError, DatabaseError, DatabaseLockError, where
from vector_memory.storage.sqlite import migrations
from vector_memory.storage.sqlite.erasure import unerased
from vector_memory.storage.sqlite.extension import load_vector_search
from vector_memory.storage.sqlite.filesystem import make_private_folders, require_local
from vector_memory.storage.sqlite.full_disk import FULL, READING_ONLY, FullDisk, FullDiskError, full_disk_noticed
from vector_memory.storage.sqlite.guards import READING_SECONDS, WRITING_SECONDS, DamagedError, Guard
from vector_memory.storage.sqlite.identity import OpenFiles, bring_log_along, require_no_orphaned_log
from vector_memory.storage.sqlite.lock_table import require_own_log
from vector_memory.storage.sqlite.log_keeper import LogKeeper, erase_at_once
from vector_memory.storage.sqlite.write_lock import LOCK_ADVICE, Turn, WriteLock

logger = logging.getLogger(__name__)

Connection = apsw.Connection
"""What a block of `read` or `write` is given, to be handed to the functions of this package."""

LOCK_TIMEOUT_SECONDS = 30.0
"""Counted from the arrival of the client's call, or for other writers from when they begin to wait."""

SAFE_SQLITE = (3, 51, 3)
"""Older releases can corrupt a WAL file that several processes share."""

MAX_IDLE_READERS = 8

UNUSABLE = "The database contains invalid data: run `vector-memory doctor` to find out what is wrong."
# A statement also fails like this when the disk fails under sqlite-vec, which does not pass the reason on.
BROKEN = (
    "A statement failed, and nothing was changed: check the disk and repeat the call. If that does not help, run "
    "`vector-memory doctor --fix` to repair the tables, or restore a backup."
)
FAILURES: dict[type[apsw.Error], str] = {
    apsw.FullError: FULL,
    apsw.IOError: "The disk reported an error. Nothing was changed; check the disk and repeat the call.",
    apsw.ReadOnlyError: "The database cannot be written: check the permissions of its file and folder.",
    apsw.PermissionsError: "The database cannot be opened: check the permissions of its file and folder.",
    apsw.CantOpenError: "The database cannot be opened: check that its folder exists and is writable.",
    apsw.NotADBError: "The file is not an SQLite database: choose another --database-path.",
    apsw.CorruptError: "The database is damaged: restore it from a backup.",
    apsw.SQLError: BROKEN,
    apsw.MismatchError: migrations.RUN_FIX,
    apsw.InterruptError: (
        "A statement took too long and was stopped; nothing was changed. Run `vector-memory doctor` to check whether "
        "the database is damaged."
    ),
}


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Turn every error of SQLite into one of ours. SQLite's own words can hold SQL or text, so they stay inside."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise DatabaseLockError(LOCK_ADVICE) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DatabaseError("The database contains a text that cannot be read: restore it from a backup.") from error
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        # Nearly all values are checked where they are read; what they say about each other is not.
        logger.error("Invalid value: %s", where(error))  # noqa: TRY400 - a traceback would hold its words
        raise DamagedError(UNUSABLE) from error
    except apsw.Error as error:
        advice = (
            "The database reported an unknown failure. Nothing was changed: check the disk and its free space, "
            "repeat the call, and restore the database from a backup if that does not help."
        )
        raise DatabaseError(FAILURES.get(type(error), advice)) from error


class Database:
    """The open file. Safe to use from several threads; several processes may have the same file open.

    `path` is created with its folder when it does not exist (0600 and 0700). `dimensions` is the length of the vectors
    of a file that is created now. `read_only`: after that, and after an upgrade if there is one, nothing can be
    written. Raises DatabaseError when the file cannot be used, or was written by a newer release; also from each `read`
    and `write` while the file is not the one at `path`, and from each `write` after a newer release upgraded it.

    On a disk that is too full to open the file for writing it is open for reading, until a `write` finds space.
    """

    def __init__(
        self,
        path: Path,
        *,
        dimensions: int,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        read_only: bool = False,
    ) -> None:
        require_safe_sqlite()
        self.path = path
        self._dimensions = dimensions
        self._only_reads = read_only
        self._synchronous = synchronous
        self._write_lock = WriteLock()
        self._idle_readers: list[apsw.Connection] = []
        self._closed = False
        self._full_disk = FullDisk(path, self._extend)
        self._keeper = LogKeeper(path, self._connect_in_place, self._require_in_place, read_only=read_only)
        require_local(path)
        require_own_log(path)
        require_no_orphaned_log(path)
        create_private_file(path)
        with translated_errors():
            self._open()

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written: because that was asked for, or because the disk is full."""
        return self._only_reads or self._full_disk.noticed

    @contextlib.contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Give a connection that sees one unchanging state of the file. Never waits for writers."""
        with translated_errors(), self._reader() as connection:
            connection.execute("begin")
            try:
                yield connection
            except (apsw.SQLError, DatabaseError):
                self._require_known(connection)  # what fails on the tables of a newer release is no damage
                raise
            finally:
                # A disk that has just failed may fail here again, and must not hide what failed first.
                with contextlib.suppress(apsw.Error):
                    connection.execute("rollback")
                if not self._full_disk.noticed:
                    self._keeper.notice()

    @contextlib.contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """Give a connection inside one write transaction: committed at the end of the block, undone on any error.

        `begin immediate` takes the lock at once, so that what the block reads cannot be out of date when it writes.
        Raises DatabaseLockError when another process keeps it for too long, and CancelledCallError when the client has
        cancelled the call that waits.
        """
        if self._only_reads:
            raise DatabaseError("This memory is open for reading only: use a server without --read-only.")
        with translated_errors(), self._write_lock.turn(LOCK_TIMEOUT_SECONDS) as turn:
            if self._full_disk.noticed:
                with self._full_disk.without_readers():
                    self._open()
                self._full_disk.require_space()
            self._begin(turn)
            try:
                self._require_in_place()
                self._require_known(self._writer)
                yield self._writer
                self._writer.execute("commit")
                self._keeper.notice()
            except BaseException:
                # After a full disk SQLite may have rolled back by itself.
                if self._writer.in_transaction:
                    self._writer.execute("rollback")
                raise

    def forget_deleted(self) -> bool:
        """Move the log into the file and empty it, so that deleted bytes are gone from both.

        False: somebody reads what was there before, or keeps writing. Nobody waits for that: the first process that can
        does it later, because the file says that it has to be done.
        """
        try:
            with self._write_lock.turn(LOCK_TIMEOUT_SECONDS):
                return self._erase_deleted()
        except DatabaseLockError:
            return False

    def require_time_to_write(self) -> None:
        """Raise what `write` would raise at once: to be called before a long preparation."""
        self._write_lock.require_time(LOCK_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Close every connection. Waits for a transaction that is under way; repeated calls do nothing.

        Writers that wait are sent away.
        """
        self._keeper.close()
        with self._write_lock.last_turn():
            if self._closed:
                return
            self._closed = True
            if not self.read_only and self._files.are_in_place():
                self._erase_deleted(only_if_needed=True)
            while self._idle_readers:
                self._idle_readers.pop().close()
            if self._full_disk.noticed:
                return
            if not self._only_reads and self._files.left_log_behind():
                with contextlib.suppress(apsw.Error):
                    bring_log_along(self._writer)
            self._writer.close()

    def _begin(self, turn: Turn) -> None:
        """Begin a write transaction. SQLite's own waiting could neither be ended nor be counted with ours."""
        self._writer.set_busy_timeout(0)
        try:
            turn.take(lambda: self._writer.execute("begin immediate"))
        finally:
            wait_for_locks(self._writer)

    def _erase_deleted(self, *, only_if_needed: bool = False) -> bool:
        """Empty the log if nobody reads from it just now. A failure loses nothing: the log is as good as the file."""
        self._writer.set_busy_timeout(0)
        try:
            if not only_if_needed or unerased(self._writer) is not None:
                erase_at_once(self._writer)
        except apsw.Error as error:
            logger.info("Deleted bytes remain in the write-ahead log for now: %s", type(error).__name__)
            return False
        finally:
            wait_for_locks(self._writer)
        return True

    @contextlib.contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        self._require_open()
        if self._full_disk.noticed:
            with self._full_disk.reader() as connection:
                yield connection
            return
        self._require_in_place()
        try:
            connection = self._idle_readers.pop()
        except IndexError:
            connection = self._new_reader()
        try:
            yield connection
        finally:
            if self._closed or len(self._idle_readers) >= MAX_IDLE_READERS:
                connection.close()
            else:
                self._idle_readers.append(connection)

    def _new_reader(self) -> apsw.Connection:
        connection = self._connect_in_place()
        forbid_writes(connection)
        Guard(connection, READING_SECONDS, typed=True)
        return connection

    def _connect_in_place(self) -> apsw.Connection:
        connection = self._connect()
        with closed_on_error(connection):
            self._require_in_place()  # else it may have opened another file
        return connection

    def _require_in_place(self) -> None:
        self._files.require_in_place()

    def _open(self) -> None:
        """Open the file for writing; on a full disk there is no writing connection, but it can be read."""
        try:
            self._writer = writer = self._connect()
            with closed_on_error(writer), full_disk_noticed(writer):
                self._keeper.follow(writer)
                Guard(writer, WRITING_SECONDS, typed=False)
                self._prepare(writer, self._dimensions)
                self._files = OpenFiles(self.path, writer)
                if self._only_reads:
                    forbid_writes(writer)
        except FullDiskError:
            with self._full_disk.reader() as reader:
                if not self._is_present(reader):
                    raise
            if not self._full_disk.noticed:
                logger.error(READING_ONLY)  # noqa: TRY400 - where it happened says nothing more
            self._full_disk.noticed = True
        else:
            self._full_disk.noticed = False

    def _require_known(self, connection: apsw.Connection) -> None:
        """Raise a DatabaseError if a newer release has changed the tables since the file was opened."""
        migrations.require_known(connection)

    def _is_present(self, connection: apsw.Connection) -> bool:
        """Tell whether the file has the tables of this release."""
        return migrations.pending_from(connection) == len(migrations.MIGRATIONS)

    def _prepare(self, writer: apsw.Connection, dimensions: int) -> None:
        """Bring the file to the present schema, or refuse it untouched."""
        migrations.require_ours(writer)
        use_write_ahead_log(writer)
        migrations.migrate(writer, dimensions)

    def _extend(self, connection: apsw.Connection) -> None:
        """Load what the tables of the file need."""
        load_vector_search(connection)
        migrations.let_write(connection)

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedMemoryError

    def _connect(self) -> apsw.Connection:
        # Without the flag to create it: a file that was moved away is not made anew, empty.
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        with closed_on_error(connection), full_disk_noticed(connection):
            wait_for_locks(connection)
            self._extend(connection)
            enforce_foreign_keys(connection)
            overwrite_deleted_bytes(connection)
            set_durability(connection, self._synchronous)
        return connection


@contextlib.contextmanager
def closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    """Close `connection` when the block fails, so that a refused file is not kept open."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def require_safe_sqlite() -> None:
    """Refuse an SQLite that can damage a file which several processes write."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SAFE_SQLITE:
        raise ConfigurationError(
            f"The installed apsw includes SQLite {apsw.sqlite_lib_version()}, which can damage a database that several "
            "processes share: install apsw 3.54 or newer."
        )


def create_private_file(path: Path) -> None:
    """Create the file for its owner only. An existing file is not touched: closing it would drop SQLite's locks."""
    try:
        make_private_folders(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise DatabaseError("The database path is not a file: choose another --database-path.") from None
    except OSError as error:
        raise DatabaseError(f"The database cannot be created ({error.strerror}): choose another path.") from None


def wait_for_locks(connection: apsw.Connection) -> None:
    """Let SQLite wait for other processes instead of failing at once."""
    connection.set_busy_timeout(int(LOCK_TIMEOUT_SECONDS * 1000))


def use_write_ahead_log(connection: apsw.Connection) -> None:
    """Let readers and a writer work side by side. SQLite does not wait for this lock by itself, so repeat."""
    patiently(lambda: connection.pragma("journal_mode", "wal"))


def enforce_foreign_keys(connection: apsw.Connection) -> None:
    """Let chunks and passages go with their memory."""
    connection.pragma("foreign_keys", True)


def overwrite_deleted_bytes(connection: apsw.Connection) -> None:
    """Fill the place of deleted content with zeros: deleted means gone."""
    connection.pragma("secure_delete", True)


def set_durability(connection: apsw.Connection, synchronous: str) -> None:
    """FULL: a commit is on the disk when it returns. NORMAL may lose the last commits in a power cut."""
    connection.pragma("synchronous", synchronous)


def forbid_writes(connection: apsw.Connection) -> None:
    """Make a connection unable to write by mistake."""
    connection.pragma("query_only", True)


def patiently(action: Callable[[], object]) -> None:
    """Repeat `action` while the file is locked, with growing pauses, up to the lock time-out."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    pause = 0.005
    while True:
        try:
            action()
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads processes out, protects nothing
            pause = min(pause * 2, 0.25)
        else:
            return
