"""The index of a folder of Markdown files: a file of its own, made from the folder and therefore never precious.

The vectors of a chunk are numbered from `chunk id * PASSAGES` on, so that no table has to say which are whose. Chunks
are found by their words with FTS5, which is given the terms of `storage.terms`, ready cut and stemmed.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint
from vector_memory.errors import DatabaseError
from vector_memory.storage.sqlite.database import Database, use_write_ahead_log
from vector_memory.storage.sqlite.erasure import TABLE as ERASURE
from vector_memory.storage.sqlite.erasure import count_delete
from vector_memory.storage.sqlite.extension import load_vector_search
from vector_memory.storage.sqlite.filesystem import journal_of, log_index_of, log_of
from vector_memory.storage.sqlite.guards import DamagedError
from vector_memory.storage.sqlite.rows import fetch, fetch_column, fetch_one, fetch_value
from vector_memory.storage.sqlite.schema_check import SHADOW_TABLES, Schema, read_schema
from vector_memory.storage.sqlite.terms import terms

logger = logging.getLogger(__name__)

APPLICATION_ID = 0x43574546
"""What says in the header of an SQLite file that it is one of these."""

VERSION = 1
"""Of the tables. A file with others is made anew."""

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
        passages integer,
        failures integer not null default 0
    );
    create index chunks_by_path on chunks (path);
    create index chunks_by_hash on chunks (hash) where passages is not null;
    create index chunks_without_vectors on chunks (failures, id) where passages is null;
    create table model (
        model text not null, dimensions integer not null, precision text not null, engine text not null
    );
    create virtual table chunks_fts using fts5(terms, tokenize = "unicode61 remove_diacritics 0 tokenchars '-./:@#_'");
    insert into chunks_fts (chunks_fts, rank) values ('secure-delete', 1);
    create virtual table chunks_terms using fts5vocab(chunks_fts, row);
"""
    + ERASURE
)

VECTOR_TABLE = "chunks_vec"
UNUSED_SHADOWS = {"metadatachunks01", "metadatachunks02", "metadatachunks03"}
"""Only `daily` is beside the vectors."""

VECTORS = """
    create virtual table chunks_vec using vec0(
        id integer primary key, daily integer, embedding float[{dimensions}] distance_metric=cosine, chunk_size=256
    )
"""


class FileState(NamedTuple):
    """A file as it was indexed. `mtime`: in nanoseconds; 0 if the file may have changed since without showing it."""

    path: str
    hash: str
    mtime: int
    size: int


class NewChunk(NamedTuple):
    """A chunk of a file; lines are counted from 1. `hash`: of its text."""

    text: str
    start_line: int
    end_line: int
    hash: str


class Unembedded(NamedTuple):
    """A chunk without vectors. `failures`: how often making them has failed."""

    id: int
    text: str
    failures: int


class Counts(NamedTuple):
    """What the index holds. `indexed_at`: when a file was indexed last, in seconds since 1970. `size`: in bytes."""

    files: int
    chunks: int
    unembedded: int
    indexed_at: int | None
    size: int


class FileIndex(Database):
    """The open index. `path` is created when it does not exist; one with other tables is emptied.

    `vectors_usable`: sqlite-vec could be loaded; without it everything goes on by words alone. Raises DatabaseError
    for a file of another program, which is left untouched.
    """

    def __init__(self, path: Path, *, dimensions: int) -> None:
        self.vectors_usable = True
        # What is lost in a power cut is made again from the folder.
        super().__init__(path, dimensions=dimensions, synchronous="NORMAL")

    def is_in_place(self) -> bool:
        """Whether the file is still the one that was opened: another process may have made it anew."""
        return self._full_disk.noticed or self._files.are_in_place()

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

    def _extend(self, connection: apsw.Connection) -> None:
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
    """Tell whether the index has its tables and nothing else; sqlite-vec crashes without its shadow tables."""
    found, wanted = read_schema(connection), expected_schema()
    vectors = {name for name in found if name.startswith(VECTOR_TABLE)}
    shadows = {f"{VECTOR_TABLE}_{suffix}" for suffix in SHADOW_TABLES.keys() - UNUSED_SHADOWS}
    return (
        found.keys() - vectors == wanted.keys()
        and all(thing.is_like(found[name]) for name, thing in wanted.items())
        and vectors in (set(), shadows | {VECTOR_TABLE})
        and all(found[name].type == "table" for name in vectors)
    )


class OutdatedIndexError(DatabaseError):
    """The index has the tables of another release: it is to be made anew."""


def is_worthless(error: DatabaseError) -> bool:
    """Tell whether an error says that the index is damaged or outdated, so that it has to be made anew."""
    cause = error.__cause__
    if isinstance(cause, apsw.SQLError):
        return "fts5:" not in str(cause)  # which would be about a query
    is_damaged = isinstance(error, DamagedError) and cause is None
    return (
        is_damaged or isinstance(cause, apsw.CorruptError | apsw.NotADBError) or isinstance(error, OutdatedIndexError)
    )


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


def files(connection: apsw.Connection) -> dict[str, FileState]:
    """Return all indexed files by their paths."""
    found = fetch(connection, FileState, "select path, hash, mtime, size from files")
    return {state.path: state for state in found}


def note_unchanged(connection: apsw.Connection, state: FileState) -> None:
    """Note another time of a file whose content is as it was indexed."""
    connection.execute("update files set mtime = ?, size = ? where path = ?", (state.mtime, state.size, state.path))


def replace_file(
    connection: apsw.Connection, state: FileState, chunks: Sequence[NewChunk], *, daily: bool, vectors: bool
) -> None:
    """Put a file's chunks in the place of those it had. With `vectors`, texts that have vectors already keep them."""
    outdated = fetch_column(connection, "select id from chunks where path = ?", (state.path,))
    now = int(time.time())
    connection.execute(
        "insert into files values (?, ?, ?, ?, ?) on conflict (path) do update set hash = excluded.hash, "
        "mtime = excluded.mtime, size = excluded.size, indexed_at = excluded.indexed_at",
        (*state, now),
    )
    for chunk in chunks:
        chunk_id = fetch_value(
            connection,
            "insert into chunks (path, daily, text, start_line, end_line, hash, updated_at) "
            "values (?, ?, ?, ?, ?, ?, ?) returning id",
            (state.path, daily, *chunk, now),
        )
        sql = "insert into chunks_fts (rowid, terms) values (?, ?)"
        connection.execute(sql, (chunk_id, " ".join(terms(chunk.text))))
        if vectors:
            _reuse_vectors(connection, chunk_id, chunk.hash, daily=daily)
    _delete_chunks(connection, outdated, vectors=vectors)


def delete_file(connection: apsw.Connection, path: str, *, vectors: bool) -> None:
    """Take a file out of the index."""
    chunk_ids = fetch_column(connection, "select id from chunks where path = ?", (path,))
    _delete_chunks(connection, chunk_ids, vectors=vectors)
    connection.execute("delete from files where path = ?", (path,))


def next_unembedded(connection: apsw.Connection, limit: int) -> list[Unembedded]:
    """Return chunks without vectors, those that have failed before last and each by itself."""
    sql = "select id, text, failures from chunks where passages is null order by failures, id limit ?"
    found = fetch(connection, Unembedded, sql, (limit,))
    fresh = [chunk for chunk in found if not chunk.failures]
    return fresh or found[:1]


def note_failure(connection: apsw.Connection, chunk_ids: Iterable[int]) -> None:
    """Note that no vectors could be made of some chunks."""
    connection.executemany("update chunks set failures = failures + 1 where id = ?", [(each,) for each in chunk_ids])


def add_vectors(connection: apsw.Connection, chunk_id: int, vectors: NDArray[np.float32]) -> None:
    """Add the vectors of a chunk's passages, shape (passages, dimensions); a chunk that is gone or has some is left."""
    sql = "select daily from chunks where id = ? and passages is null"
    daily = fetch_value(connection, sql, (chunk_id,))
    if daily is not None:
        _insert_vectors(connection, chunk_id, [vector.tobytes() for vector in vectors], daily=daily)


def adopt_fingerprint(connection: apsw.Connection, fingerprint: Fingerprint) -> None:
    """Note what makes the vectors from now on; those that something else has made are thrown away."""
    if fingerprint_of(connection) == fingerprint:
        return
    connection.execute("delete from model")
    connection.execute("insert into model values (?, ?, ?, ?)", fingerprint_row(fingerprint))
    connection.execute("drop table chunks_vec")
    connection.execute(VECTORS.format(dimensions=fingerprint.dimensions))
    connection.execute("update chunks set passages = null, failures = 0")


def fingerprint_row(fingerprint: Fingerprint) -> tuple[str, int, str, str]:
    """Return a fingerprint as a row."""
    return fingerprint.model, fingerprint.dimensions, fingerprint.precision, fingerprint.engine


def fingerprint_of(connection: apsw.Connection) -> Fingerprint | None:
    """Return what made the vectors, or None while there are none."""
    return fetch_one(connection, Fingerprint, "select model, dimensions, precision, engine from model")


def counts(connection: apsw.Connection) -> Counts:
    """Count what the index holds."""
    sql = """
        select (select count(*) from files) as files, (select count(*) from chunks) as chunks,
            (select count(*) from chunks where passages is null) as unembedded,
            (select max(indexed_at) from files) as indexed_at,
            (select page_count * page_size from pragma_page_count(), pragma_page_size()) as size
    """
    return fetch(connection, Counts, sql)[0]


def _reuse_vectors(connection: apsw.Connection, chunk_id: int, text_hash: str, *, daily: bool) -> None:
    """Give a chunk the vectors of another one with the same text, if there is one: of its file as it was, or moved."""
    sql = "select id, passages from chunks where hash = ? and passages is not null limit 1"
    same = fetch_one(connection, _passage_ids, sql, (text_hash,))
    if same:
        select = "select embedding from chunks_vec where id = ?"
        vectors = [fetch_value(connection, select, (passage,)) for passage in same]
        _insert_vectors(connection, chunk_id, vectors, daily=daily)


def _insert_vectors(connection: apsw.Connection, chunk_id: int, vectors: Sequence[bytes], *, daily: bool) -> None:
    rows = zip(_passage_ids(chunk_id, len(vectors)), vectors, strict=True)
    sql = "insert into chunks_vec (id, daily, embedding) values (?, ?, ?)"
    connection.executemany(sql, [(passage, daily, vector) for passage, vector in rows])
    connection.execute("update chunks set passages = ? where id = ?", (len(vectors), chunk_id))


def _delete_chunks(connection: apsw.Connection, chunk_ids: Sequence[int], *, vectors: bool) -> None:
    if chunk_ids:
        count_delete(connection)
    for chunk_id in chunk_ids:
        passages = fetch_value(connection, "select passages from chunks where id = ?", (chunk_id,))
        if vectors and passages:
            gone = [(passage,) for passage in _passage_ids(chunk_id, passages)]
            connection.executemany("delete from chunks_vec where id = ?", gone)
        connection.execute("delete from chunks_fts where rowid = ?", (chunk_id,))
        connection.execute("delete from chunks where id = ?", (chunk_id,))


def _passage_ids(id: int, passages: int) -> range:  # noqa: A002 - the name of the column
    return range(id * PASSAGES, id * PASSAGES + passages)
