"""Inspects a file without changing it: what kind of file it is, and what SQLite reports about it."""

import contextlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.disk.filesystem import journal_of, log_of
from vector_memory.storage.sqlite import connecting, legacy, migrations
from vector_memory.storage.sqlite import rows as errors
from vector_memory.storage.sqlite.connecting import connect_to_read, load_vector_search
from vector_memory.storage.sqlite.rows import fetch_value

T = TypeVar("T")

READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
THOROUGH_BYTES = 1 << 30
"""Up to this size, indexes are also compared with their tables, which reads everything several times."""


class FileKind(StrEnum):
    """What kind of file this is to this release."""

    EMPTY = "empty"
    FOREIGN = "foreign"
    ORIGINAL = "original"
    DEVELOPMENT = "development"
    PRESENT = "present"
    NEWER = "newer"


def inspect(path: Path, read: Callable[[apsw.Connection], T]) -> T:
    """Return what `read` finds in the file. Changes nothing and creates no file next to it. Raises DatabaseError.

    A file without a log is not in use. It is opened as immutable, because SQLite would otherwise create a log and leave
    it behind. If a process changes it in the meantime, it is inspected again.
    """
    while True:
        in_use, before = log_of(path).exists() or journal_of(path).exists(), _marks_of_change(path)
        try:
            with errors.translated_errors(), _opened(path, immutable=not in_use) as connection:
                found = read(connection)
        except DatabaseError:
            if in_use or before == _marks_of_change(path):
                raise
        else:
            if in_use or before == _marks_of_change(path):
                return found


@contextlib.contextmanager
def _opened(path: Path, *, immutable: bool) -> Iterator[apsw.Connection]:
    with contextlib.closing(_connection(path, immutable=immutable)) as connection:
        connecting.wait_for_locks(connection)
        load_vector_search(connection)
        connection.pragma("temp_store", "memory")
        connecting.stop_when_unwanted(connection)
        connection.execute("begin")  # one state of the file; nothing is committed
        yield connection


def _connection(path: Path, *, immutable: bool) -> apsw.Connection:
    uri = f"file:{quote(str(path.absolute()))}" + ("?immutable=1" if immutable else "")
    connection = apsw.Connection(uri, flags=READ_ONLY)
    try:
        with connecting.closed_on_error(connection):
            connection.pragma("schema_version")  # reads something, which opens the log
    except (apsw.IOError, apsw.CantOpenError, apsw.FullError):  # there is no space for the log's index
        return connect_to_read(path)
    return connection


def _marks_of_change(path: Path) -> tuple[object, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size, log_of(path).exists()


def file_kind(connection: apsw.Connection) -> FileKind:
    """Return the kind of the file. A damaged file counts as one of this release."""
    # First: another process may make it one of ours meanwhile, but never the other way round.
    is_empty, is_original = not migrations.names_of_tables(connection), legacy.is_original(connection)
    if migrations.is_ours(connection):
        version = migrations.recorded_version(connection)
        if version is None or version == migrations.VERSION:
            return FileKind.PRESENT
        return FileKind.NEWER if version > migrations.VERSION else FileKind.DEVELOPMENT
    if is_empty:
        return FileKind.EMPTY
    return FileKind.ORIGINAL if is_original else FileKind.FOREIGN


def kind_of(path: Path) -> FileKind:
    """Return the kind of the file at `path`; FOREIGN if it is not a database. Raises DatabaseError."""
    try:
        return inspect(path, file_kind)
    except DatabaseError as error:
        if isinstance(error.__cause__, apsw.NotADBError):
            return FileKind.FOREIGN
        raise


def damage(connection: apsw.Connection) -> list[str]:
    """Return what is wrong with the structure of the file, in SQLite's words, which contain no stored content."""
    thorough = sizes(connection)[0] <= THOROUGH_BYTES
    lines: list[str] = []
    try:
        # One by one: the check may stop after some lines.
        for (text,) in connection.execute(f"pragma {'integrity_check' if thorough else 'quick_check'}"):
            lines.extend(text.splitlines())
    except (apsw.CorruptError, apsw.NotADBError) as error:
        lines.append(str(error))
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def sizes(connection: apsw.Connection) -> tuple[int, int]:
    """Return the bytes of a database, and those of its unused pages."""
    page = int(connection.pragma("page_size"))
    return page * int(connection.pragma("page_count")), page * int(connection.pragma("freelist_count"))


def count_memories(connection: apsw.Connection) -> int:
    """Return the number of memories. Raises DamagedError if their table is missing."""
    if "session_memories" not in migrations.names_of_tables(connection):
        raise DamagedError(errors.RUN_FIX)
    return int(fetch_value(connection, "select count(*) from session_memories"))


def extension_version() -> str:
    """Load sqlite-vec as the store does, and return its version. Raises DatabaseError."""
    with errors.translated_errors():
        connection = apsw.Connection(":memory:")
        with contextlib.closing(connection):
            load_vector_search(connection)
            return str(fetch_value(connection, "select vec_version()"))


def sqlite_version() -> str:
    """Return the version of the linked SQLite. Raises ConfigurationError if it is not safe."""
    connecting.require_safe_sqlite()
    return apsw.sqlite_lib_version()
