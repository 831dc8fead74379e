"""What a process keeps in memory of an index of files, so that a search compares all chunks and reads only its results.

It is valid for one revision of the index. Other processes may change the index at any time; a search then reads it
again. An index that is too large to keep is read by each search.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.ranking import Numbers, Vectors, cosines
from vector_memory.storage.sqlite.file_index import PASSAGES, VECTOR_TABLE, FileIndex
from vector_memory.storage.sqlite.file_rows import COUNT_BITS, MAX_COUNT, POSTING, fingerprint_of, hash_of
from vector_memory.storage.sqlite.guards import DamagedError
from vector_memory.storage.sqlite.rows import fetch
from vector_memory.storage.sqlite.vec0.blocks import all_vectors

KEPT_BYTES = 64_000_000
"""Vectors and postings kept in memory: those of about 16 MB of Markdown."""

CHUNKS_AT_ONCE = 4_096

DAMAGED_INDEX = "The index of the memory files is damaged."


class FileRevision(NamedTuple):
    """Shows whether what is known of an index is still valid: equal revisions have equal chunks and vectors.

    A chunk never changes, its id is never reused, and each model gives it vectors once. `model_id`: 0 without vectors.
    """

    last_chunk_id: int
    chunks: int
    unembedded: int
    model_id: int


class PostingPart(NamedTuple):
    """The postings of neighbouring chunks. `first`: the place of the first chunk. `ends`: where those of each end."""

    first: int
    ends: Numbers
    postings: NDArray[np.uint64]


class VectorPart(NamedTuple):
    """Some vectors, shape (vectors, dimensions), and the places of their chunks."""

    places: Numbers
    vectors: Vectors


class Contents:
    """The chunks of one revision. Their places are their positions in `ids`, which ascend.

    `daily`: which are of daily logs. `lengths`: their numbers of terms. Methods get a connection that sees this
    revision.
    """

    def __init__(self, connection: apsw.Connection, revision: FileRevision) -> None:
        sql = "select id, daily, words, coalesce(passages, 0), length(terms) from chunks order by id"
        rows = np.array(connection.execute(sql).fetchall(), np.int64).reshape(-1, 5)
        self.ids, daily, self.lengths, passages, sizes = rows.T
        self.revision = revision
        self.daily = daily.astype(np.bool_)
        self.fingerprint = fingerprint_of(connection)
        self._dimensions = self.fingerprint.dimensions if self.fingerprint else 0
        self._embedded = np.count_nonzero(passages)
        self._is_kept = int(passages.sum()) * self._dimensions * 4 + int(sizes.sum()) <= KEPT_BYTES
        self._postings: Sequence[PostingPart] | None = None
        self._vectors: Sequence[VectorPart] | None = None

    def similarities(self, connection: apsw.Connection, query: Vectors) -> NDArray[np.float64]:
        """Return the cosine of each chunk's nearest passage with the query's unit vector; -inf for those without."""
        highest = np.full(len(self.ids), -np.inf)
        for places, vectors in self._vector_parts(connection):
            np.maximum.at(highest, places, cosines(vectors, query))
        if np.count_nonzero(highest > -np.inf) != self._embedded:
            raise DamagedError(DAMAGED_INDEX)
        return highest

    def occurrences(self, connection: apsw.Connection, terms: Sequence[str]) -> list[Numbers]:
        """Return for each term the places of the chunks that contain it, and its count in each; shape (2, chunks)."""
        found = [[np.empty((2, 0), np.int64)] for _ in terms]
        hashes = [hash_of(term) for term in terms]
        for first, ends, postings in self._posting_parts(connection):
            all_hashes = postings >> np.uint64(COUNT_BITS)
            for hashed, parts in zip(hashes, found, strict=True):
                hits = np.flatnonzero(all_hashes == hashed)
                counts = (postings[hits] & np.uint64(MAX_COUNT)).astype(np.int64)
                parts.append(np.stack([first + np.searchsorted(ends, hits, side="right"), counts]))
        return [np.concatenate(parts, axis=1) for parts in found]

    def _posting_parts(self, connection: apsw.Connection) -> Iterable[PostingPart]:
        if self._postings is not None:
            return self._postings
        parts = posting_parts(connection)
        if self._is_kept:
            parts = self._postings = [*parts]
        return parts

    def _vector_parts(self, connection: apsw.Connection) -> Iterable[VectorPart]:
        if self._vectors is not None:
            return self._vectors
        parts = self._read_vectors(connection)
        if self._is_kept:
            parts = self._vectors = [*parts]
        return parts

    def _read_vectors(self, connection: apsw.Connection) -> Iterable[VectorPart]:
        if not self._embedded:
            return
        for passages, vectors in all_vectors(connection, VECTOR_TABLE, self._dimensions):
            owners = passages // PASSAGES
            # A process without sqlite-vec cannot delete the vectors of chunks that it deletes.
            present = np.isin(owners, self.ids)
            yield VectorPart(np.searchsorted(self.ids, owners[present]), vectors[present])


def posting_parts(connection: apsw.Connection) -> Iterable[PostingPart]:
    """Read the postings of all chunks."""
    first = 0
    cursor = connection.execute("select terms from chunks order by id")
    while rows := [*islice(cursor, CHUNKS_AT_ONCE)]:
        sizes = np.array([len(terms) for (terms,) in rows])
        if (sizes % POSTING.itemsize).any():
            raise DamagedError(DAMAGED_INDEX)
        postings = np.frombuffer(b"".join(terms for (terms,) in rows), POSTING)
        yield PostingPart(first, np.cumsum(sizes) // POSTING.itemsize, postings)
        first += len(rows)


def contents_of(index: FileIndex, connection: apsw.Connection) -> Contents:
    """Return the contents of the connection's snapshot: the ones that are known, if no process changed the index."""
    sql = """
        select coalesce((select seq from sqlite_sequence where name = 'chunks'), 0) as last_chunk_id,
            (select count(*) from chunks) as chunks,
            (select count(*) from chunks where passages is null) as unembedded,
            coalesce((select max(id) from model), 0) as model_id
    """
    (revision,) = fetch(connection, FileRevision, sql)
    contents = index.contents
    if contents is None or contents.revision != revision:
        contents = index.contents = Contents(connection, revision)
    return contents
