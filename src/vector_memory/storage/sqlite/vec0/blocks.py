"""Reads vectors in bulk from the shadow tables of a vec0 table, and checks that the tables are consistent.

sqlite-vec stores the vectors of a vec0 table in blocks of PARTITION_ROWS. A row of `_chunks` contains a bitmap of the
slots in use (`validity`) and the ids of their vectors (`rowids`, 64 bits each). A row of `_rowids` contains the slot of
a vector. sqlite-vec checks the lengths of what it reads but nothing else: a zeroed `validity` hides vectors silently.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.scoring import numbers_in
from vector_memory.storage.sqlite.rows import fetch_value
from vector_memory.storage.sqlite.schema import (
    PARTITION_ROWS,
    SIGNATURE_TABLE,
    SIGNATURES_PER_BLOCK,
    bits_of_signature,
    tables_of,
)

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
        return Positioned(numbers, np.arange(len(blocks)), _scattered(connection, table, dimensions, blocks, offsets))
    vectors = np.empty((len(known), PARTITION_ROWS, dimensions), np.float32)
    read_blocks(connection, f"{table}_vector_chunks00", "vectors", known.tolist(), vectors)
    return Positioned(numbers, positions * PARTITION_ROWS + offsets, vectors.reshape(-1, dimensions))


def read_blocks(
    connection: apsw.Connection, table: str, column: str, row_ids: list[int], target: NDArray[np.generic]
) -> None:
    """Read a column of some rows of a shadow table into an array, one item for each. Raises DamagedError."""
    if not row_ids:
        return
    size, buffer = target.strides[0], target.data.cast("B")
    try:
        with connection.blob_open("main", table, column, row_ids[0], writeable=False) as blob:
            for position, row_id in enumerate(row_ids):
                blob.reopen(row_id)
                if blob.length() != size:
                    raise DamagedError(DAMAGED_VECTORS)
                blob.read_into(buffer, position * size, size)
    except (apsw.SQLError, ValueError, TypeError, OverflowError):
        raise DamagedError(DAMAGED_VECTORS) from None


def _scattered(
    connection: apsw.Connection, table: str, dimensions: int, blocks: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return vectors, one at a time. One open blob serves for all of them; asking vec0 would open two for each."""
    vectors = np.empty((len(blocks), dimensions), np.float32)
    size, target = vectors.strides[0], vectors.data.cast("B")
    try:
        with connection.blob_open(
            "main", f"{table}_vector_chunks00", "vectors", int(blocks[0]), writeable=False
        ) as blob:
            for position, (block, offset) in enumerate(zip(blocks.tolist(), offsets.tolist(), strict=True)):
                blob.reopen(block)
                blob.seek(offset * size)
                blob.read_into(target, position * size, size)
    except (apsw.SQLError, ValueError, TypeError, OverflowError):
        raise DamagedError(DAMAGED_VECTORS) from None
    return vectors


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
