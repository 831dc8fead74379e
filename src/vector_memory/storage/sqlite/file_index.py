"""The index of a folder of Markdown files: a file of its own, made from the folder and therefore never precious.

The vectors of a chunk are numbered from `chunk id * PASSAGES` on, so that no table has to say which are whose. A term
of a chunk is known by a hash: `terms` says how often each is there, `words` how many terms the chunk has.
"""

import logging
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from vector_memory.errors import DatabaseError
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.disk.filesystem import journal_of, log_index_of, log_of
from vector_memory.storage.sqlite.connecting import use_write_ahead_log
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.schema import ERASURE
from vector_memory.storage.sqlite.schema_check import Schema, read_schema
from vector_memory.storage.sqlite.vec0 import load_vector_search, shadow_tables

if TYPE_CHECKING:
    from vector_memory.storage.sqlite.file_contents import Contents

logger = logging.getLogger(__name__)

APPLICATION_ID = 0x43574546
"""What says in the header of an SQLite file that it is one of these."""

VERSION = 6
"""Version of the tables and terms. A file of another version is rebuilt."""

PASSAGES = 1024
"""More passages than a chunk can have."""

TABLES = (
    """
    create table files (
        path text primary key,
        hash text not null,
        mtime integer not null,
        size integer not null,
        indexed_at integer not null
    ) without rowid;
    create table chunks (
        id integer primary key autoincrement,
        path text not null references files (path),
        daily integer not null,
        text text not null,
        start_line integer not null,
        end_line integer not null,
        hash text not null,
        updated_at integer not null,
        words integer not null,
        passages integer,
        failures integer not null default 0,
        terms blob not null
    );
    create index chunks_by_path on chunks (path);
    create index chunks_by_hash on chunks (hash) where passages is not null;
    create index chunks_without_vectors on chunks (failures, id) where passages is null;
    create table model (
        id integer primary key autoincrement,
        model text not null, dimensions integer not null, precision text not null, engine text not null
    );
"""
    + ERASURE
)

VECTOR_TABLE = "chunks_vec"
VECTORS = """
    create virtual table chunks_vec using vec0(
        id integer primary key, daily integer, embedding float[{dimensions}] distance_metric=cosine, chunk_size=256
    )
"""


class FileIndex(Database):
    """The open index. `path` is created when it does not exist; one with other tables is emptied.

    `vectors_usable`: sqlite-vec could be loaded; without it everything goes on by words alone. `contents`: what
    searches know of it (`contents_of`). Raises DatabaseError for a file of another program, which is left untouched.
    """

    def __init__(self, path: Path, *, dimensions: int) -> None:
        self.vectors_usable = True
        self.contents: Contents | None = None
        # What is lost in a power cut is made again from the folder.
        super().__init__(path, dimensions=dimensions, synchronous="NORMAL", extend=self._load_vector_search)
        self.create()

    def is_in_place(self) -> bool:
        """Whether the file is still the one that was opened: another process may have made it anew."""
        return self._full_disk.reading_only or self._files.are_in_place()

    def _prepare(self, writer: apsw.Connection, dimensions: int) -> None:
        require_ours(writer)
        use_write_ahead_log(writer)
        writer.execute("begin immediate")
        try:
            if int(writer.pragma("user_version")) == 0:
                writer.execute(TABLES)
                writer.pragma("application_id", APPLICATION_ID)
                writer.pragma("user_version", VERSION)
            if self.vectors_usable:
                prepare_vectors(writer, dimensions)
            writer.execute("commit")
        except BaseException:
            writer.execute("rollback")
            raise

    def _require_known(self, connection: apsw.Connection) -> None:
        require_ours(connection)

    def _is_present(self, connection: apsw.Connection) -> bool:
        require_ours(connection)
        return bool(connection.pragma("user_version") == VERSION)

    def _load_vector_search(self, connection: apsw.Connection) -> None:
        try:
            load_vector_search(connection)
        except apsw.Error as error:
            if self.vectors_usable:
                logger.warning("sqlite-vec cannot be loaded (%s): searching by words only", type(error).__name__)
            self.vectors_usable = False


def require_ours(connection: apsw.Connection) -> None:
    """Raise a DatabaseError, having written nothing, if the file is of another program or has other tables."""
    if fetch_value(connection, "select 1 from sqlite_schema limit 1") is None:
        return
    if connection.pragma("application_id") != APPLICATION_ID:
        raise DatabaseError(
            "The index file is a database of another program and was not changed: choose another --db-dir."
        )
    version = int(connection.pragma("user_version"))
    if version > VERSION:
        raise DatabaseError("The index was written by a newer release: restart this server with that release.")
    if version != VERSION:
        raise OutdatedIndexError("The index was written by another release.")
    if not is_whole(connection):
        raise OutdatedIndexError("The tables of the index are damaged.")


@cache
def expected_schema() -> Schema:
    """Return what TABLES makes."""
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(TABLES)
        return read_schema(connection)
    finally:
        connection.close()


def is_whole(connection: apsw.Connection) -> bool:
    """Return whether the index has its tables and nothing else; sqlite-vec crashes without its shadow tables."""
    found, wanted = read_schema(connection), expected_schema()
    vectors = {name for name in found if name.startswith(VECTOR_TABLE)}
    shadows = {f"{VECTOR_TABLE}_{suffix}" for suffix in shadow_tables(1)}
    return (
        found.keys() - vectors == wanted.keys()
        and all(thing.is_like(found[name]) for name, thing in wanted.items())
        and vectors in (set(), shadows | {VECTOR_TABLE})
        and all(found[name].type == "table" for name in vectors)
    )


class OutdatedIndexError(DatabaseError):
    """The index has the tables of another release: it must be rebuilt."""


def is_worthless(error: DatabaseError) -> bool:
    """Return whether an error says that the index is damaged or outdated, and must be rebuilt."""
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


def prepare_vectors(connection: apsw.Connection, dimensions: int) -> None:
    """Make the vector table if need be, and take out what was deleted while sqlite-vec could not be loaded."""
    if fetch_value(connection, "select 1 from sqlite_schema where name = 'chunks_vec'") is None:
        connection.execute(VECTORS.format(dimensions=dimensions))
    stored = fetch_value(connection, "select count(*) from chunks_vec")
    if stored == fetch_value(connection, "select coalesce(sum(passages), 0) from chunks"):
        return
    ids = fetch_column(connection, "select id from chunks_vec")
    kept = set(fetch_column(connection, "select id from chunks where passages is not null"))
    gone = [(passage,) for passage in ids if passage // PASSAGES not in kept]
    connection.executemany("delete from chunks_vec where id = ?", gone)
