"""Reads vectors in bulk from the shadow tables of a vec0 table, and checks that the tables are consistent.

No other module names these tables or relies on how sqlite-vec stores vectors, which is not documented: it is a property
of its release VERSION.

sqlite-vec stores the vectors of a vec0 table in blocks of PARTITION_ROWS. A row of `_chunks` contains a bitmap of the
slots in use (`validity`) and the ids of their vectors (`rowids`, 64 bits each). A row of `_rowids` contains the slot of
a vector. sqlite-vec checks the lengths of what it reads but nothing else: a zeroed `validity` hides vectors silently.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.queries.candidates import Weights
from vector_memory.storage.scoring import Numbers, Vectors, numbers_in
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.schema import (
    PARTITION_ROWS,
    SIGNATURE_TABLE,
    SIGNATURES_PER_BLOCK,
    bits_of_signature,
    tables_of,
)
from vector_memory.storage.sqlite.transactions import packed_signatures

VERSION = "0.1.9"
"""The release that this adapter was written for. pyproject.toml requires exactly this one."""

DAMAGED_VECTORS = "The vectors in the file are damaged: run `vector-memory doctor --fix`."

FEW_IN_BLOCK = 8
"""If there are fewer wanted vectors in a block on average, they are read one by one."""

LENGTHS = """
    select count(*) from {table}_chunks
    where typeof(partition00) <> 'integer' or size is not {rows}
        or typeof(validity) <> 'blob' or length(validity) <> {rows} / 8
        or typeof(rowids) <> 'blob' or length(rowids) <> {rows} * 8
"""

BLOCKS = """
    select count(*) from {table}_chunks c left join {table}_{suffix} b on b._rowid_ = c.chunk_id
    where b.rowid is not c.chunk_id or typeof(b.{column}) <> 'blob' or length(b.{column}) <> {length}
"""
"""`rowid` is a column here, and has no type: SQLite would look at all rows for each block."""

SLOTS = """
    select count(*) from {table}_rowids
    where typeof(chunk_id) <> 'integer' or typeof(chunk_offset) <> 'integer'
        or chunk_offset not between 0 and {rows} - 1
"""


class Positioned(NamedTuple):
    """Vectors, and the positions of some of them, with the number that belongs to each of these."""

    numbers: NDArray[np.int64]
    positions: NDArray[np.int64]
    vectors: NDArray[np.float32]


def read_vectors(
    connection: apsw.Connection, table: str, dimensions: int, row_ids: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the row ids that exist, ascending, and their vectors, shape (ids, dimensions). Raises DamagedError."""
    wanted = "select value as id, value as number from json_each(:ids)"
    found = read_selected(connection, table, dimensions, wanted, {"ids": json.dumps(sorted(row_ids))})
    return found.numbers, found.vectors[found.positions]


def read_selected(
    connection: apsw.Connection, table: str, dimensions: int, select: str, parameters: Mapping[str, Any]
) -> Positioned:
    """Return the vectors of the rows that a query names: it returns their ids as `id`, and a `number` for each.

    Where vectors are neighbours, as those of a session, whole blocks are read: in a tenth of the time that asking vec0
    for each of them takes. Raises DamagedError if a block is missing or has the wrong length.
    """
    # In one row: thousands of rows would be checked one by one.
    sql = f"""
        select count(*), group_concat(wanted.number), group_concat(r.chunk_id), group_concat(r.chunk_offset)
        from ({select}) wanted cross join {table}_rowids r on r.rowid = wanted.id
    """
    rows: list[Any] = connection.execute(sql, parameters).fetchall()
    count, *columns = rows[0]
    try:
        numbers, blocks, offsets = map(numbers_in, columns)
    except ValueError:
        raise DamagedError(DAMAGED_VECTORS) from None
    if not count:
        return Positioned(numbers, blocks, np.empty((0, dimensions), np.float32))
    if {len(numbers), len(blocks), len(offsets)} != {count} or offsets.min() < 0 or offsets.max() >= PARTITION_ROWS:
        raise DamagedError(DAMAGED_VECTORS)
    known, positions = np.unique(blocks, return_inverse=True)
    if len(blocks) < FEW_IN_BLOCK * len(known):
        few = np.empty((len(blocks), dimensions), np.float32)
        read_blocks(connection, f"{table}_vector_chunks00", "vectors", blocks.tolist(), few, offsets.tolist())
        return Positioned(numbers, np.arange(len(blocks)), few)
    vectors = np.empty((len(known), PARTITION_ROWS, dimensions), np.float32)
    read_blocks(connection, f"{table}_vector_chunks00", "vectors", known.tolist(), vectors)
    return Positioned(numbers, positions * PARTITION_ROWS + offsets, vectors.reshape(-1, dimensions))


def read_blocks(
    connection: apsw.Connection,
    table: str,
    column: str,
    row_ids: Sequence[int],
    target: NDArray[np.generic],
    offsets: Sequence[int] | None = None,
) -> None:
    """Read a column of some rows of a shadow table into an array: all of each, or one item of each, at its offset.

    One open blob serves for all of them; asking vec0 would open two for each vector. Raises DamagedError.
    """
    if not row_ids:
        return
    size, buffer = target.strides[0], target.data.cast("B")
    try:
        with connection.blob_open("main", table, column, row_ids[0], writeable=False) as blob:
            for position, row_id in enumerate(row_ids):
                blob.reopen(row_id)
                if offsets is not None:
                    blob.seek(offsets[position] * size)
                elif blob.length() != size:
                    raise DamagedError(DAMAGED_VECTORS)
                blob.read_into(buffer, position * size, size)
    except (apsw.SQLError, ValueError, TypeError, OverflowError):
        raise DamagedError(DAMAGED_VECTORS) from None


def uneven_tables(connection: apsw.Connection, model_id: int) -> list[str]:
    """Return the tables of a model with more or fewer vectors than there are passages that should have one there."""
    sql = f"""
        select (select count(*) from {{0}}_rowids)
            <> (select count(*) from memory_passages where model_id = {model_id} and {{1}})
    """
    which = zip(tables_of(model_id), ("chunk_id is not null", "chunk_id is null", "true"), strict=True)
    return [table for table, condition in which if fetch_value(connection, sql.format(table, condition))]


def are_blocks_consistent(connection: apsw.Connection, table: str, dimensions: int) -> bool:
    """Return whether sqlite-vec can use a vec0 table and finds all its vectors. Reads no vectors."""
    is_signatures = table.startswith(SIGNATURE_TABLE)
    rows = SIGNATURES_PER_BLOCK if is_signatures else PARTITION_ROWS
    size = bits_of_signature(dimensions) // 8 if is_signatures else dimensions * 4
    units = [("metadatachunks00", "data", rows * 8)] if is_signatures else []
    blocks = [("vector_chunks00", "vectors", rows * size), *units]
    queries = [
        LENGTHS.format(table=table, rows=rows),
        SLOTS.format(table=table, rows=rows),
        *(BLOCKS.format(table=table, suffix=suffix, column=name, length=size) for suffix, name, size in blocks),
    ]
    return not any(fetch_value(connection, sql) for sql in queries) and _are_slots_consistent(connection, table, rows)


def _are_slots_consistent(connection: apsw.Connection, table: str, rows: int) -> bool:
    """Return whether `_chunks` and `_rowids` agree on the slots of all vectors. Their lengths must be correct."""
    blocks: list[Any] = connection.execute(f"select chunk_id, validity, rowids from {table}_chunks").fetchall()
    validity = np.frombuffer(b"".join(row[1] for row in blocks), np.uint8)
    taken = np.unpackbits(validity, bitorder="little").astype(np.bool_).reshape(-1, rows)
    rowids = np.frombuffer(b"".join(row[2] for row in blocks), np.int64).reshape(-1, rows)
    block, offset = np.nonzero(taken)
    numbers = np.array([row[0] for row in blocks], np.int64)
    slots = np.stack([rowids[taken], numbers[block], offset], axis=1)
    known = connection.execute(f"select rowid, chunk_id, chunk_offset from {table}_rowids order by rowid")
    # Not as tuples, which would take several times the memory.
    kept = np.fromiter(chain.from_iterable(known), np.int64).reshape(-1, 3)
    return np.array_equal(slots[np.argsort(slots[:, 0], kind="stable")], kept)


# Finds the likeliest passages by the signatures of their vectors, which a vec0 table keeps with the ids of units.
#
# A signature has one bit for each number of a vector: whether it is above 0. The more bits two signatures share, the
# nearer their vectors usually are (Charikar 2002). A million signatures are 48 MB, which are read in portions; the
# vectors would be 1.5 GB.

BLOCKS_AT_ONCE = 8
"""Blocks compared at a time, so that intermediate results stay in the processor's cache."""

OVERSAMPLING = 4
"""For each requested passage, this many are chosen by the first estimate and ranked by the second."""

NEAREST_SHARE = 4
"""One in this many of the requested passages is chosen by its estimated cosine alone."""

MAX_TIES = 4
"""Limit of ties with the last of the highest values, as a multiple of `limit`."""

Signatures = NDArray[np.uint64]
"""Shape (passages, words)."""


class LikelyPassages(NamedTuple):
    """Passages, and the ids of their units. `complete`: there are no others in the scope."""

    passage_ids: Numbers
    unit_ids: Numbers
    complete: bool


class Estimated(NamedTuple):
    """Passages by row, which is the position of a block times SIGNATURES_PER_BLOCK plus a slot, in any order.

    `gains`: what their words are worth; `cosines`: estimates.
    """

    rows: Numbers
    signatures: Signatures
    gains: Vectors
    cosines: Vectors

    def at(self, positions: Numbers) -> "Estimated":
        """Return some of them."""
        return Estimated(
            self.rows[positions], self.signatures[positions], self.gains[positions], self.cosines[positions]
        )


class Chosen:
    """Keeps the best of the passages that are added: about `limit`, up to twice as many until it is asked."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[Estimated] = []
        self._kept = 0
        self._least = (-np.inf, -np.inf)
        self.complete = True
        """Whether all that were added are kept."""

    def are_good(self, gains: Vectors, cosines: Vectors) -> Numbers:
        """Return the positions of passages that may be among the best."""
        good = np.flatnonzero((cosines >= self._least[0]) | (cosines + gains >= self._least[1]))
        self.complete = self.complete and len(good) == len(cosines)
        return good

    def add(self, passages: Estimated) -> None:
        """Add passages."""
        self._parts.append(passages)
        self._kept += len(passages.rows)
        if self._kept > 2 * self._limit:
            self.best()

    def best(self) -> Estimated | None:
        """Return the best, in any order; None: nothing was added."""
        if not self._parts:
            return None
        found = Estimated(*map(np.concatenate, zip(*self._parts, strict=True)))
        if len(found.rows) > self._limit:
            sums = found.cosines + found.gains
            found, self.complete = found.at(best_by_either(found.cosines, sums, self._limit)), False
            shares = self._limit // NEAREST_SHARE, self._limit - self._limit // NEAREST_SHARE
            self._least = (
                float(np.partition(found.cosines, -shares[0])[-shares[0]]) if shares[0] else np.inf,
                float(np.partition(found.cosines + found.gains, -shares[1])[-shares[1]]),
            )
        self._parts, self._kept = [found], len(found.rows)
        return found


def likeliest_passages(
    connection: apsw.Connection,
    table: str,
    kind: int | None,
    query: Vectors,
    worth: Weights,
    limit: int,
    newest: int | None,
) -> LikelyPassages:
    """Return about `limit` passages of a kind likeliest to have the highest sums of cosine and worth.

    `table`: the one with the signatures.

    Signatures are compared twice. The first estimate is the number of bits that are equal to the query's. The second,
    for the best of these, sums the numbers of the query itself, each added or subtracted as the signature's bit says.
    For normally distributed numbers both are unbiased estimates of the cosine. Raises DamagedError.
    """
    most = -1 if newest is None else 2 + newest // SIGNATURES_PER_BLOCK
    sql = f"select chunk_id from {table}_chunks where partition00 = ? order by chunk_id desc limit ?"
    blocks = fetch_column(connection, sql, (kind, most))[::-1]
    if not blocks:
        return LikelyPassages(np.empty(0, np.int64), np.empty(0, np.int64), complete=True)
    units = np.empty((len(blocks), SIGNATURES_PER_BLOCK), np.int64)
    read_blocks(connection, f"{table}_metadatachunks00", "data", blocks, units)
    chosen = Chosen(OVERSAMPLING * limit)
    estimate(connection, f"{table}_vector_chunks00", blocks, units, query, worth, chosen)
    found, complete = chosen.best(), chosen.complete
    if found is None:
        return LikelyPassages(np.empty(0, np.int64), np.empty(0, np.int64), complete=True)
    if len(found.rows) > limit:
        closer = agreement(found.signatures, query)
        found, complete = found.at(best_by_either(closer, closer + found.gains, limit)), False
    return LikelyPassages(passages_at(connection, table, blocks, found.rows), units.ravel()[found.rows], complete)


def estimate(
    connection: apsw.Connection,
    vectors: str,
    blocks: list[int],
    units: Numbers,
    query: Vectors,
    worth: Weights,
    chosen: Chosen,
) -> None:
    """Add the passages of the scope, with the first estimate of their cosines, to the chosen ones."""
    words = packed_signatures(query.reshape(1, -1)).view(np.uint64)[0]
    by_bits = np.cos(np.linspace(0, np.pi, len(query) + 1, dtype=np.float32))
    buffer = np.empty((BLOCKS_AT_ONCE, SIGNATURES_PER_BLOCK, len(words)), np.uint64)
    for start in range(0, len(blocks), BLOCKS_AT_ONCE):
        gains = worth.of(units[start : start + BLOCKS_AT_ONCE].ravel())
        inside = np.flatnonzero(gains > -np.inf)
        if not len(inside):
            continue
        first, end = inside[0] // SIGNATURES_PER_BLOCK, inside[-1] // SIGNATURES_PER_BLOCK + 1
        read_blocks(connection, vectors, "vectors", blocks[start + first : start + end], buffer)
        signatures = buffer.reshape(-1, len(words))[inside[0] % SIGNATURES_PER_BLOCK :][: inside[-1] - inside[0] + 1]
        if len(inside) < len(signatures):
            signatures = signatures.take(inside - inside[0], axis=0)
        gains = gains[inside]
        cosines = by_bits.take(unequal_bits(signatures, words), mode="clip")
        good = chosen.are_good(gains, cosines)
        rows = start * SIGNATURES_PER_BLOCK + inside[good]
        chosen.add(Estimated(rows, signatures[good], gains[good], cosines[good]))


def passages_at(connection: apsw.Connection, table: str, blocks: list[int], rows: Numbers) -> Numbers:
    """Return the ids of the passages in some rows. Raises DamagedError."""
    ids = np.empty(len(rows), np.int64)
    places, slots = np.divmod(rows, SIGNATURES_PER_BLOCK)
    read_blocks(
        connection, f"{table}_chunks", "rowids", [blocks[place] for place in places.tolist()], ids, slots.tolist()
    )
    return ids


def wrong_signatures(
    connection: apsw.Connection, table: str, vectors_of: Callable[[list[int]], tuple[Numbers, Vectors]]
) -> Iterator[int]:
    """Yield the passages that have the signature of another vector in a table, whose blocks must be consistent.

    `vectors_of`: returns the ids of those passages that have vectors, ascending, and the vectors.
    """
    sql = f"""
        select validity, rowids, vectors from {table}_chunks join {table}_vector_chunks00 v on v._rowid_ = chunk_id
    """
    for validity, rowids, signatures in connection.execute(sql):
        used = np.flatnonzero(np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little"))
        ids = np.frombuffer(rowids, np.int64)[used]
        known, vectors = vectors_of(ids.tolist())
        signed = np.frombuffer(signatures, np.uint8).reshape(SIGNATURES_PER_BLOCK, -1)[used[np.argsort(ids)]]
        is_wrong = packed_signatures(vectors) != signed[np.isin(np.sort(ids), known)]
        yield from known[is_wrong.any(axis=1)].tolist()


def unequal_bits(signatures: Signatures, wanted: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the number of bits in which each signature differs from the wanted one."""
    differences = np.zeros(len(signatures), np.uint16)
    for number, word in enumerate(wanted):
        differences += np.bitwise_count(signatures[:, number] ^ word)
    return differences


def agreement(signatures: Signatures, query: Vectors) -> Vectors:
    """Return the second estimate of the cosines of passages with a query."""
    signs = np.unpackbits(signatures.view(np.uint8), axis=1, count=len(query))
    agreed = 2 * np.vecdot(signs.astype(np.float32), query) - query.sum()
    closer: Vectors = agreed / np.sqrt(np.float32(2 * len(query) / np.pi))
    return closer


def best_by_either(cosines: Vectors, sums: Vectors, limit: int) -> Numbers:
    """Return the positions of about `limit` values, ascending: the highest sums, and some of the highest cosines."""
    is_best = is_high(cosines, limit // NEAREST_SHARE) | is_high(sums, limit - limit // NEAREST_SHARE)
    return np.flatnonzero(is_best)


def is_high(values: Vectors, limit: int) -> NDArray[np.bool_]:
    """Return for each value whether it is one of the `limit` highest, or equal to the last of these.

    Different vectors can have equal signatures, so ties are kept, up to MAX_TIES times `limit`.
    """
    if not 0 < limit < len(values):
        return np.full(len(values), limit > 0)
    enough = np.partition(values, -limit)[-limit]
    found: NDArray[np.bool_] = values >= enough
    found[np.flatnonzero(values == enough)[MAX_TIES * limit :]] = False
    return found
