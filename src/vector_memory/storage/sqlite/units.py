"""Pieces as a process keeps them in memory: which there are, what they are of, how long; and their postings in bulk.

A piece is what the keyword index knows (`storage.keywords`): a chunk, or a memory that is not chunked.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.sqlite.guards import DamagedError
from vector_memory.storage.sqlite.keywords import BUCKETS, DAMAGED_KEYWORDS, MAX_COUNT, POSTING, hits_in, numbers_of
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value

NUMBERS_IN_BLOCK = 1 << 20
"""The place of a piece in the file, as one number, is `block_id * NUMBERS_IN_BLOCK` and its number in the block."""

MAX_BLOCKS = 1 << 24
"""Arrays have an entry for each block there may be: more than this is damage."""


class PiecesState(NamedTuple):
    """What tells whether the pieces that are known are still those of the file, and whether there are others.

    `schema` is another number when tables have been made, exchanged or dropped, or all keywords made again. Pieces come
    with a new memory or with new chunks, whose ids are given in the order of commits, and never twice: `last_memory_id`
    and `last_chunk_id` are the highest ever given. `memories`: how many have pieces; all that lowers it is a deletion.
    """

    schema: int
    last_memory_id: int
    last_chunk_id: int
    memories: int


class FiledMemory(NamedTuple):
    """What filters ask of a memory, and where its pieces are; `session_id` and `task_code` are empty without one.

    `place` is that of its first piece; `lengths` are `storage.keywords.LENGTH`s.
    """

    memory_id: int
    kind: str
    session_id: str
    agent_id: str
    task_code: str
    session_iter: int
    place: int
    lengths: bytes


def pieces_state(connection: apsw.Connection) -> PiecesState:
    """Return the state of the pieces, as the transaction sees it."""
    highest: dict[str, int] = dict(connection.execute("select name, seq from sqlite_sequence"))
    return PiecesState(
        int(fetch_value(connection, "pragma schema_version")),
        highest.get("session_memories", 0),
        highest.get("memory_chunks", 0),
        int(fetch_value(connection, "select count(*) from keyword_memories")),
    )


def memories_filed_after(connection: apsw.Connection, memory_id: int, limit: int) -> list[FiledMemory]:
    """Return at most `limit` memories with pieces and ids above `memory_id`, in the order of their ids."""
    return _filed(connection, "k.memory_id > :id order by k.memory_id limit :limit", {"id": memory_id, "limit": limit})


def memories_chunked_after(connection: apsw.Connection, chunk_id: int, last_memory_id: int) -> list[FiledMemory]:
    """Return those of the memories up to `last_memory_id` that have chunks with ids above `chunk_id`."""
    return _filed(
        connection,
        "k.memory_id in (select parent_id from memory_chunks where id > :chunk and parent_id <= :last)",
        {"chunk": chunk_id, "last": last_memory_id},
    )


def _filed(connection: apsw.Connection, condition: str, bindings: dict[str, int]) -> list[FiledMemory]:
    sql = f"""
        select m.id, m.memory_type, coalesce(m.session_id, ''), m.agent_id, coalesce(m.task_code, ''), m.session_iter,
            k.block_id, k.first_piece, k.lengths
        from keyword_memories k join session_memories m on m.id = k.memory_id where {condition}
    """
    rows: list[Any] = connection.execute(sql, bindings).fetchall()
    return [FiledMemory._make((*row[:6], place_of(row[6], row[7]), row[8])) for row in rows]


def place_of(block_id: int, first: int) -> int:
    """Return the place of a piece in the file as one number. Raises DamagedError if there can be no such place."""
    if not 0 <= first < NUMBERS_IN_BLOCK or not 0 < block_id < MAX_BLOCKS:
        raise DamagedError(DAMAGED_KEYWORDS)
    return block_id * NUMBERS_IN_BLOCK + first


def chunks_of(connection: apsw.Connection, memory_ids: Sequence[int]) -> NDArray[np.int64]:
    """Return the chunks of memories, shape (chunks, 2): memory id and chunk id, by memory as given, then in order."""
    sql = """
        select c.parent_id, c.id from json_each(?) wanted cross join memory_chunks c on c.parent_id = wanted.value
        order by wanted.key, c.chunk_index
    """
    return np.array(connection.execute(sql, (json.dumps(memory_ids),)).fetchall(), np.int64).reshape(-1, 2)


def ids_filed(connection: apsw.Connection) -> list[int]:
    """Return the ids of all memories that have pieces."""
    return fetch_column(connection, "select memory_id from keyword_memories")


def occurrences(
    connection: apsw.Connection, bucket: int, hashed: int, block_ids: Sequence[int] | None
) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Return the places of the pieces that have a term, and how often each has it; with None in all blocks.

    One row holds the postings of all blocks: thousands of rows take longer to hand over than to read.
    """
    blocks = "keyword_blocks block" if block_ids is None else "json_each(:ids) block"
    number = "block.id" if block_ids is None else "block.value"
    sql = f"""
        select cast(group_concat(p.postings, '') as blob), group_concat(p.id), group_concat(length(p.postings))
        from {blocks} cross join keyword_postings p on p.id = {number} * :buckets + :bucket
    """
    bindings = {"buckets": BUCKETS, "bucket": bucket} | ({} if block_ids is None else {"ids": json.dumps(block_ids)})
    rows: list[Any] = connection.execute(sql, bindings).fetchall()
    joined, ids, sizes = rows[0]
    postings = np.frombuffer(joined or b"", POSTING)
    hits = hits_in(postings, hashed)
    ends = np.cumsum(_numbers(sizes)) // POSTING.itemsize
    row_ids = _numbers(ids)[np.searchsorted(ends, hits, side="right")]
    places = row_ids // BUCKETS * NUMBERS_IN_BLOCK + numbers_of(postings[hits])
    return places, (postings[hits] & np.uint64(MAX_COUNT)).astype(np.uint16)


def _numbers(text: str | None) -> NDArray[np.int64]:
    """Return the numbers of a list that SQLite has joined."""
    return np.fromstring(text or "", np.int64, sep=",")
