"""The rows of chunks, which have columns of the original server in this engine."""

import hashlib
from collections.abc import Sequence

import apsw

from vector_memory.domain import Chunk
from vector_memory.storage.json_columns import as_json
from vector_memory.storage.records import Memory


def insert_chunk_rows(
    connection: apsw.Connection, memory: Memory, chunks: Sequence[Chunk], ids: Sequence[int], *, enriched: bool
) -> None:
    """Insert the rows of a document's chunks with these ids, linked to their neighbours."""
    connection.executemany(
        """
        insert into memory_chunks (
            id, prev_chunk_id, next_chunk_id, parent_id, parent_title, is_contextually_enriched, created_at,
            sibling_count, chunk_position_ratio, chunk_index, content, chunk_type, start_char, end_char, token_count,
            header_path, level, content_hash, section_hierarchy, depth_level, contains_code, contains_table,
            is_oversized
        ) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [
            (
                chunk_id,
                previous,
                following,
                memory.id,
                memory.title,
                enriched,
                memory.created_at,
                len(chunks),
                chunk.position(len(chunks)),
                *chunk_values(chunk),
            )
            for chunk, chunk_id, previous, following in zip(
                chunks, ids, [None, *ids[:-1]], [*ids[1:], None], strict=True
            )
        ],
    )


def chunk_values(chunk: Chunk) -> tuple[object, ...]:
    """Return the column values that depend on the chunk alone, in the order of the statement above."""
    return (
        chunk.index,
        chunk.text,
        chunk.kind,
        chunk.start,
        chunk.end,
        chunk.token_count,
        chunk.header_path,
        chunk.level,
        hashlib.sha256(chunk.text.encode()).hexdigest(),
        as_json(chunk.headings),
        len(chunk.headings),
        chunk.contains_code,
        chunk.contains_table,
        chunk.oversized,
    )
