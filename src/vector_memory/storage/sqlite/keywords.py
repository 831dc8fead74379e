"""The keyword index: BM25 over units, which are chunks, or whole memories of kinds that are not chunked.

BM25 needs the count of each term in each unit. Its statistics are those of the searched scope, so that other memories
in the file do not change scores. FTS5 returns these counts only row by row to a Python function, which is too slow, and
needs seconds to overwrite the index of a long memory. So this is an inverted index in ordinary tables:

- The memories of a session share **blocks**. A block is open for new memories until it has UNITS_PER_BLOCK units. The
  units of a block are numbered.
- A **posting** is the count of a term in a unit, in 64 bits. Terms are stored as hashes: the index contains no words.
- Part of the hash is the term's **bucket**. The postings of a block in one bucket are stored in the row with the id
  `block_id * BUCKETS + bucket`. So a query reads one row per block and term, and adding a memory changes at most
  BUCKETS rows, which are next to each other.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.sqlite.guards import DamagedError
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_column, fetch_one, fetch_value
from vector_memory.storage.terms import terms

UNITS_PER_BLOCK = 128
BUCKETS = 256
COUNT_BITS = 10
NUMBER_BITS = 20
HASH_BITS = 64 - NUMBER_BITS - COUNT_BITS
"""A posting consists of hash, unit number and count, from the highest bit to the lowest. The bucket is not in it."""

MAX_UNITS = 1 << NUMBER_BITS
MAX_COUNT = (1 << COUNT_BITS) - 1
"""Higher counts of a term in a unit are stored as this one."""

DAMAGED_KEYWORDS = "The keyword index in the file is damaged: run `vector-memory doctor --fix`."

LENGTH = np.dtype("<u4")
POSTING = np.dtype("<u8")


class IndexedMemory(NamedTuple):
    """Where a memory's units are. `first`: the number of its first unit. `lengths`: an array of LENGTH."""

    memory_id: int
    block_id: int
    first: int
    lengths: bytes


class Block(NamedTuple):
    """A block that can take more units; `units` is the number of the next one."""

    id: int
    units: int


class Words(NamedTuple):
    """Index data for the units of a memory: an array of LENGTH, in order, and arrays of POSTING by bucket."""

    lengths: bytes
    postings: dict[int, bytes]

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.lengths) // LENGTH.itemsize


def add(connection: apsw.Connection, memory_id: int, words: Words) -> None:
    """Add a memory to the index. The units of its words are numbered from 0."""
    block_id, first = _open_block(connection, memory_id)
    end = first + words.units
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
    """Remove a memory from the index, if it is there. This must happen before the memory is deleted."""
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
    """Return the postings of a block, as arrays of POSTING by bucket."""
    sql = "select id, postings from keyword_postings where id between ? and ?"
    return {row_id % BUCKETS: row for row_id, row in connection.execute(sql, _row_ids(block_id))}


def rebuild(connection: apsw.Connection) -> None:
    """Rebuild the whole index from the text."""
    connection.execute("delete from keyword_memories")
    connection.execute("delete from keyword_postings")
    connection.execute("delete from keyword_blocks")
    fill(connection)
    begin_epoch(connection)


def fill(connection: apsw.Connection) -> None:
    """Index all memories; none may be indexed yet. One memory is in RAM at a time."""
    for memory_id in fetch_column(connection, "select id from session_memories order by id"):
        texts = texts_of(connection, memory_id)
        if texts:
            add(connection, memory_id, indexed(texts))


def texts_of(connection: apsw.Connection, memory_id: int) -> list[str]:
    """Return the texts of a memory's units; none if it should be chunked but has no chunks yet."""
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
    """Return the index data for units with these texts, numbered from `first` on.

    This takes most of the time that adding a memory takes, so call it before the transaction.
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
    """Return postings of units numbered from 0 as postings of units numbered from `first` on."""
    return postings if first == 0 else (np.frombuffer(postings, POSTING) + np.uint64(first << COUNT_BITS)).tobytes()


def read_postings(
    connection: apsw.Connection, row_ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the postings of those rows that exist, in the given order: for each the position of its row, and itself.

    The query returns them in one row: handing over thousands of rows takes longer than reading them.
    """
    sql = """
        select cast(group_concat(p.postings, '') as blob), group_concat(wanted.key), group_concat(length(p.postings))
        from json_each(?) wanted cross join keyword_postings p on p.id = wanted.value
    """
    rows: list[Any] = connection.execute(sql, (json.dumps(row_ids.tolist()),)).fetchall()
    joined, keys, sizes = rows[0]
    postings = np.frombuffer(joined or b"", POSTING)
    counts = np.fromstring(sizes or "", np.int64, sep=",") // POSTING.itemsize
    if counts.sum() != len(postings):
        raise DamagedError(DAMAGED_KEYWORDS)
    return np.repeat(np.fromstring(keys or "", np.int64, sep=","), counts), postings


def hits_in(postings: NDArray[np.uint64], hashed: int) -> NDArray[np.int64]:
    """Return the positions of the postings of the term with this hash."""
    return np.flatnonzero(hashes_of(postings) == hashed)


def hashes_of(postings: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hashes of the terms of postings."""
    return postings >> np.uint64(NUMBER_BITS + COUNT_BITS)


def numbers_of(postings: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the unit numbers of postings."""
    return (postings >> np.uint64(COUNT_BITS)).astype(np.int64) & (1 << NUMBER_BITS) - 1


def _open_block(connection: apsw.Connection, memory_id: int) -> Block:
    """Return the block for a new memory's units; create one if necessary."""
    session_id = fetch_value(connection, "select session_id from session_memories where id = ?", (memory_id,))
    latest = "select id, pieces as units from keyword_blocks where session_id is ? order by id desc limit 1"
    block = fetch_one(connection, Block, latest, (session_id,))
    if block is not None and block.units < UNITS_PER_BLOCK:
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
