"""The tables of the keyword index (`storage.postings`)."""

import json
from typing import Any

import apsw
import numpy as np

from vector_memory.storage.json_columns import texts_in
from vector_memory.storage.postings import (
    BUCKETS,
    UNITS_PER_BLOCK,
    Block,
    FoundPostings,
    PlacedWords,
    Words,
    in_order,
    indexed,
    row_ids,
    rows_to_add,
    without,
)
from vector_memory.storage.scoring import Numbers
from vector_memory.storage.sqlite.revision import begin_epoch
from vector_memory.storage.sqlite.rows import fetch_column, fetch_one, fetch_value
from vector_memory.storage.terms import RULES
from vector_memory.storage.unit_text import searchable_text


def add(connection: apsw.Connection, memory_id: int, words: Words) -> None:
    """Add a memory to the index. The units of its words are numbered from 0."""
    block = _open_block(connection, memory_id)
    connection.execute("update keyword_blocks set units = ? where id = ?", (block.units + words.units, block.id))
    connection.execute(
        "insert into keyword_memories values (?, ?, ?, ?)", (memory_id, block.id, block.units, words.lengths)
    )
    connection.executemany(
        """
        insert into keyword_postings values (?, ?)
        on conflict do update set postings = cast(postings || excluded.postings as blob)
        """,
        rows_to_add(words, block),
    )


def remove(connection: apsw.Connection, memory_id: int) -> None:
    """Remove a memory from the index, if it is there. This must happen before the memory is deleted."""
    memory = _placed_words(connection, memory_id)
    if memory is None:
        return
    connection.execute("delete from keyword_memories where memory_id = ?", (memory_id,))
    if fetch_value(connection, "select 1 from keyword_memories where block_id = ?", (memory.block_id,)) is None:
        connection.execute("delete from keyword_blocks where id = ?", (memory.block_id,))
        return
    rows: list[Any] = connection.execute(
        "select id, postings from keyword_postings where id between ? and ?", row_ids(memory.block_id)
    ).fetchall()
    kept = [(others, number) for number, row in rows if (others := without(row, memory)) is not None]
    connection.executemany("update keyword_postings set postings = ? where id = ?", kept)
    connection.execute(
        "delete from keyword_postings where id between ? and ? and postings = x''", row_ids(memory.block_id)
    )


def postings_of(connection: apsw.Connection, block_id: int) -> dict[int, bytes]:
    """Return the postings of a block, as arrays of POSTING by bucket."""
    sql = "select id, postings from keyword_postings where id between ? and ?"
    return {number % BUCKETS: row for number, row in connection.execute(sql, row_ids(block_id))}


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
    """Return the searchable texts of a memory's units; none if it should be chunked but has no chunks yet."""
    sql = "select cast(title as blob) from session_memories where id = ?"
    title = decoded(fetch_value(connection, sql, (memory_id,)) or b"")
    rows = connection.execute(
        """
        select cast(content as blob), cast(section_hierarchy as blob) from (
            select content, section_hierarchy, chunk_index from memory_chunks where parent_id = :id
            union all select content, '[]', 0 from session_memories where id = :id and auto_chunk = 0
        ) order by chunk_index
        """,
        {"id": memory_id},
    )
    return [searchable_text(title, texts_in(decoded(headings)), decoded(text)) for text, headings in rows]


def decoded(text: bytes) -> str:
    """Return a text that may be damaged."""
    return text.decode(errors="replace")


def placed_in(connection: apsw.Connection, block_id: int) -> list[PlacedWords]:
    """Return where the memories of a block are."""
    sql = "select memory_id, block_id, first_unit, lengths from keyword_memories where block_id = ? order by memory_id"
    rows: list[Any] = connection.execute(sql, (block_id,)).fetchall()
    return list(map(PlacedWords._make, rows))


def read_postings(connection: apsw.Connection, wanted: Numbers) -> FoundPostings:
    """Return the postings of those rows that exist, in the given order.

    The query returns them in one row: handing over thousands of rows takes longer than reading them.
    """
    sql = """
        select cast(group_concat(p.postings, '') as blob), group_concat(wanted.key), group_concat(length(p.postings))
        from json_each(?) wanted cross join keyword_postings p on p.id = wanted.value
    """
    rows: list[Any] = connection.execute(sql, (json.dumps(wanted.tolist()),)).fetchall()
    joined, positions, sizes = rows[0]
    return in_order(
        np.fromstring(positions or "", np.int64, sep=","), np.fromstring(sizes or "", np.int64, sep=","), joined or b""
    )


def _open_block(connection: apsw.Connection, memory_id: int) -> Block:
    """Return the block for a new memory's units; create one if necessary."""
    session_id = fetch_value(connection, "select session_id from session_memories where id = ?", (memory_id,))
    latest = "select id, units from keyword_blocks where session_id is ? and rules = ? order by id desc limit 1"
    block = fetch_one(connection, Block, latest, (session_id, RULES))
    if block is not None and block.units < UNITS_PER_BLOCK:
        return block
    new = "insert into keyword_blocks (session_id, units, rules) values (?, 0, ?) returning id"
    return Block(int(fetch_value(connection, new, (session_id, RULES))), 0)


def _placed_words(connection: apsw.Connection, memory_id: int) -> PlacedWords | None:
    sql = "select memory_id, block_id, first_unit, lengths from keyword_memories where memory_id = ?"
    return next(map(PlacedWords._make, connection.execute(sql, (memory_id,)).fetchall()), None)
