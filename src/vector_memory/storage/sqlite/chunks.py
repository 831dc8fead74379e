"""The chunks of memories: the rows of `memory_chunks`."""

import json
from collections.abc import Sequence
from typing import Any

import apsw

from vector_memory.domain import Chunk
from vector_memory.errors import DatabaseError
from vector_memory.storage.json_columns import texts_in
from vector_memory.storage.records import ChunkOutline, StoredChunk
from vector_memory.storage.sqlite.rows import fetch, fetch_one

COLUMNS = """
    c.id, c.parent_id, c.chunk_index, c.content, c.chunk_type, c.start_char, c.end_char, c.token_count,
    c.section_hierarchy, c.level, c.contains_code, c.contains_table, c.is_oversized,
    c.is_contextually_enriched
"""


def chunk_from_row(**row: Any) -> StoredChunk:
    """Return a StoredChunk for a row of COLUMNS."""
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
    return StoredChunk(row["id"], row["parent_id"], chunk, bool(row["is_contextually_enriched"]))


def get_chunk(connection: apsw.Connection, chunk_id: int) -> StoredChunk | None:
    """Return a chunk, or None."""
    return fetch_one(connection, chunk_from_row, f"select {COLUMNS} from memory_chunks c where c.id = ?", (chunk_id,))


def get_chunks(connection: apsw.Connection, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
    """Return chunks by id.

    Raises DatabaseError if one is missing: the ids come from an index, so the file is damaged.
    """
    rows = fetch(
        connection,
        chunk_from_row,
        f"select {COLUMNS} from json_each(?) wanted join memory_chunks c on c.id = wanted.value",
        (json.dumps(chunk_ids),),
    )
    if len(rows) < len(set(chunk_ids)):
        raise DatabaseError("The index refers to a missing chunk: run `vector-memory doctor --fix`.")
    return {chunk.id: chunk for chunk in rows}


def chunks_of(
    connection: apsw.Connection, memory_id: int, first: int = 0, last: int | None = None
) -> list[StoredChunk]:
    """Return a document's chunks in order: all, or those with index `first` to `last`, inclusive."""
    return fetch(
        connection,
        chunk_from_row,
        f"""
        select {COLUMNS} from memory_chunks c
        where c.parent_id = :memory and c.chunk_index >= :first and (:last is null or c.chunk_index <= :last)
        order by c.chunk_index
        """,
        {"memory": memory_id, "first": first, "last": last},
    )


def outline_from_row(*, headings: str, **columns: Any) -> ChunkOutline:
    """Return a ChunkOutline for a row."""
    return ChunkOutline(headings=tuple(texts_in(headings)), **columns)


def outlines(connection: apsw.Connection, memory_ids: Sequence[int]) -> list[ChunkOutline]:
    """Return the outlines of all chunks of the documents, sorted by document and position."""
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
