"""The pieces of chunked memories: the rows of `memory_chunks`."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from vector_memory.domain import Chunk
from vector_memory.errors import DatabaseError
from vector_memory.storage.sqlite import keywords
from vector_memory.storage.sqlite.rows import fetch, fetch_one, next_ids, texts_in


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk of a stored document, with its ids."""

    id: int
    memory_id: int
    chunk: Chunk


COLUMNS = """
    c.id, c.parent_id, c.chunk_index, c.content, c.chunk_type, c.start_char, c.end_char, c.token_count,
    c.section_hierarchy, c.level, c.contains_code, c.contains_table, c.is_oversized
"""


def chunk_from_row(**row: Any) -> StoredChunk:
    """Make a StoredChunk of a row of COLUMNS."""
    chunk = Chunk(
        index=row["chunk_index"],
        text=row["content"],
        start=row["start_char"],
        end=row["end_char"],
        kind=row["chunk_type"],
        token_count=row["token_count"],
        headings=tuple(texts_in(row["section_hierarchy"])),
        level=row["level"],
        contains_code=bool(row["contains_code"]),
        contains_table=bool(row["contains_table"]),
        oversized=bool(row["is_oversized"]),
    )
    return StoredChunk(row["id"], row["parent_id"], chunk)


def insert_chunks(
    connection: apsw.Connection,
    memory_id: int,
    title: str | None,
    chunks: Sequence[Chunk],
    *,
    words: keywords.Words,
    enriched: bool,
    now: str,
) -> list[int]:
    """Add a document's chunks, linked to their neighbours and in the keyword index, and return their ids in order.

    `words`: of the chunks' texts.
    """
    connection.execute("update session_memories set chunk_count = ? where id = ?", (len(chunks), memory_id))
    if not chunks:
        return []
    ids = next_ids(connection, "memory_chunks", len(chunks))
    connection.executemany(
        """
        insert into memory_chunks (
            id, prev_chunk_id, next_chunk_id,
            parent_id, parent_title, chunk_index, content, chunk_type, start_char, end_char, token_count, header_path,
            level, content_hash, created_at, section_hierarchy, chunk_position_ratio, sibling_count, depth_level,
            contains_code, contains_table, is_contextually_enriched, is_oversized
        ) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [
            (
                chunk_id,
                previous,
                following,
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
                chunk.position(len(chunks)),
                len(chunks),
                len(chunk.headings),
                chunk.contains_code,
                chunk.contains_table,
                enriched,
                chunk.oversized,
            )
            for chunk, chunk_id, previous, following in zip(
                chunks, ids, [None, *ids[:-1]], [*ids[1:], None], strict=True
            )
        ],
    )
    keywords.add(connection, memory_id, words)
    return ids


def get_chunk(connection: apsw.Connection, chunk_id: int) -> StoredChunk | None:
    """Return a chunk, or None."""
    return fetch_one(connection, chunk_from_row, f"select {COLUMNS} from memory_chunks c where c.id = ?", (chunk_id,))


def get_chunks(connection: apsw.Connection, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
    """Return the chunks that an index names, by id. Raises DatabaseError if one is not there: the file is damaged."""
    rows = fetch(
        connection,
        chunk_from_row,
        f"select {COLUMNS} from json_each(?) wanted join memory_chunks c on c.id = wanted.value",
        (json.dumps(chunk_ids),),
    )
    if len(rows) < len(set(chunk_ids)):
        raise DatabaseError("The index refers to a missing chunk: run `vector-memory doctor --fix`.")
    return {chunk.id: chunk for chunk in rows}


def chunks_of(connection: apsw.Connection, memory_id: int) -> list[StoredChunk]:
    """Return a document's chunks in order."""
    return fetch(
        connection,
        chunk_from_row,
        f"select {COLUMNS} from memory_chunks c where c.parent_id = ? order by c.chunk_index",
        (memory_id,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOutline:
    """A chunk without its text."""

    id: int
    memory_id: int
    start: int
    end: int
    headings: tuple[str, ...]


def outline_from_row(*, headings: str, **columns: Any) -> ChunkOutline:
    """Make a ChunkOutline of a row."""
    return ChunkOutline(headings=tuple(texts_in(headings)), **columns)


def outlines(connection: apsw.Connection, memory_ids: Sequence[int]) -> list[ChunkOutline]:
    """Return the outlines of all chunks of the documents, by document and position."""
    return fetch(
        connection,
        outline_from_row,
        """
        select c.id, c.parent_id as memory_id, c.start_char as start, c.end_char as end,
            c.section_hierarchy as headings
        from json_each(?) wanted join memory_chunks c on c.parent_id = wanted.value
        order by c.parent_id, c.chunk_index
        """,
        (json.dumps(memory_ids),),
    )


def chunks_around(connection: apsw.Connection, stored: StoredChunk, distance: int) -> list[StoredChunk]:
    """Return the chunk with its neighbours up to `distance` positions away, in order."""
    return fetch(
        connection,
        chunk_from_row,
        f"""
        select {COLUMNS} from memory_chunks c
        where c.parent_id = ? and c.chunk_index between ? and ? order by c.chunk_index
        """,
        (stored.memory_id, stored.chunk.index - distance, stored.chunk.index + distance),
    )
