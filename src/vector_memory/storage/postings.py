"""The keyword index: BM25 over units, which are chunks, or whole memories of kinds that are not chunked.

BM25 needs the count of each term in each unit. Its statistics are those of the searched scope, so that other memories
do not change scores. The full-text search of SQLite and of PostgreSQL returns no such counts, or too slowly. So this is
an inverted index in ordinary tables:

- The memories of a kind share **blocks**. A block is open for new memories until it has UNITS_PER_BLOCK units. The
  units of a block are numbered. Its row has what is in it: the ids of its memories and of their units (`Contents`).
- A **posting** is the count of a term in a unit, in 64 bits. Terms are stored as hashes: the index contains no words.
- Part of the hash is the term's **bucket**. The postings of a block in one bucket are stored in the row with the id
  `block_id * BUCKETS + bucket`. So a query reads one row per block and term, and adding a memory changes at most
  BUCKETS rows, which are next to each other.

This module knows the postings; the SQL of the tables is in `queries.keywords` and `queries.candidates`.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Chunk
from vector_memory.storage.damaged import DAMAGED_KEYWORDS, DamagedError
from vector_memory.storage.scoring import Numbers, are_in, numbers_in
from vector_memory.texts.terms import searchable_texts, terms

UNITS_PER_BLOCK = 128
LEAST_LEFT = 4
"""A block is given up when at most one unit in this many is left."""

BUCKETS = 256
COUNT_BITS = 10
NUMBER_BITS = 20
HASH_BITS = 64 - NUMBER_BITS - COUNT_BITS
"""A posting consists of hash, unit number and count, from the highest bit to the lowest. The bucket is not in it."""

MAX_COUNT = (1 << COUNT_BITS) - 1
"""Higher counts of a term in a unit are stored as this one."""

ID = np.dtype("<i8")
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


class Contents(NamedTuple):
    """A block's contents, in the order of its units: its memories with their numbers of units, and these units.

    `memory_ids`, `unit_ids`: arrays of ID; the id of what was removed is 0. `sizes`, `lengths` (in terms): of LENGTH.
    """

    memory_ids: bytes = b""
    sizes: bytes = b""
    unit_ids: bytes = b""
    lengths: bytes = b""

    def spans(self) -> dict[int, range]:
        """Return the numbers of the units of each memory, in order. Raises DamagedError."""
        try:
            ids = np.frombuffer(self.memory_ids, ID).tolist()
            ends = np.cumsum(np.frombuffer(self.sizes, LENGTH)).tolist()
            spans = {number: range(*span) for number, span in zip(ids, pairwise([0, *ends]), strict=True) if number}
        except ValueError:
            raise DamagedError(DAMAGED_KEYWORDS) from None
        if not max(ends, default=0) * LENGTH.itemsize == len(self.lengths) == len(self.unit_ids) // 2:
            raise DamagedError(DAMAGED_KEYWORDS)
        return spans

    def without(self, memory_id: int, span: range) -> "Contents":
        """Return the contents without a memory, whose units have these numbers; they are not reused."""
        memory_ids, units, lengths = (
            np.frombuffer(column, kind).copy()
            for column, kind in ((self.memory_ids, ID), (self.unit_ids, ID), (self.lengths, LENGTH))
        )
        memory_ids[memory_ids == memory_id] = units[span.start : span.stop] = lengths[span.start : span.stop] = 0
        return Contents(memory_ids.tobytes(), self.sizes, units.tobytes(), lengths.tobytes())

    def units_at(self, span: range) -> list[int]:
        """Return the ids of units, given their numbers."""
        found: list[int] = np.frombuffer(self.unit_ids, ID)[span.start : span.stop].tolist()
        return found

    def lengths_at(self, span: range) -> bytes:
        """Return the lengths of units, given their numbers."""
        return self.lengths[span.start * LENGTH.itemsize : span.stop * LENGTH.itemsize]

    @property
    def is_sound(self) -> bool:
        """Whether the columns agree."""
        try:
            self.spans()
        except DamagedError:
            return False
        return True

    @property
    def is_sparse(self) -> bool:
        """Whether most units were removed."""
        ids = np.frombuffer(self.unit_ids, ID)
        return bool(np.count_nonzero(ids) * LEAST_LEFT <= len(ids))


def words_at(span: range, contents: Contents, rows: Mapping[int, bytes]) -> Words:
    """Return the words of the units with these numbers in a block, given its rows of postings by id."""
    postings = dict[int, bytes]()
    for number, row in rows.items():
        found = np.frombuffer(row, POSTING)
        numbers = numbers_of(found)
        own = found[(numbers >= span.start) & (numbers < span.stop)] - np.uint64(span.start << COUNT_BITS)
        if len(own):
            postings[number % BUCKETS] = own.tobytes()
    return Words(contents.lengths_at(span), postings)


class PostingRows(NamedTuple):
    """Rows of postings by bucket and block: their sizes in bytes, as JSON, 0 if missing; and their postings."""

    sizes: str | None
    postings: bytes


class Occurrences(NamedTuple):
    """Where terms are: positions of blocks among ascending ones, numbers of units there, and counts in these."""

    blocks: Numbers
    numbers: Numbers
    counts: NDArray[np.uint16]


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
            bucket, hashed = bucket_and_hash(term)
            rows[bucket].append(hashed << NUMBER_BITS + COUNT_BITS | number << COUNT_BITS | min(count, MAX_COUNT))
    return Words(
        np.array(lengths, LENGTH).tobytes(),
        {bucket: np.array(row, POSTING).tobytes() for bucket, row in rows.items()},
    )


def words_of(title: str | None, content: str, chunks: Sequence[Chunk], *, chunked: bool) -> Words:
    """Return the keyword index entries of a memory's units.

    This takes most of the time needed to store a memory, so call it before the transaction.
    """
    return indexed(searchable_texts(title, content, chunks, chunked=chunked))


def renumbered(postings: bytes, first: int) -> bytes:
    """Return postings of units numbered from 0 as postings of units numbered from `first` on."""
    return postings if first == 0 else (np.frombuffer(postings, POSTING) + np.uint64(first << COUNT_BITS)).tobytes()


def rows_to_add(words: Words, block: Block) -> list[dict[str, Any]]:
    """Return the rows of a block, by ascending id, with the postings to append to them."""
    return [
        {"id": row_id(block.id, bucket), "postings": renumbered(added, block.units)}
        for bucket, added in sorted(words.postings.items())
    ]


def without(rows: Mapping[int, bytes], span: range) -> dict[int, bytes]:
    """Return those rows of postings, by id, that have some of these units, without them. Raises DamagedError."""
    sizes, left = np.divmod([len(row) for row in rows.values()], POSTING.itemsize)
    if left.any():
        raise DamagedError(DAMAGED_KEYWORDS)
    postings = np.frombuffer(b"".join(rows.values()), POSTING)  # one by one, rows would take four times as long
    numbers, ends = numbers_of(postings), np.cumsum(sizes)
    is_other = (numbers < span.start) | (numbers >= span.stop)
    changed = np.unique(np.searchsorted(ends, np.flatnonzero(~is_other), "right"))
    ids, starts = list(rows), ends - sizes
    parts = [(ids[place], slice(starts[place], ends[place])) for place in changed.tolist()]
    return {number: postings[part][is_other[part]].tobytes() for number, part in parts}


def occurrences(wanted: Sequence[str], rows: PostingRows, block_count: int) -> list[Occurrences]:
    """Return where each term occurs in so many blocks, given all rows of its bucket there. Raises DamagedError."""
    buckets = buckets_of(wanted)
    ends, postings = placed(rows, len(buckets) * block_count)
    found = []
    for bucket, hashed in map(bucket_and_hash, wanted):
        first = buckets.index(bucket) * block_count
        begin, own = ends[first], ends[first : first + block_count + 1]
        hits = begin + np.flatnonzero(hashes_of(postings[begin : own[-1]]) == hashed)
        blocks = own.searchsorted(hits, "right") - 1
        found.append(Occurrences(blocks, numbers_of(postings[hits]), counts_of(postings[hits])))
    return found


def all_occurrences(rows: PostingRows, block_count: int) -> tuple[Numbers, Occurrences]:
    """Return where each term is that is in so many blocks: the keys of the terms, and beside them the occurrences.

    `rows`: of all buckets. Raises DamagedError.
    """
    ends, postings = placed(rows, BUCKETS * block_count)
    places = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    keys = (places // block_count) << HASH_BITS | hashes_of(postings).astype(np.int64)
    return keys, Occurrences(places % block_count, numbers_of(postings), counts_of(postings))


def placed(rows: PostingRows, count: int) -> tuple[Numbers, Postings]:
    """Return where so many rows begin among the postings and where the last one ends, and the postings.

    Raises DamagedError.
    """
    try:
        sizes = numbers_in(rows.sizes)
        postings = np.frombuffer(rows.postings, POSTING)
    except ValueError:
        raise DamagedError(DAMAGED_KEYWORDS) from None
    if len(sizes) != count or (sizes % POSTING.itemsize).any() or sizes.sum() != len(rows.postings):
        raise DamagedError(DAMAGED_KEYWORDS)
    return np.concatenate([[0], np.cumsum(sizes // POSTING.itemsize)]), postings


def buckets_of(wanted: Sequence[str]) -> list[int]:
    """Return the buckets of terms, ascending."""
    return sorted({bucket for bucket, _ in map(bucket_and_hash, wanted)})


def key_of(term: str) -> int:
    """Return a term's key, its bucket and hash: at least 28 bits, as good as random."""
    bucket, hashed = bucket_and_hash(term)
    return bucket << HASH_BITS | hashed


def row_id(block_id: int, bucket: int) -> int:
    """Return the id of the row with a block's postings in a bucket."""
    return block_id * BUCKETS + bucket


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
def bucket_and_hash(term: str) -> tuple[int, int]:
    """Return a term's bucket and its hash."""
    number = int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")
    return number % BUCKETS, number >> 64 - HASH_BITS


# The units of a scope as arrays, from the blocks of the keyword index (`postings`) that have any of them.


Bools = NDArray[np.bool_]

T = TypeVar("T", bound=np.generic)

OUTSIDE = -1
"""The entry of a unit that is in none of the blocks."""

MAX_GAPS = 8
"""Ids with larger gaps than this, as a multiple of their number, are looked up by bisection, as after a failover."""

MAX_IDS = 4_000_000
"""To look up many, a table of up to this many ids is filled despite gaps: that takes a few milliseconds."""


@dataclass(frozen=True)
class Units:
    """The units of a scope as entries.

    `block_ids`: ascending; `bases`: the number of entries before each block, and of all. Of memories, `memory_ids` (0:
    removed), and their `sizes` in units. Of entries, `ids`, `lengths` in terms, and whether it is `inside` the scope.
    """

    block_ids: Numbers
    bases: Numbers
    memory_ids: Numbers
    sizes: NDArray[np.uint32]
    ids: Numbers
    lengths: NDArray[np.uint32]
    inside: Bools

    @property
    def count(self) -> int:
        """The number of units in the scope."""
        return int(np.count_nonzero(self.inside))

    def entries_at(self, found: Occurrences) -> Numbers:
        """Return the entries of units with occurrences. Raises DamagedError."""
        entries: Numbers = self.bases[found.blocks] + found.numbers
        if (entries >= self.bases[found.blocks + 1]).any():
            raise DamagedError(DAMAGED_KEYWORDS)
        return entries

    def entries_of(self, unit_ids: Numbers) -> Numbers:
        """Return the entries of units, OUTSIDE for those in none of the blocks."""
        if not len(self.ids):
            return np.full(len(unit_ids), OUTSIDE)
        if self._by_id is None:
            found = self._order.take(self.ids[self._order].searchsorted(unit_ids), mode="clip")
            return np.where((self.ids[found] == unit_ids) & (unit_ids != 0), found, OUTSIDE)
        first, entries = self._by_id
        return entries.take(unit_ids - first, mode="clip")

    def by_id(self, values: NDArray[T]) -> Callable[[Numbers], NDArray[T]]:
        """Return what returns the values of many units, given their ids. `values`: of all entries, and of OUTSIDE."""
        used, first, count = self._range
        if count > MAX_IDS:
            return lambda unit_ids: values[self.entries_of(unit_ids)]
        own = np.full(count, values[OUTSIDE])
        own[self.ids[used] - first] = values[used]
        return lambda unit_ids: own.take(unit_ids - first, mode="clip")

    @cached_property
    def _by_id(self) -> tuple[int, Numbers] | None:
        """The entries of all ids from the first, with OUTSIDE at both ends; None: that would be too many."""
        used, first, count = self._range
        if count > MAX_GAPS * len(self.ids):
            return None
        entries = np.full(count, OUTSIDE, np.int64)
        entries[self.ids[used] - first] = used
        return first, entries

    @cached_property
    def _range(self) -> tuple[Numbers, int, int]:
        """The entries with an id, the id before the lowest, and the number of ids from there past the last."""
        used = np.flatnonzero(self.ids)
        there = self.ids[used]
        last = int(there.max(initial=0))
        first = int(there.min(initial=last))
        return used, first - 1, last - first + 3

    @cached_property
    def _order(self) -> Numbers:
        """The entries by ascending id."""
        return np.argsort(self.ids, kind="stable")

    def owners_of(self, entries: Numbers) -> Numbers:
        """Return the ids of the memories of units."""
        found: Numbers = self.memory_ids[np.cumsum(self.sizes, dtype=np.int64).searchsorted(entries, "right")]
        return found

    def of_memories(self, memory_ids: Sequence[int]) -> "Units":
        """Return the same for a scope of these memories."""
        return replace(self, inside=self.belongs_to(memory_ids))

    def without(self, memory_ids: Sequence[int]) -> "Units":
        """Return the same for a scope without these memories."""
        return replace(self, inside=self.inside & ~self.belongs_to(memory_ids))

    def belongs_to(self, memory_ids: Sequence[int]) -> Bools:
        """Return for each entry whether it belongs to these memories."""
        return np.repeat(are_in(np.sort(np.array(memory_ids, np.int64)), self.memory_ids), self.sizes)


def units_in(
    ids: str | None, units: str | None, memory_ids: bytes, sizes: bytes, unit_ids: bytes, lengths: bytes
) -> Units:
    """Return all units of some blocks, in the order of their ids: `ids` and numbers of `units` as JSON, and the rest.

    The rest is what `postings.Contents` has, of all blocks. Raises DamagedError.
    """
    try:
        block_ids, bases = numbers_in(ids), np.concatenate([[0], np.cumsum(numbers_in(units))])
        memories, own = np.frombuffer(memory_ids, ID), np.frombuffer(sizes, LENGTH)
        numbers, terms = np.frombuffer(unit_ids, ID), np.frombuffer(lengths, LENGTH)
    except ValueError:
        raise DamagedError(DAMAGED_KEYWORDS) from None
    # Before the sizes are used: damaged ones would fill the memory.
    if not int(bases[-1]) == own.sum(dtype=np.int64) == len(numbers) == len(terms) or len(own) != len(memories):
        raise DamagedError(DAMAGED_KEYWORDS)
    return Units(block_ids, bases, memories, own, numbers, terms, np.repeat(memories != 0, own))
