"""The tables of the keyword index (`storage.postings`)."""

import numpy as np

from vector_memory.storage.json_columns import texts_in
from vector_memory.storage.postgres.arrays import as_numbers
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.rows import fetch_value
from vector_memory.storage.postgres.statement import Cursor, Statement
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
from vector_memory.storage.terms import RULES
from vector_memory.storage.unit_text import searchable_text

ADD = """
    with placed as (
        insert into keyword_memories values (%(memory)s, %(block)s, %(first)s, %(lengths)b)
    ), extended as (
        update keyword_blocks set units = %(units)s where id = %(block)s
    )
    insert into keyword_postings select * from unnest(%(ids)s::bigint[], %(postings)b::bytea[])
    on conflict (id) do update set postings = keyword_postings.postings || excluded.postings
"""

# The rows of the memory's block, if other memories share it.
TAKE_OUT = f"""
    with gone as (
        delete from keyword_memories where memory_id = %s returning memory_id, block_id, first_unit, lengths
    ), counted as (
        update namespace set removals = removals + 1 where exists (select 1 from gone)
    ), shared as (
        select g.*, exists (
            select 1 from keyword_memories k where k.block_id = g.block_id and k.memory_id <> g.memory_id
        ) as is_shared from gone g
    )
    select s.memory_id, s.block_id, s.first_unit, s.lengths, s.is_shared, p.id, p.postings
    from shared s left join keyword_postings p
        on s.is_shared and p.id between s.block_id * {BUCKETS} and s.block_id * {BUCKETS} + {BUCKETS - 1}
"""


def latest_block(session_id: str | None) -> Statement:
    """Return a query for the block that takes the words of a session's next memory, if it has room."""
    latest = "order by session_id desc, id desc limit 1"  # as in the index, also of memories without a session
    blocks = f"select id, units from keyword_blocks where rules = {RULES} and session_id"
    if session_id is None:
        return Statement(f"{blocks} is null {latest}")
    return Statement(f"{blocks} = %s {latest}", (session_id,))


def block_in(cursor: Cursor) -> Block:
    """Return the block that `latest_block` has found; one that is full if there is none."""
    return next(map(Block._make, cursor.fetchall()), Block(0, UNITS_PER_BLOCK))


def add(connection: Connection, memory_id: int, session_id: str | None, words: Words) -> None:
    """Add a memory to the index. The units of its words are numbered from 0."""
    blocks = connection.state.blocks
    block = blocks.get(session_id) or block_in(connection.together(latest_block(session_id))[0])
    if block.units >= UNITS_PER_BLOCK:
        new = "insert into keyword_blocks (session_id, units, rules) values (%s, 0, %s) returning id"
        block = Block(int(fetch_value(connection, new, (session_id, RULES))), 0)
    blocks[session_id] = Block(block.id, block.units + words.units)
    rows = rows_to_add(words, block)
    parameters = {
        "memory": memory_id,
        "block": block.id,
        "first": block.units,
        "lengths": words.lengths,
        "units": block.units + words.units,
        "ids": np.array([number for number, _ in rows], np.int64),
        "postings": [postings for _, postings in rows],
    }
    connection.later(ADD, parameters)


def remove(connection: Connection, memory_id: int) -> None:
    """Remove a memory from the index, if it is there. This must happen before the memory is deleted."""
    connection.state.blocks.clear()
    rows = connection.execute(TAKE_OUT, (memory_id,), binary=True).fetchall()
    if not rows:
        return
    memory = PlacedWords._make(rows[0][:4])
    if not rows[0][4]:
        connection.later("delete from keyword_postings where id between %s and %s", row_ids(memory.block_id))
        connection.later("delete from keyword_blocks where id = %s", (memory.block_id,))
        return
    found = {number: without(row, memory) for *_, number, row in rows if number is not None}
    kept = {number: others for number, others in found.items() if others}
    empty = [number for number, others in found.items() if others == b""]
    sql = "update keyword_postings p set postings = k.postings from unnest(%s::bigint[], %s::bytea[]) k(id, postings)"
    connection.later(f"{sql} where p.id = k.id", (list(kept), list(kept.values())))
    connection.later("delete from keyword_postings where id = any(%s::bigint[])", (empty,))


def rebuild(connection: Connection) -> None:
    """Rebuild the whole index from the text."""
    connection.later("delete from keyword_memories")
    connection.later("delete from keyword_postings")
    connection.later("delete from keyword_blocks")
    connection.state.blocks.clear()
    for memory_id, session_id in connection.execute(
        "select id, session_id from session_memories order by id"
    ).fetchall():
        texts = texts_of(connection, memory_id)
        if texts:
            add(connection, memory_id, session_id, indexed(texts))
    connection.later("update namespace set epoch = epoch + 1")


def texts_of(connection: Connection, memory_id: int) -> list[str]:
    """Return the searchable texts of a memory's units; none if it should be chunked but has no chunks yet."""
    sql = """
        select m.title, u.headings, u.content from session_memories m join (
            select content, section_hierarchy as headings, parent_id as memory_id, chunk_index from memory_chunks
            where parent_id = %(id)s
            union all select content, '[]', id, 0 from session_memories where id = %(id)s and not auto_chunk
        ) u on u.memory_id = m.id order by u.chunk_index
    """
    rows = connection.execute(sql, {"id": memory_id}).fetchall()
    return [searchable_text(title, texts_in(headings), text) for title, headings, text in rows]


def placed_in(connection: Connection, block_id: int) -> list[PlacedWords]:
    """Return where the memories of a block are."""
    sql = """
        select memory_id, block_id, first_unit, lengths from keyword_memories where block_id = %s order by memory_id
    """
    return list(map(PlacedWords._make, connection.execute(sql, (block_id,), binary=True)))


def postings_of(connection: Connection, block_id: int) -> dict[int, bytes]:
    """Return the postings of a block, as arrays of POSTING by bucket."""
    sql = "select id, postings from keyword_postings where id between %s and %s"
    return {number % BUCKETS: row for number, row in connection.execute(sql, row_ids(block_id), binary=True)}


def read_postings(connection: Connection, wanted: Numbers) -> FoundPostings:
    """Return the postings of those rows that exist, in the given order.

    The query returns them in one row: handing over thousands of rows takes longer than reading them. It gets their ids
    sorted, so that PostgreSQL reads neighbouring rows after each other, and cannot choose to read the whole table.
    """
    sql = """
        select string_agg(int8send(id), ''::bytea), string_agg(int8send(length(postings)::bigint), ''::bytea),
            string_agg(postings, ''::bytea)
        from keyword_postings where id = any(%s::bigint[])
    """
    ids, places = np.unique(np.asarray(wanted, np.int64), return_inverse=True)
    found, sizes, joined = connection.execute(sql, (ids,), binary=True).fetchall()[0]
    rows, postings = in_order(np.searchsorted(ids, as_numbers(found)), as_numbers(sizes), joined or b"")
    ends = np.searchsorted(rows, np.arange(len(ids) + 1))
    counts = np.diff(ends)[places]
    before = np.cumsum(counts) - counts
    order = np.repeat(ends[:-1][places] - before, counts) + np.arange(counts.sum())
    return FoundPostings(np.repeat(np.arange(len(places)), counts), postings[order])
