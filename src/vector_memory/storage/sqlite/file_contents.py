"""What a process keeps in memory of an index of files, so that a search compares all chunks and reads only its results.

It is valid for one revision of the index. Other processes may change the index at any time; a search then reads it
again. An index that is too large to keep is read by each search.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.scoring import Numbers, Vectors, cosines
from vector_memory.storage.sqlite.file_index import PASSAGES, VECTOR_TABLE, FileIndex
from vector_memory.storage.sqlite.file_rows import COUNT_BITS, MAX_COUNT, POSTING, fingerprint_of, hash_of
from vector_memory.storage.sqlite.rows import fetch
from vector_memory.storage.sqlite.vec0.blocks import all_vectors

KEPT_BYTES = 64_000_000
"""Vectors and postings kept in memory: those of about 12 MB of Markdown."""

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


class ChunkPart(NamedTuple):
    """Neighbouring chunks. `numbers`, shape (4, chunks): id, whether daily, terms, passages.

    `postings`: those of one chunk after another. `ends`: where those of each chunk end.
    """

    numbers: Numbers
    ends: Numbers
    postings: NDArray[np.uint64]


class VectorPart(NamedTuple):
    """Some vectors, shape (vectors, dimensions), and the places of their chunks; the last place is that of no chunk."""

    places: Numbers
    vectors: Vectors


class Contents:
    """The chunks of one revision. Their places are their positions in `ids`, which ascend.

    `daily`: which are of daily logs. `lengths`: their numbers of terms. Methods get a connection that sees this
    revision.
    """

    def __init__(self, connection: apsw.Connection, revision: FileRevision) -> None:
        numbers, kept, size = [np.empty((4, 0), np.int64)], list[ChunkPart](), 0
        for part in read_chunks(connection):
            numbers.append(part.numbers)
            size += part.postings.nbytes
            if size <= KEPT_BYTES:
                kept.append(part)
        self.ids, daily, self.lengths, passages = np.concatenate(numbers, axis=1)
        self.revision = revision
        self.daily = daily.astype(np.bool_)
        self.fingerprint = fingerprint_of(connection)
        self._dimensions = self.fingerprint.dimensions if self.fingerprint else 0
        self._embedded = np.count_nonzero(passages)
        self._is_kept = size + int(passages.sum()) * self._dimensions * 4 <= KEPT_BYTES
        self._chunks = kept if self._is_kept else None
        self._vectors: Sequence[VectorPart] | None = None

    def similarities(self, connection: apsw.Connection, query: Vectors) -> NDArray[np.float64]:
        """Return the cosine of each chunk's nearest passage with the query's unit vector; -inf for those without."""
        highest = np.full(len(self.ids) + 1, -np.inf)
        for places, vectors in self._vector_parts(connection):
            np.maximum.at(highest, places, cosines(vectors, query))
        highest = highest[:-1]
        if np.count_nonzero(highest > -np.inf) != self._embedded:
            raise DamagedError(DAMAGED_INDEX)
        return highest

    def occurrences(self, connection: apsw.Connection, terms: Sequence[str]) -> list[Numbers]:
        """Return for each term the places of the chunks that contain it, and its count in each; shape (2, chunks)."""
        found = [[np.empty((2, 0), np.int64)] for _ in terms]
        hashes = [hash_of(term) for term in terms]
        first = 0
        for _, ends, postings in self._chunks or read_chunks(connection):
            all_hashes = postings >> np.uint64(COUNT_BITS)
            for hashed, parts in zip(hashes, found, strict=True):
                hits = np.flatnonzero(all_hashes == hashed)
                counts = (postings[hits] & np.uint64(MAX_COUNT)).astype(np.int64)
                parts.append(np.stack([first + np.searchsorted(ends, hits, side="right"), counts]))
            first += len(ends)
        return [np.concatenate(parts, axis=1) for parts in found]

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
            places = np.searchsorted(self.ids, owners)
            # A process without sqlite-vec cannot delete the vectors of chunks that it deletes.
            places[self.ids.take(places, mode="clip") != owners] = len(self.ids)
            yield VectorPart(places, vectors)


def read_chunks(connection: apsw.Connection) -> Iterator[ChunkPart]:
    """Read all chunks without their texts, sorted by id."""
    cursor = connection.execute("select id, daily, words, coalesce(passages, 0), terms from chunks order by id")
    while rows := [*islice(cursor, CHUNKS_AT_ONCE)]:
        *columns, terms = zip(*rows, strict=True)
        sizes = np.array([len(packed) for packed in terms])
        if (sizes % POSTING.itemsize).any():
            raise DamagedError(DAMAGED_INDEX)
        postings = np.frombuffer(b"".join(terms), POSTING)
        yield ChunkPart(np.array(columns, np.int64), np.cumsum(sizes) // POSTING.itemsize, postings)


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
