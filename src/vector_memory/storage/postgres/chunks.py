"""The chunks of memories: the rows of `memory_chunks`."""

from collections.abc import Sequence
from typing import Any

from vector_memory.domain import Chunk
from vector_memory.errors import DatabaseError
from vector_memory.storage.json_columns import texts_in
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.rows import fetch, fetch_one
from vector_memory.storage.records import ChunkOutline, StoredChunk

COLUMNS = """
    c.id, c.parent_id, c.chunk_index, c.content, c.chunk_type, c.start_char, c.end_char, c.token_count,
    c.headings, c.level, c.contains_code, c.contains_table, c.is_oversized, c.is_contextually_enriched
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
        headings=tuple(texts_in(row["headings"])),
        level=row["level"],
        contains_code=row["contains_code"],
        contains_table=row["contains_table"],
        oversized=row["is_oversized"],
    )
    return StoredChunk(row["id"], row["parent_id"], chunk, row["is_contextually_enriched"])


def get_chunk(connection: Connection, chunk_id: int) -> StoredChunk | None:
    """Return a chunk, or None."""
    return fetch_one(connection, chunk_from_row, f"select {COLUMNS} from memory_chunks c where c.id = %s", (chunk_id,))


def get_chunks(connection: Connection, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
    """Return chunks by id.

    Raises DatabaseError if one is missing: the ids come from an index, so the memory is damaged.
    """
    sql = f"select {COLUMNS} from unnest(%s::bigint[]) wanted join memory_chunks c on c.id = wanted"
    rows = fetch(connection, chunk_from_row, sql, (list(chunk_ids),))
    if len(rows) < len(set(chunk_ids)):
        raise DatabaseError("The index refers to a missing chunk: run `vector-memory doctor --fix`.")
    return {chunk.id: chunk for chunk in rows}


def chunks_of(connection: Connection, memory_id: int, first: int = 0, last: int | None = None) -> list[StoredChunk]:
    """Return a document's chunks in order: all, or those with index `first` to `last`, inclusive."""
    return fetch(
        connection,
        chunk_from_row,
        f"""
        select {COLUMNS} from memory_chunks c
        where c.parent_id = %(memory)s and c.chunk_index >= %(first)s
            and (%(last)s::bigint is null or c.chunk_index <= %(last)s)
        order by c.chunk_index
        """,
        {"memory": memory_id, "first": first, "last": last},
    )


def outline_from_row(*, headings: str, **columns: Any) -> ChunkOutline:
    """Return a ChunkOutline for a row."""
    return ChunkOutline(headings=tuple(texts_in(headings)), **columns)


def outlines(connection: Connection, memory_ids: Sequence[int]) -> list[ChunkOutline]:
    """Return the outlines of all chunks of the documents, sorted by document and position."""
    return fetch(
        connection,
        outline_from_row,
        """
        select c.id, c.parent_id as memory_id, c.start_char as start, c.end_char as end, c.headings
        from unnest(%s::bigint[]) wanted join memory_chunks c on c.parent_id = wanted
        order by c.parent_id, c.chunk_index
        """,
        (list(memory_ids),),
    )
