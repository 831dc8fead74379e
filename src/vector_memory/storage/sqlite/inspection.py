"""Looking at a file without changing it: what kind of file it is, and what SQLite itself says about it."""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.storage.disk.filesystem import journal_of, log_of
from vector_memory.storage.sqlite import connecting, guards, migrations
from vector_memory.storage.sqlite import legacy as original
from vector_memory.storage.sqlite import schema_repair as remaking
from vector_memory.storage.sqlite.full_disk import FullDiskError, connect_to_read, full_disk_noticed
from vector_memory.storage.sqlite.guards import DamagedError, Guard
from vector_memory.storage.sqlite.rows import fetch_value
from vector_memory.storage.sqlite.vec0 import load_vector_search

T = TypeVar("T")

READ_ONLY = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
LOOKING_SECONDS = 900.0
"""A statement may take so much processor time: comparing the indexes of a gigabyte takes minutes."""

THOROUGH_BYTES = 1 << 30
"""Up to this size indexes are compared with their tables too, which reads everything several times."""

VALUE = re.compile(r"(NULL|NUMERIC|TEXT) value in ")
INDEX = re.compile(r"row \d+ missing from index |wrong # of entries in index |non-unique entry in index ")


class FileKind(StrEnum):
    """What a file is to this release."""

    EMPTY = "empty"
    FOREIGN = "foreign"
    ORIGINAL = "original"
    OLDER = "older"
    PRESENT = "present"
    NEWER = "newer"


def inspect(path: Path, look: Callable[[apsw.Connection], T]) -> T:
    """Return what `look` finds in the file, which is not changed; no file is made beside it. Raises DatabaseError.

    A file without a log is in nobody's use: it is opened as one that nobody changes, because SQLite would make a log
    and leave it there. If somebody changes it meanwhile all the same, it is looked at again.
    """
    while True:
        in_use, before = log_of(path).exists() or journal_of(path).exists(), _marks_of_change(path)
        try:
            with guards.translated_errors(), _opened(path, immutable=not in_use) as connection:
                found = look(connection)
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
        Guard(connection, LOOKING_SECONDS, typed=False)
        connection.execute("begin")  # one state of the file; nothing is ever committed
        yield connection


def _connection(path: Path, *, immutable: bool) -> apsw.Connection:
    uri = f"file:{quote(str(path.absolute()))}" + ("?immutable=1" if immutable else "")
    connection = apsw.Connection(uri, flags=READ_ONLY)
    try:
        with connecting.closed_on_error(connection), full_disk_noticed(connection):
            connection.pragma("schema_version")  # reads something, and so opens the log
    except FullDiskError:
        return connect_to_read(path)
    return connection


def _marks_of_change(path: Path) -> tuple[object, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size, log_of(path).exists()


def file_kind(connection: apsw.Connection) -> FileKind:
    """Tell what the file is; what is damaged counts as one of this release."""
    if migrations.is_ours(connection):
        version, known = migrations.recorded_version(connection), len(migrations.MIGRATIONS)
        if version is not None and version > known:
            return FileKind.NEWER
        return FileKind.PRESENT if version == known or remaking.is_record_wrong(connection) else FileKind.OLDER
    if not migrations.names_of_tables(connection):
        return FileKind.EMPTY
    return FileKind.ORIGINAL if original.is_original(connection) else FileKind.FOREIGN


def kind_of(path: Path) -> FileKind:
    """Tell what the file at `path` is; what is no database at all is foreign. Raises DatabaseError."""
    try:
        return inspect(path, file_kind)
    except DatabaseError as error:
        if isinstance(error.__cause__, apsw.NotADBError):
            return FileKind.FOREIGN
        raise


def damage(connection: apsw.Connection) -> list[str]:
    """Return what is wrong with the structure of the file in SQLite's words, which hold no content."""
    thorough = database_bytes(connection) <= THOROUGH_BYTES
    lines: list[str] = []
    try:
        # One by one: the check may break off after it has said something.
        for (said,) in connection.execute(f"pragma {'integrity_check' if thorough else 'quick_check'}"):
            lines.extend(said.splitlines())
    except (apsw.CorruptError, apsw.NotADBError) as error:
        lines.append(str(error))
    # Values are looked at by themselves; the full-text index of earlier releases is not used any more.
    return [
        line
        for line in lines
        if line != "ok" and not line.startswith("***") and "fts5" not in line.lower() and not VALUE.match(line)
    ]


def is_of_index(line: str) -> bool:
    """Tell whether a line of `damage` says that an index does not fit its table, from which it can be made again."""
    return INDEX.match(line) is not None


def database_bytes(connection: apsw.Connection) -> int:
    """Return the size of the database."""
    return int(fetch_value(connection, "select page_count * page_size from pragma_page_count(), pragma_page_size()"))


def count_orphans(connection: apsw.Connection) -> Counter[str]:
    """Count, by table, the rows that refer to rows which are not there."""
    # A row with two references can miss both.
    rows = {(table, rowid) for table, rowid, *_ in connection.execute("pragma foreign_key_check")}
    return Counter(table for table, _ in rows)


def count_memories(connection: apsw.Connection) -> int:
    """Return how many memories there are. Raises DamagedError if there is no table of them."""
    if "session_memories" not in migrations.names_of_tables(connection):
        raise DamagedError(guards.RUN_FIX)
    return int(fetch_value(connection, "select count(*) from session_memories"))


def extension_version() -> str:
    """Load sqlite-vec as the store does, and return its version. Raises DatabaseError."""
    with guards.translated_errors():
        connection = apsw.Connection(":memory:")
        with contextlib.closing(connection):
            load_vector_search(connection)
            return str(fetch_value(connection, "select vec_version()"))


def sqlite_version() -> str:
    """Return the version of the linked SQLite. Raises ConfigurationError if it is not safe."""
    connecting.require_safe_sqlite()
    return apsw.sqlite_lib_version()
