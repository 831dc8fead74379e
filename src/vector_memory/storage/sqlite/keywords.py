"""The keyword index: BM25 over pieces, which are the chunks of chunked memories and the others as wholes.

BM25 asks how often each term is in each piece, and its statistics are those of the scope that is searched, so that
what else is in the file changes no score. FTS5 says that only row by row to a function in Python, which is too slow,
and takes seconds to overwrite what it knows of a long memory. So the index is one of inverted lists in tables:

- The memories of a session share **blocks**; a block is open for new memories until it has PIECES_PER_BLOCK pieces.
  The pieces of a block are numbered.
- A **posting** says that a term is so many times in such a piece, in 64 bits. Terms are known by a hash: no word of
  the text is here.
- Part of the hash is the term's **bucket**. The postings of a block that are in one bucket make up the row with the id
  `block_id * BUCKETS + bucket`. So a query reads one row a block for each of its terms, and a memory is added to at
  most BUCKETS rows, which stand side by side.
"""

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.guards import DamagedError
from vector_memory.storage.sqlite.rows import fetch_column, fetch_one, fetch_value
from vector_memory.storage.sqlite.scores import best, rounded
from vector_memory.storage.sqlite.terms import terms

K1 = 0.9
"""How much further occurrences of a term in a piece count."""
B = 1.0
"""How much the length of a piece counts, which is the number of its terms."""

PIECES_PER_BLOCK = 128
BUCKETS = 256
COUNT_BITS = 10
NUMBER_BITS = 20
HASH_BITS = 64 - NUMBER_BITS - COUNT_BITS
"""A posting is hash, piece number and count, from the highest bit to the lowest. The bucket is hashed besides."""

MAX_PIECES = 1 << NUMBER_BITS
MAX_COUNT = (1 << COUNT_BITS) - 1
"""A term that is oftener in a piece counts as if it were there so many times."""

MAX_ENTRIES = 1 << 26
"""More pieces than a file can have: what claims to be larger is damaged."""

DAMAGED_KEYWORDS = "The keyword index in the file is damaged: run `vector-memory doctor --fix`."

OUTSIDE = -1
"""The length of a piece that is not in the scope."""

LENGTH = np.dtype("<u4")
POSTING = np.dtype("<u8")
Numbers = NDArray[np.int64]


class Piece(NamedTuple):
    """A chunk, or a memory that is not chunked: then `chunk_id` is None."""

    memory_id: int
    chunk_id: int | None


class Match(NamedTuple):
    """A piece that has at least one of the terms, and its BM25 score, which is above 0."""

    memory_id: int
    chunk_id: int | None
    score: float


class IndexedMemory(NamedTuple):
    """Where a memory's pieces are: `first` is the number of the first one. `lengths` holds LENGTHs."""

    memory_id: int
    block_id: int
    first: int
    lengths: bytes


class Block(NamedTuple):
    """Where further pieces can go; `pieces` is the number of the next one."""

    id: int
    pieces: int


class Words(NamedTuple):
    """What the index says of the pieces of a memory: their LENGTHs in order, and their POSTINGs by bucket."""

    lengths: bytes
    postings: dict[int, bytes]

    @property
    def pieces(self) -> int:
        """The number of pieces."""
        return len(self.lengths) // LENGTH.itemsize


def add(connection: apsw.Connection, memory_id: int, words: Words) -> None:
    """Index a memory by the words of its pieces, which are numbered from 0."""
    block_id, first = _open_block(connection, memory_id)
    end = first + words.pieces
    connection.execute("update keyword_blocks set pieces = ? where id = ?", (end, block_id))
    connection.execute("insert into keyword_memories values (?, ?, ?, ?)", (memory_id, block_id, first, words.lengths))
    connection.executemany(
        """
        insert into keyword_postings values (?, ?)
        on conflict do update set postings = cast(postings || excluded.postings as blob)
        """,
        [(_row_id(block_id, bucket), renumbered(added, first)) for bucket, added in sorted(words.postings.items())],
    )


def remove(connection: apsw.Connection, memory_id: int) -> None:
    """Take a memory out of the index, if it is there. No memory can be deleted before."""
    memory = _indexed_memory(connection, memory_id)
    if memory is None:
        return
    connection.execute("delete from keyword_memories where memory_id = ?", (memory_id,))
    if fetch_value(connection, "select 1 from keyword_memories where block_id = ?", (memory.block_id,)) is None:
        connection.execute("delete from keyword_blocks where id = ?", (memory.block_id,))
        return
    end = memory.first + len(memory.lengths) // LENGTH.itemsize
    kept = []
    for bucket, row in postings_of(connection, memory.block_id).items():
        postings = np.frombuffer(row, POSTING)
        numbers = numbers_of(postings)
        others = postings[(numbers < memory.first) | (numbers >= end)]
        if len(others) < len(postings):
            kept.append((others.tobytes(), _row_id(memory.block_id, bucket)))
    connection.executemany("update keyword_postings set postings = ? where id = ?", kept)
    connection.execute(
        "delete from keyword_postings where id between ? and ? and postings = x''", _row_ids(memory.block_id)
    )


def postings_of(connection: apsw.Connection, block_id: int) -> dict[int, bytes]:
    """Return the POSTINGs of a block, by bucket."""
    sql = "select id, postings from keyword_postings where id between ? and ?"
    return {row_id % BUCKETS: row for row_id, row in connection.execute(sql, _row_ids(block_id))}


def rebuild(connection: apsw.Connection) -> None:
    """Make the whole index again from the text. One memory is held at a time.

    Another number of the schema tells all processes to read anew what they keep of the index in memory.
    """
    connection.execute("delete from keyword_memories")
    connection.execute("delete from keyword_postings")
    connection.execute("delete from keyword_blocks")
    for memory_id in fetch_column(connection, "select id from session_memories order by id"):
        texts = texts_of(connection, memory_id)
        if texts:
            add(connection, memory_id, indexed(texts))
    version = fetch_value(connection, "pragma schema_version")
    connection.execute(f"pragma schema_version = {int(version) + 1}")


def texts_of(connection: apsw.Connection, memory_id: int) -> list[str]:
    """Return the texts of a memory's pieces; none while the chunks of a chunked one are still to be made."""
    rows = fetch_column(
        connection,
        """
        select cast(content as blob) from (
            select content, chunk_index from memory_chunks where parent_id = :id
            union all select content, 0 from session_memories where id = :id and auto_chunk = 0
        ) order by chunk_index
        """,
        {"id": memory_id},
    )
    return [text.decode(errors="replace") for text in rows]


def indexed(texts: Sequence[str], first: int = 0) -> Words:
    """Return what the index says of pieces with these texts, numbered from `first` on.

    This takes most of the time that adding a memory takes, so do it before the transaction.
    """
    lengths = []
    rows = defaultdict[int, list[int]](list)
    for number, text in enumerate(texts, first):
        found = terms(text)
        lengths.append(len(found))
        for term, count in Counter(found).items():
            bucket, hashed = hash_of(term)
            rows[bucket].append(hashed << NUMBER_BITS + COUNT_BITS | number << COUNT_BITS | min(count, MAX_COUNT))
    return Words(
        np.array(lengths, LENGTH).tobytes(),
        {bucket: np.array(row, POSTING).tobytes() for bucket, row in rows.items()},
    )


def renumbered(postings: bytes, first: int) -> bytes:
    """Return the POSTINGs of pieces numbered from 0 as those of pieces numbered from `first` on."""
    return (np.frombuffer(postings, POSTING) + np.uint64(first << COUNT_BITS)).tobytes()


@dataclass(frozen=True, slots=True)
class Ranking:
    """The BM25 scores of the pieces of a scope. `possible`: what no score can exceed, whatever a piece says.

    `scores` has an entry for each piece of the scope's blocks, `starts` the entry of each memory's first piece,
    ascending; `memories` are the ids of the memories in the same order, and `firsts` those of their first pieces.
    """

    memories: NDArray[np.int64]
    firsts: NDArray[np.int64]
    starts: NDArray[np.int64]
    scores: NDArray[np.float64]
    possible: float

    def best(self, connection: apsw.Connection, limit: int) -> list[Match]:
        """Return at most `limit` pieces, best first; of those with equal shares of what is possible, by their ids."""
        entries = np.flatnonzero(self.scores)
        owners = np.searchsorted(self.starts, entries, side="right") - 1
        # The ids of a document's chunks follow each other: they are given in one transaction.
        ids = self.firsts[owners] + entries - self.starts[owners]
        order = best(rounded(self.scores[entries] / self.possible), ids, limit) if len(entries) else entries
        owners, entries = owners[order], entries[order]
        places = list(zip(self.memories[owners].tolist(), (entries - self.starts[owners]).tolist(), strict=True))
        chunk_ids = fetch_column(
            connection,
            """
            select c.id from json_each(?) place
            left join memory_chunks c on c.parent_id = place.value ->> 0 and c.chunk_index = place.value ->> 1
            order by place.key
            """,
            (json.dumps(places),),
        )
        scores = self.scores[entries].tolist()
        return [Match(place[0], chunk, score) for place, chunk, score in zip(places, chunk_ids, scores, strict=True)]

    def scores_of(self, connection: apsw.Connection, pieces: Sequence[Piece]) -> list[float]:
        """Return the score of each of the pieces: 0 if it has none of the terms, or is not in the scope."""
        starts = dict(zip(self.memories.tolist(), self.starts.tolist(), strict=True))
        positions = dict(
            connection.execute(
                "select c.id, c.chunk_index from json_each(?) wanted join memory_chunks c on c.id = wanted.value",
                (json.dumps([piece.chunk_id for piece in pieces]),),
            )
        )
        return [
            float(self.scores[starts[piece.memory_id] + positions.get(piece.chunk_id, 0)])
            if piece.memory_id in starts
            else 0.0
            for piece in pieces
        ]


def rank(connection: apsw.Connection, scope: Scope, wanted: Sequence[str]) -> Ranking:
    """Score the pieces of a scope by BM25, for any of the terms.

    Robertson and Zaragoza 2009, with an idf that is never negative, as in Lucene: `log(1 + (N - n + 0.5) / (n + 0.5))`.
    """
    layout = _layout(connection, scope)
    scores, possible = np.zeros(len(layout.lengths)), 0.0
    for term in wanted:
        entries, counts = _occurrences(connection, layout, term)
        most = highest_score(layout.pieces, len(entries))
        possible += most
        scores[entries] += scores_for(most, counts, layout.lengths[entries] / layout.mean_length)
    return Ranking(layout.memories, layout.firsts, layout.starts, scores, possible)


def highest_score(pieces: int, having: int) -> float:
    """Return what no piece can score for a term that so many of the pieces have."""
    return math.log1p((pieces - having + 0.5) / (having + 0.5)) * (K1 + 1)


def scores_for(highest: float, counts: NDArray[np.integer], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what pieces score for a term by its counts in them; lengths are given as shares of the mean one."""
    scores: NDArray[np.float64] = highest * counts / (counts + K1 * (1 - B + B * lengths))
    return scores


@dataclass(frozen=True, slots=True)
class Layout:
    """The pieces of a scope as entries of arrays: block after block, with the pieces of others between them.

    `lengths`: of each entry, or OUTSIDE. `memories`, `firsts` and `starts`: as in Ranking. `bases`: how many entries
    there are before each block of `block_ids`.
    """

    memories: NDArray[np.int64]
    firsts: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    block_ids: NDArray[np.int64]
    bases: NDArray[np.int64]
    pieces: int
    mean_length: float


def _layout(connection: apsw.Connection, scope: Scope) -> Layout:
    condition = memory_filter(scope)
    rows = connection.execute(
        f"""
        select k.memory_id, k.block_id, k.first_piece, k.lengths,
            coalesce((select min(c.id) from memory_chunks c where c.parent_id = k.memory_id), k.memory_id)
        from session_memories m join keyword_memories k on k.memory_id = m.id
        where {condition.sql} order by k.block_id, k.first_piece
        """,
        condition.bindings,
    ).fetchall()
    memories, blocks, numbers, blobs, firsts = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    block_ids, block_of = np.unique(np.array(blocks, np.int64), return_inverse=True)
    sizes = fetch_column(
        connection,
        "select pieces from json_each(?) wanted cross join keyword_blocks b on b.id = wanted.value",
        (json.dumps(block_ids.tolist()),),
    )
    bases = np.cumsum([0, *sizes])
    pieces = np.array([len(blob) // LENGTH.itemsize for blob in blobs], np.int64)
    _require_room(np.array(sizes, np.int64), block_of, np.array(numbers, np.int64), pieces)
    starts = bases[block_of] + np.array(numbers, np.int64)
    known = np.frombuffer(b"".join(blobs), LENGTH)
    lengths = np.full(bases[-1], OUTSIDE)
    lengths[np.repeat(starts - np.cumsum(pieces) + pieces, pieces) + np.arange(len(known))] = known
    return Layout(
        memories=np.array(memories, np.int64),
        firsts=np.array(firsts, np.int64),
        starts=starts,
        lengths=lengths,
        block_ids=block_ids,
        bases=bases,
        pieces=len(known),
        mean_length=float(known.mean()) if known.any() else 1.0,
    )


def _require_room(sizes: Numbers, block_of: Numbers, firsts: Numbers, pieces: Numbers) -> None:
    """Raise DamagedError unless all memories' pieces are inside their blocks."""
    if (
        len(sizes) <= block_of.max(initial=-1)
        or not (sizes >= 0).all()
        or sizes.sum() > MAX_ENTRIES
        or not ((firsts >= 0) & (firsts + pieces <= sizes[block_of])).all()
    ):
        raise DamagedError(DAMAGED_KEYWORDS)


def _occurrences(connection: apsw.Connection, layout: Layout, term: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the entries of the pieces that have the term, and how often each has it."""
    bucket, hashed = hash_of(term)
    sql = """
        select block.key, p.postings from json_each(?) block
        cross join keyword_postings p on p.id = block.value * ? + ?
    """
    found = connection.execute(sql, (json.dumps(layout.block_ids.tolist()), BUCKETS, bucket)).fetchall()
    blocks: tuple[int, ...]
    rows: tuple[bytes, ...]
    blocks, rows = zip(*found, strict=True) if found else ((), ())
    postings = np.frombuffer(b"".join(rows), POSTING)
    own = np.repeat(np.array(blocks, np.int64), [len(row) // POSTING.itemsize for row in rows])
    hits = hits_in(postings, hashed)
    entries = layout.bases[own[hits]] + numbers_of(postings[hits])
    if (entries >= layout.bases[own[hits] + 1]).any():
        raise DamagedError(DAMAGED_KEYWORDS)
    inside = layout.lengths[entries] != OUTSIDE
    return entries[inside], postings[hits[inside]].astype(np.int64) & MAX_COUNT


def hits_in(postings: NDArray[np.uint64], hashed: int) -> NDArray[np.int64]:
    """Return which of the postings are of the term with this hash."""
    return np.flatnonzero(postings >> np.uint64(NUMBER_BITS + COUNT_BITS) == hashed)


def numbers_of(postings: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the numbers of the pieces that the postings are about."""
    return (postings >> np.uint64(COUNT_BITS)).astype(np.int64) & (1 << NUMBER_BITS) - 1


def _open_block(connection: apsw.Connection, memory_id: int) -> Block:
    """Return the block that a new memory's pieces go to, a new one if need be."""
    session_id = fetch_value(connection, "select session_id from session_memories where id = ?", (memory_id,))
    latest = "select id, pieces from keyword_blocks where session_id is ? order by id desc limit 1"
    block = fetch_one(connection, Block, latest, (session_id,))
    if block is not None and block.pieces < PIECES_PER_BLOCK:
        return block
    new = "insert into keyword_blocks (session_id, pieces) values (?, 0) returning id"
    return Block(int(fetch_value(connection, new, (session_id,))), 0)


def _row_id(block_id: int, bucket: int) -> int:
    return block_id * BUCKETS + bucket


def _row_ids(block_id: int) -> tuple[int, int]:
    return _row_id(block_id, 0), _row_id(block_id, BUCKETS - 1)


def _indexed_memory(connection: apsw.Connection, memory_id: int) -> IndexedMemory | None:
    sql = "select memory_id, block_id, first_piece, lengths from keyword_memories where memory_id = ?"
    return next(map(IndexedMemory._make, connection.execute(sql, (memory_id,)).fetchall()), None)


@lru_cache(maxsize=1 << 16)
def hash_of(term: str) -> tuple[int, int]:
    """Return a term's bucket and its hash."""
    number = int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")
    return number % BUCKETS, number >> 64 - HASH_BITS
