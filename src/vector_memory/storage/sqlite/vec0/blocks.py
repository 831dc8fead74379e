"""Reads vectors in bulk from the shadow tables of a vec0 table, and checks that the tables are consistent.

sqlite-vec stores the vectors of a vec0 table in blocks of PARTITION_ROWS. A row of `_chunks` contains a bitmap of the
slots in use (`validity`) and the ids of their vectors (`rowids`, 64 bits each). A row of `_rowids` contains the slot of
a vector. sqlite-vec checks the lengths of what it reads but nothing else: a zeroed `validity` hides vectors silently.
"""

import json
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.sqlite.rows import fetch_value
from vector_memory.storage.sqlite.schema import PARTITION_ROWS
from vector_memory.storage.sqlite.vec0 import METADATA_COLUMNS

DAMAGED_VECTORS = "The vectors in the file are damaged: run `vector-memory doctor --fix`."

DENSE = 2
"""Of neighbouring rows, all are read if at least one in so many is wanted: looking up each one takes longer."""

LENGTHS = f"""
    select count(*) from {{table}}_chunks
    where typeof(partition00) <> 'integer' or size is not {PARTITION_ROWS}
        or typeof(validity) <> 'blob' or length(validity) <> {PARTITION_ROWS // 8}
        or typeof(rowids) <> 'blob' or length(rowids) <> {PARTITION_ROWS * 8}
"""

BLOCKS = """
    select count(*) from {table}_chunks c left join {table}_{suffix} b on b.rowid = c.chunk_id
    where typeof(b.{column}) <> 'blob' or length(b.{column}) <> {length}
"""

SLOTS = f"""
    select count(*) from {{table}}_rowids
    where typeof(chunk_id) <> 'integer' or typeof(chunk_offset) <> 'integer'
        or chunk_offset not between 0 and {PARTITION_ROWS - 1}
"""


def read_vectors(
    connection: apsw.Connection, table: str, dimensions: int, row_ids: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the row ids that exist, ascending, and their vectors, shape (ids, dimensions).

    This reads whole blocks. For many vectors of a session, it takes a tenth of the time of asking vec0 for each of
    them. Raises DamagedError if a block is missing or has the wrong length.
    """
    ids, blocks, offsets = _places(connection, table, row_ids).T
    vectors = np.zeros((len(ids), dimensions), np.float32)
    order = np.argsort(blocks, kind="stable")
    names, starts = np.unique(blocks[order], return_index=True)
    rows_of = dict(zip(names.tolist(), np.split(order, starts[1:]), strict=True)) if len(names) else {}
    for block, data in connection.execute(
        f"""
        select v.rowid, v.vectors from json_each(?) wanted join {table}_vector_chunks00 v on v.rowid = wanted.value
        """,
        (json.dumps(names.tolist()),),
    ):
        rows = rows_of.pop(block)
        try:
            vectors[rows] = np.frombuffer(data, np.float32).reshape(-1, dimensions)[offsets[rows]]
        except (IndexError, TypeError, ValueError):
            raise DamagedError(DAMAGED_VECTORS) from None
    if rows_of or (offsets < 0).any():
        raise DamagedError(DAMAGED_VECTORS)
    return ids, vectors


def read_scattered_vectors(
    connection: apsw.Connection, table: str, dimensions: int, row_ids: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the same as `read_vectors`, but read only the vectors themselves: faster if they are far apart.

    One open blob serves for all of them; asking vec0 would open two for each.
    """
    places = _places(connection, table, row_ids)
    vectors = np.empty((len(places), dimensions), np.float32)
    if len(places):
        size = vectors.strides[0]
        target = vectors.data.cast("B")
        try:
            with connection.blob_open(
                "main", f"{table}_vector_chunks00", "vectors", int(places[0, 1]), writeable=False
            ) as blob:
                for position, (_, block, offset) in enumerate(places.tolist()):
                    blob.reopen(block)
                    blob.seek(offset * size)
                    blob.read_into(target, position * size, size)
        except (apsw.SQLError, ValueError, TypeError, OverflowError):
            raise DamagedError(DAMAGED_VECTORS) from None
    return places[:, 0], vectors


def _places(connection: apsw.Connection, table: str, row_ids: Sequence[int]) -> NDArray[np.int64]:
    """Return row id, block and offset of those vectors that exist, by ascending id, shape (ids, 3)."""
    columns = f"select r.rowid, r.chunk_id, r.chunk_offset from {table}_rowids r"
    lowest, highest = min(row_ids, default=0), max(row_ids, default=-1)
    if highest - lowest < DENSE * len(row_ids):
        sql = f"{columns} where r.rowid between ? and ? order by r.rowid"
        rows = connection.execute(sql, (lowest, highest)).fetchall()
    else:
        sql = f"{columns} join json_each(?) wanted on r.rowid = wanted.value order by r.rowid"
        rows = connection.execute(sql, (json.dumps(row_ids),)).fetchall()
    places = np.array(rows, np.int64).reshape(-1, 3)
    return places[np.isin(places[:, 0], row_ids)]


def are_blocks_consistent(connection: apsw.Connection, table: str, dimensions: int) -> bool:
    """Return whether sqlite-vec can use a vec0 table and finds all its vectors. Reads no vectors."""
    metadata = [(f"metadatachunks{number:02}", "data", PARTITION_ROWS * 8) for number in range(METADATA_COLUMNS)]
    blocks = [("vector_chunks00", "vectors", PARTITION_ROWS * dimensions * 4), *metadata]
    queries = [
        LENGTHS.format(table=table),
        SLOTS.format(table=table),
        *(BLOCKS.format(table=table, suffix=suffix, column=name, length=size) for suffix, name, size in blocks),
    ]
    return not any(fetch_value(connection, sql) for sql in queries) and _are_slots_consistent(connection, table)


def _are_slots_consistent(connection: apsw.Connection, table: str) -> bool:
    """Return whether `_chunks` and `_rowids` agree on the slots of all vectors. Their lengths must be correct."""
    blocks: list[Any] = connection.execute(f"select chunk_id, validity, rowids from {table}_chunks").fetchall()
    validity = np.frombuffer(b"".join(row[1] for row in blocks), np.uint8)
    taken = np.unpackbits(validity, bitorder="little").astype(np.bool_).reshape(-1, PARTITION_ROWS)
    rowids = np.frombuffer(b"".join(row[2] for row in blocks), np.int64).reshape(-1, PARTITION_ROWS)
    block, offset = np.nonzero(taken)
    numbers = np.array([row[0] for row in blocks], np.int64)
    slots = np.stack([rowids[taken], numbers[block], offset], axis=1)
    rows = connection.execute(f"select rowid, chunk_id, chunk_offset from {table}_rowids order by rowid").fetchall()
    return np.array_equal(slots[np.argsort(slots[:, 0], kind="stable")], np.array(rows, np.int64).reshape(-1, 3))
