"""The index of a folder of Markdown files: a memory in a separate file, which can always be rebuilt from the folder."""

from pathlib import Path

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.disk.filesystem import journal_of, log_index_of, log_of
from vector_memory.storage.sqlite import migrations
from vector_memory.storage.sqlite.connecting import load_vector_search, use_write_ahead_log
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.inspection import extension_version
from vector_memory.storage.sqlite.rows import fetch_value

APPLICATION_ID = 0x43574546
"""Marks the header of an SQLite file as an index, not a memory of sessions."""

VERSION = 7
"""Version of how files are cut. An index of another version is rebuilt."""


class IndexDatabase(Database):
    """The open index. `path` is created when it does not exist.

    Without `vectors`, its tables need no sqlite-vec, and hold none. Raises DatabaseError for a file of another program,
    which is left untouched, and OutdatedIndexError.
    """

    def __init__(self, path: Path, *, dimensions: int, vectors: bool = True) -> None:
        self._vectors = vectors
        # Losses in a power cut are rebuilt from the folder.
        extend = load_vector_search if vectors else nothing_to_load
        super().__init__(path, dimensions=dimensions, synchronous="NORMAL", extend=extend)
        self.create()

    def is_in_place(self) -> bool:
        """Whether the file is still the one that was opened: another process may have rebuilt it."""
        return self._files.are_in_place()

    def _prepare(self, writer: apsw.Connection, dimensions: int) -> None:
        require_ours(writer)
        use_write_ahead_log(writer)
        if int(writer.pragma("user_version")) != VERSION:
            # First: tables without it are those of another program.
            writer.pragma("application_id", APPLICATION_ID)
            writer.pragma("user_version", VERSION)
        if self._vectors:
            super()._prepare(writer, dimensions)
        else:
            migrations.migrate_without_vectors(writer)

    def _is_present(self, connection: apsw.Connection) -> bool:
        require_ours(connection)
        return super()._is_present(connection)


def nothing_to_load(_connection: apsw.Connection) -> None:
    """Prepare a connection for tables without vectors."""


def can_load_vector_search() -> bool:
    """Return whether sqlite-vec can be loaded."""
    try:
        return bool(extension_version())
    except DatabaseError:
        return False


def require_ours(connection: apsw.Connection) -> None:
    """Raise a DatabaseError, having written nothing, if the file is of another program or release."""
    if fetch_value(connection, "select 1 from sqlite_schema limit 1") is None:
        return
    if connection.pragma("application_id") != APPLICATION_ID:
        raise DatabaseError(
            "The index file is a database of another program and was not changed: choose another --db-dir."
        )
    version = int(connection.pragma("user_version"))
    tables = migrations.recorded_version(connection) or 0
    if version > VERSION or tables > migrations.VERSION:
        raise DatabaseError("The index was written by a newer release: restart this server with that release.")
    if (version, tables) != (VERSION, migrations.VERSION):
        raise OutdatedIndexError("The index was written by another release.")


class OutdatedIndexError(DatabaseError):
    """The index was made by another release, or with another model: it must be rebuilt."""


def is_worthless(error: DatabaseError) -> bool:
    """Return whether an error means that the index is damaged or outdated, and must be rebuilt."""
    cause = error.__cause__
    is_damaged = isinstance(error, DamagedError) and cause is None
    is_unusable = isinstance(cause, apsw.SQLError | apsw.CorruptError | apsw.NotADBError | UnicodeDecodeError)
    return is_damaged or is_unusable or isinstance(error, OutdatedIndexError)


def remove_index(path: Path) -> None:
    """Delete an index and what belongs to it. Raises DatabaseError if it is a link, which is not followed."""
    require_own_file(path)
    for file in (path, log_of(path), log_index_of(path), journal_of(path)):
        file.unlink(missing_ok=True)


def require_own_file(path: Path) -> None:
    """Raise a DatabaseError if a link has the name of the index."""
    if path.is_symlink():
        raise DatabaseError("The index file is a link, which is not followed: choose another --db-dir.")
