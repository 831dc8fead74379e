"""The keyword index: BM25 over units, which are chunks, or whole memories of kinds that are not chunked.

BM25 needs the count of each term in each unit. Its statistics are those of the searched scope, so that other memories
do not change scores. The full-text search of SQLite and of PostgreSQL returns no such counts, or too slowly. So this is
an inverted index in ordinary tables:

- The memories of a session share **blocks**. A block is open for new memories until it has UNITS_PER_BLOCK units. The
  units of a block are numbered.
- A **posting** is the count of a term in a unit, in 64 bits. Terms are stored as hashes: the index contains no words.
- Part of the hash is the term's **bucket**. The postings of a block in one bucket are stored in the row with the id
  `block_id * BUCKETS + bucket`. So a query reads one row per block and term, and adding a memory changes at most
  BUCKETS rows, which are next to each other.

This module knows the postings; the tables and their SQL are the engine's.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.damaged import DAMAGED_KEYWORDS, DamagedError
from vector_memory.storage.scoring import PLACES_PER_BLOCK, Numbers
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

MAX_BLOCKS = 1 << 24
"""Arrays have an entry for each block, so a higher block number counts as damage."""

LENGTH = np.dtype("<u4")
POSTING = np.dtype("<u8")

Postings = NDArray[np.uint64]


class Words(NamedTuple):
    """Index data for the units of a memory: an array of LENGTH, in order, and arrays of POSTING by bucket."""

    lengths: bytes
    postings: dict[int, bytes]

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.lengths) // LENGTH.itemsize


class Block(NamedTuple):
    """A block that can take more units; `units` is the number of the next one."""

    id: int
    units: int


class PlacedWords(NamedTuple):
    """A row of `keyword_memories`: where a memory's units are, and their lengths, an array of LENGTH."""

    memory_id: int
    block_id: int
    first_unit: int
    lengths: bytes

    @property
    def end(self) -> int:
        """The number after that of the last unit."""
        return self.first_unit + len(self.lengths) // LENGTH.itemsize


class FoundPostings(NamedTuple):
    """The postings in some rows, in the order of the rows: for each the position of its row, and itself."""

    rows: Numbers
    postings: Postings


ReadPostings = Callable[[Numbers], FoundPostings]
"""Returns the postings of those rows that exist, given the ids of rows, which need not ascend."""


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


def rows_to_add(words: Words, block: Block) -> list[dict[str, Any]]:
    """Return the rows of a block, by ascending id, with the postings to append to them."""
    return [
        {"id": row_id(block.id, bucket), "postings": renumbered(added, block.units)}
        for bucket, added in sorted(words.postings.items())
    ]


def without(rows: Mapping[int, bytes], memory: PlacedWords) -> dict[int, bytes]:
    """Return those rows of postings, by id, that have some of a memory, without these. Raises DamagedError."""
    sizes, left = np.divmod([len(row) for row in rows.values()], POSTING.itemsize)
    if left.any():
        raise DamagedError(DAMAGED_KEYWORDS)
    postings = np.frombuffer(b"".join(rows.values()), POSTING)  # one by one, rows would take four times as long
    numbers, ends = numbers_of(postings), np.cumsum(sizes)
    is_other = (numbers < memory.first_unit) | (numbers >= memory.end)
    changed = np.unique(np.searchsorted(ends, np.flatnonzero(~is_other), "right"))
    ids, starts = list(rows), ends - sizes
    parts = [(ids[place], slice(starts[place], ends[place])) for place in changed.tolist()]
    return {number: postings[part][is_other[part]].tobytes() for number, part in parts}


def in_order(positions: Numbers, sizes: Numbers, joined: bytes) -> FoundPostings:
    """Return rows of postings that were read together, in any order.

    `positions`: of the rows among those asked for. `sizes`: the bytes of each row in `joined`. Raises DamagedError.
    """
    counts, left = np.divmod(sizes, POSTING.itemsize)
    if left.any() or sizes.sum() != len(joined):
        raise DamagedError(DAMAGED_KEYWORDS)
    rows, postings = np.repeat(positions, counts), np.frombuffer(joined, POSTING)
    if (positions[1:] < positions[:-1]).any():
        order = np.argsort(rows, kind="stable")
        rows, postings = rows[order], postings[order]
    return FoundPostings(rows, postings)


def occurrences(
    wanted: Sequence[str], blocks: Sequence[Numbers], read: ReadPostings
) -> list[tuple[Numbers, NDArray[np.uint16]]]:
    """Return for each term, in blocks of its own, the places of the units that contain it, and its counts in them.

    All postings are read at once.
    """
    if not wanted:
        return []
    hashes = [hash_of(term) for term in wanted]
    rows, postings = read(rows_with(wanted, blocks))
    starts = np.concatenate(blocks) * PLACES_PER_BLOCK
    ends = np.searchsorted(rows, np.cumsum([len(own) for own in blocks])).tolist()
    found = []
    for begin, end, (_, hashed) in zip([0, *ends], ends, hashes, strict=False):
        hits = begin + hits_in(postings[begin:end], hashed)
        own = postings[hits]
        places = starts[rows[hits]] + numbers_of(own)
        found.append((places, counts_of(own)))
    return found


def rows_with(wanted: Sequence[str], blocks: Sequence[Numbers]) -> Numbers:
    """Return the ids of the rows that have the postings of each term in blocks of its own."""
    row_ids = [own * BUCKETS + hash_of(term)[0] for term, own in zip(wanted, blocks, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *row_ids])


def postings_in(blocks: Numbers, read: ReadPostings) -> tuple[Numbers, Numbers, Numbers, NDArray[np.uint16]]:
    """Return for each posting in some blocks the position of its block, its term's key, its place and its count."""
    rows, postings = read((blocks[:, None] * BUCKETS + np.arange(BUCKETS)).ravel())
    block, bucket = np.divmod(rows, BUCKETS)
    keys = bucket << HASH_BITS | hashes_of(postings).astype(np.int64)
    return block, keys, blocks[block] * PLACES_PER_BLOCK + numbers_of(postings), counts_of(postings)


def key_of(term: str) -> int:
    """Return a number that stands for a term, its bucket and its hash: at least 28 bits, as good as random."""
    bucket, hashed = hash_of(term)
    return bucket << HASH_BITS | hashed


def place_of(block_id: int, first: int) -> int:
    """Return the place of a unit as one number. Raises DamagedError if it is out of range."""
    if not 0 <= first < PLACES_PER_BLOCK or not 0 < block_id < MAX_BLOCKS:
        raise DamagedError(DAMAGED_KEYWORDS)
    return block_id * PLACES_PER_BLOCK + first


def row_id(block_id: int, bucket: int) -> int:
    """Return the id of the row with a block's postings in a bucket."""
    return block_id * BUCKETS + bucket


def hits_in(postings: Postings, hashed: int) -> Numbers:
    """Return the positions of the postings of the term with this hash."""
    return np.flatnonzero(hashes_of(postings) == hashed)


def hashes_of(postings: Postings) -> Postings:
    """Return the hashes of the terms of postings."""
    return postings >> np.uint64(NUMBER_BITS + COUNT_BITS)


def numbers_of(postings: Postings) -> Numbers:
    """Return the unit numbers of postings."""
    return (postings >> np.uint64(COUNT_BITS)).astype(np.int64) & (1 << NUMBER_BITS) - 1


def counts_of(postings: Postings) -> NDArray[np.uint16]:
    """Return how often the terms of postings are in their units."""
    return (postings & np.uint64(MAX_COUNT)).astype(np.uint16)


@lru_cache(maxsize=1 << 16)
def hash_of(term: str) -> tuple[int, int]:
    """Return a term's bucket and its hash."""
    number = int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")
    return number % BUCKETS, number >> 64 - HASH_BITS
