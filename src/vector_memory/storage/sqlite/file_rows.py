"""What the index of a folder of Markdown files holds: files, chunks with their terms, and vectors."""

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint
from vector_memory.storage.sqlite.erasure import count_delete
from vector_memory.storage.sqlite.file_index import PASSAGES, VECTOR_TABLE, VECTORS
from vector_memory.storage.sqlite.rows import fetch, fetch_column, fetch_one, fetch_value

POSTING = np.dtype("<u8")
"""A term of a chunk: its hash and, in the lowest COUNT_BITS, how often it is there."""

COUNT_BITS = 10
MAX_COUNT = (1 << COUNT_BITS) - 1
"""A term that occurs more often counts as if it occurred so often."""


class FileState(NamedTuple):
    """A file as it was indexed. `mtime`: in nanoseconds; 0 if the file may have changed since without showing it."""

    path: str
    hash: str
    mtime: int
    size: int


class NewChunk(NamedTuple):
    """A chunk of a file; lines are counted from 1. `hash`: of its text. `terms`: how often each is in it."""

    text: str
    start_line: int
    end_line: int
    hash: str
    terms: Mapping[str, int]


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


class FileChunks(NamedTuple):
    """The number of chunks of a file, and of those without vectors."""

    chunks: int
    unembedded: int


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
        words = sum(chunk.terms.values()), packed(chunk.terms)
        values = (chunk.text, chunk.start_line, chunk.end_line, chunk.hash, now, *words)
        chunk_id = fetch_value(
            connection,
            "insert into chunks (path, daily, text, start_line, end_line, hash, updated_at, words, terms) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?) returning id",
            (state.path, daily, *values),
        )
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
    sql = "insert into model (model, dimensions, precision, engine) values (?, ?, ?, ?)"
    connection.execute(sql, fingerprint_row(fingerprint))
    connection.execute(f"drop table {VECTOR_TABLE}")
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


def chunks_of(connection: apsw.Connection, path: str) -> FileChunks | None:
    """Count the chunks of a file; None: it is not indexed."""
    sql = """
        select count(c.id) as chunks, count(c.id) - count(c.passages) as unembedded
        from files f left join chunks c on c.path = f.path where f.path = ? group by f.path
    """
    return fetch_one(connection, FileChunks, sql, (path,))


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
        connection.execute("delete from chunks where id = ?", (chunk_id,))


def packed(terms: Mapping[str, int]) -> bytes:
    """Return how often each term is in a chunk, as POSTINGs."""
    postings = [hash_of(term) << COUNT_BITS | min(count, MAX_COUNT) for term, count in terms.items()]
    return np.array(postings, POSTING).tobytes()


def hash_of(term: str) -> int:
    """Return the number that the index knows a term by: 54 bits, so that no two terms of a folder will share one."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little") >> COUNT_BITS


def _passage_ids(id: int, passages: int) -> range:  # noqa: A002 - the name of the column
    return range(id * PASSAGES, id * PASSAGES + passages)
