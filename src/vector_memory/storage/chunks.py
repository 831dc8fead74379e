"""The pieces of chunked memories: the rows of `memory_chunks`."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import apsw

from vector_memory.storage.rows import fetch, fetch_column, fetch_one
from vector_memory.values import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """A chunk of a stored document; `headings` are the enclosing ones, outermost first, with their marks."""

    id: int
    memory_id: int
    chunk_index: int
    content: str
    chunk_type: str
    start: int
    end: int
    header_path: str
    headings: tuple[str, ...]
    level: int


COLUMNS = """
    c.id, c.parent_id as memory_id, c.chunk_index, c.content, c.chunk_type, c.start_char as start, c.end_char as end,
    c.header_path, c.section_hierarchy as headings, c.level
"""


def chunk_from_row(*, headings: str, **columns: object) -> StoredChunk:
    """Make a StoredChunk of a row of COLUMNS."""
    return StoredChunk(headings=tuple(json.loads(headings)), **columns)  # type: ignore[arg-type]


def insert_chunks(
    connection: apsw.Connection,
    memory_id: int,
    title: str | None,
    chunks: Sequence[Chunk],
    *,
    enriched: bool,
    now: str,
) -> list[int]:
    """Add a document's chunks, linked to their neighbours, and return their ids in order."""
    connection.executemany(
        """
        insert into memory_chunks (
            parent_id, parent_title, chunk_index, content, chunk_type, start_char, end_char, token_count, header_path,
            level, content_hash, created_at, section_hierarchy, chunk_position_ratio, sibling_count, depth_level,
            contains_code, contains_table, is_contextually_enriched, is_oversized
        ) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [
            (
                memory_id,
                title,
                chunk.index,
                chunk.text,
                chunk.kind,
                chunk.start,
                chunk.end,
                chunk.token_count,
                chunk.header_path,
                chunk.level,
                hashlib.sha256(chunk.text.encode()).hexdigest(),
                now,
                json.dumps(chunk.headings, ensure_ascii=False),
                chunk.index / len(chunks),
                len(chunks),
                len(chunk.headings),
                chunk.contains_code,
                chunk.contains_table,
                enriched,
                chunk.oversized,
            )
            for chunk in chunks
        ],
    )
    connection.execute(
        """
        update memory_chunks as c set
            prev_chunk_id = (select id from memory_chunks where parent_id = c.parent_id and chunk_index = c.chunk_index - 1),
            next_chunk_id = (select id from memory_chunks where parent_id = c.parent_id and chunk_index = c.chunk_index + 1)
        where parent_id = ?
        """,
        (memory_id,),
    )
    return fetch_column(
        connection, "select id from memory_chunks where parent_id = ? order by chunk_index", (memory_id,)
    )


def replace_chunks(
    connection: apsw.Connection,
    memory_id: int,
    title: str | None,
    chunks: Sequence[Chunk],
    *,
    enriched: bool,
    now: str,
) -> list[int]:
    """Put new chunks in the place of a document's old ones and return their ids in order."""
    connection.execute("delete from memory_chunks where parent_id = ?", (memory_id,))
    connection.execute("update session_memories set chunk_count = ? where id = ?", (len(chunks), memory_id))
    return insert_chunks(connection, memory_id, title, chunks, enriched=enriched, now=now)


def get_chunk(connection: apsw.Connection, chunk_id: int) -> StoredChunk | None:
    """Return a chunk, or None."""
    return fetch_one(connection, chunk_from_row, f"select {COLUMNS} from memory_chunks c where c.id = ?", (chunk_id,))


def get_chunks(connection: apsw.Connection, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
    """Return those of the chunks that exist, by id."""
    rows = fetch(
        connection,
        chunk_from_row,
        f"select {COLUMNS} from json_each(?) wanted join memory_chunks c on c.id = wanted.value",
        (json.dumps(chunk_ids),),
    )
    return {chunk.id: chunk for chunk in rows}


def chunks_of(connection: apsw.Connection, memory_id: int) -> list[StoredChunk]:
    """Return a document's chunks in order."""
    return fetch(
        connection,
        chunk_from_row,
        f"select {COLUMNS} from memory_chunks c where c.parent_id = ? order by c.chunk_index",
        (memory_id,),
    )


def chunks_around(connection: apsw.Connection, chunk: StoredChunk, distance: int) -> list[StoredChunk]:
    """Return the chunk with its neighbours up to `distance` positions away, in order."""
    return fetch(
        connection,
        chunk_from_row,
        f"""
        select {COLUMNS} from memory_chunks c
        where c.parent_id = ? and c.chunk_index between ? and ? order by c.chunk_index
        """,
        (chunk.memory_id, chunk.chunk_index - distance, chunk.chunk_index + distance),
    )
