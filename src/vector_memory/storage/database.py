"""One SQLite file in WAL mode: one writing connection, a pool of reading ones, and one door for each."""

import contextlib
import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import apsw

from vector_memory.errors import ConfigurationError, DatabaseError, DatabaseLockError
from vector_memory.storage import migrations
from vector_memory.storage.erasure import unerased
from vector_memory.storage.filesystem import require_local
from vector_memory.storage.log_keeper import LogKeeper, erase_at_once

logger = logging.getLogger(__name__)

Connection = apsw.Connection
"""What a block of `read` or `write` is given, to be handed to the functions of this package."""

LOCK_TIMEOUT_SECONDS = 30.0
SAFE_SQLITE = (3, 51, 3)
"""Older releases can corrupt a WAL file that several processes share."""

MAX_IDLE_READERS = 8

LOCK_ADVICE = "Another process kept the database locked for too long. Nothing was changed; repeating the call is safe."
FAILURES: dict[type[apsw.Error], str] = {
    apsw.FullError: "The disk or the database is full. Nothing was changed; free some space and repeat the call.",
    apsw.IOError: "The disk reported an error. Nothing was changed; check the disk and repeat the call.",
    apsw.ReadOnlyError: "The database cannot be written: check the permissions of its file and folder.",
    apsw.PermissionsError: "The database cannot be opened: check the permissions of its file and folder.",
    apsw.CantOpenError: "The database cannot be opened: check that its folder exists and may be written.",
    apsw.NotADBError: "The file is not an SQLite database: choose another --database-path.",
    apsw.CorruptError: "The database is damaged: restore it from a backup.",
}


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Turn every error of SQLite into one of ours. SQLite's own words can hold SQL or text, so they stay inside."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise DatabaseLockError(LOCK_ADVICE) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DatabaseError("The database holds a text that cannot be read: restore it from a backup.") from error
    except apsw.Error as error:
        advice = (
            "The database reported a failure without a name. Nothing was changed: check the disk and its free space, "
            "repeat the call, and restore the database from a backup if that does not help."
        )
        raise DatabaseError(FAILURES.get(type(error), advice)) from error


class Database:
    """The open file. Safe to use from several threads; several processes may have the same file open.

    `path` is created with its folder when it does not exist (0600 and 0700). `dimensions` is the length of the vectors
    of a file that is created now. `read_only`: after that, and after an upgrade if there is one, nothing can be
    written. Raises DatabaseError when the file cannot be used, or was written by a newer release.
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
        self.read_only = read_only
        self._synchronous = synchronous
        self._write_lock = threading.Lock()
        self._idle_readers: list[apsw.Connection] = []
        self._closed = False
        self._keeper = LogKeeper(path, self._connect, read_only=read_only)
        require_local(path)
        create_private_file(path)
        with translated_errors():
            self._writer = self._connect()
            with closed_on_error(self._writer):
                self._keeper.follow(self._writer)
                self._prepare(self._writer, dimensions)
                if read_only:
                    forbid_writes(self._writer)

    @contextlib.contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Give a connection that sees one unchanging state of the file. Never waits for writers."""
        with translated_errors(), self._reader() as connection:
            connection.execute("begin")
            try:
                yield connection
            finally:
                # A disk that has just failed may fail here again, and must not hide what failed first.
                with contextlib.suppress(apsw.Error):
                    connection.execute("rollback")
                self._keeper.notice()

    @contextlib.contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """Give a connection inside one write transaction: committed at the end of the block, undone on any error.

        `begin immediate` takes the lock at once, so that what the block reads cannot be out of date when it writes.
        """
        if self.read_only:
            raise DatabaseError("This memory was opened for reading only: use a server without --read-only.")
        with translated_errors(), self._write_lock:
            self._require_open()
            self._writer.execute("begin immediate")
            try:
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

        False: somebody is reading what was there before. Nobody waits for that: the first process that can does it
        later, because the file says that it has to be done.
        """
        with self._write_lock:
            self._require_open()
            return self._erase_deleted()

    def close(self) -> None:
        """Close every connection. Waits for a transaction that is under way; repeated calls do nothing."""
        self._keeper.close()
        with self._write_lock:
            if self._closed:
                return
            self._closed = True
            if not self.read_only:
                self._erase_deleted(only_if_needed=True)
            while self._idle_readers:
                self._idle_readers.pop().close()
            self._writer.close()

    def _erase_deleted(self, *, only_if_needed: bool = False) -> bool:
        """Empty the log if nobody reads from it just now. A failure loses nothing: the log is as good as the file."""
        self._writer.set_busy_timeout(0)
        try:
            if not only_if_needed or unerased(self._writer) is not None:
                erase_at_once(self._writer)
        except apsw.Error as error:
            logger.info("Deleted bytes stay in the log for now: %s", type(error).__name__)
            return False
        finally:
            wait_for_locks(self._writer)
        return True

    @contextlib.contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        self._require_open()
        try:
            connection = self._idle_readers.pop()
        except IndexError:
            connection = self._connect()
            forbid_writes(connection)
        try:
            yield connection
        finally:
            if self._closed or len(self._idle_readers) >= MAX_IDLE_READERS:
                connection.close()
            else:
                self._idle_readers.append(connection)

    def _prepare(self, writer: apsw.Connection, dimensions: int) -> None:
        """Bring the file to the present schema, or refuse it untouched."""
        migrations.require_ours(writer)
        use_write_ahead_log(writer)
        migrations.migrate(writer, dimensions)

    def _extend(self, connection: apsw.Connection) -> None:
        """Load what the tables of the file need."""
        load_vector_search(connection)

    def _require_open(self) -> None:
        if self._closed:
            raise DatabaseError("The memory store is closed: open it again.")

    def _connect(self) -> apsw.Connection:
        # Without the flag to create it: a file that was moved away is not made anew, empty.
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
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
            f"The installed apsw brings SQLite {apsw.sqlite_lib_version()}, which can damage a database that several "
            "processes share: install apsw 3.54 or newer."
        )


def create_private_file(path: Path) -> None:
    """Create the file for its owner only. An existing file is not touched: closing it would drop SQLite's locks."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise DatabaseError("The database path is not a file: choose another --database-path.") from None
    except OSError as error:
        raise DatabaseError(f"The database cannot be created ({error.strerror}): choose another path.") from None


def wait_for_locks(connection: apsw.Connection) -> None:
    """Let SQLite wait for other processes instead of failing at once."""
    connection.set_busy_timeout(int(LOCK_TIMEOUT_SECONDS * 1000))


def load_vector_search(connection: apsw.Connection) -> None:
    """Load sqlite-vec, then shut the door that lets SQL load extensions."""
    connection.enable_load_extension(True)
    connection.load_extension(vector_search_library())
    connection.enable_load_extension(False)


@cache
def vector_search_library() -> str:
    """Return where sqlite-vec is, without importing its module, which imports numpy: a fifth of a command's start."""
    module = find_spec("sqlite_vec")
    if module is None or module.origin is None:
        raise ConfigurationError("sqlite-vec is not installed: install vector-memory with its dependencies.")
    return str(Path(module.origin).with_name("vec0"))


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
