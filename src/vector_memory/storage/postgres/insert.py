"""The rows of chunks, which one statement inserts in this engine."""

from collections.abc import Sequence

from vector_memory.domain import Chunk
from vector_memory.storage.json_columns import as_json
from vector_memory.storage.postgres.connection import Connection

INSERT_CHUNKS = """
insert into memory_chunks (
    id, parent_id, chunk_index, content, chunk_type, start_char, end_char, token_count,
    section_hierarchy, level, contains_code, contains_table, is_oversized, is_contextually_enriched
)
select id, parent_id, chunk_index, content, chunk_type, start_char, end_char, token_count, headings,
    level, contains_code, contains_table, is_oversized, is_enriched
from unnest(
    %s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::text[], %s::integer[], %s::integer[],
    %s::integer[], %s::text[], %s::integer[], %s::boolean[], %s::boolean[], %s::boolean[], %s::boolean[]
) as chunk(
    id, parent_id, chunk_index, content, chunk_type, start_char, end_char, token_count, headings, level,
    contains_code, contains_table, is_oversized, is_enriched
)
"""


def chunk_values(chunk: Chunk) -> tuple[object, ...]:
    """Return the column values that depend on the chunk alone, in the order of INSERT_CHUNKS."""
    return (
        chunk.index,
        chunk.text,
        chunk.kind,
        chunk.start,
        chunk.end,
        chunk.token_count,
        as_json(chunk.headings),
        chunk.level,
        chunk.contains_code,
        chunk.contains_table,
        chunk.oversized,
    )


def insert_chunk_rows(
    connection: Connection, memory_id: int, chunks: Sequence[Chunk], ids: Sequence[int], *, enriched: bool
) -> None:
    """Insert the rows of a document's chunks with these ids."""
    rows = [(chunk_id, memory_id, *chunk_values(chunk), enriched) for chunk_id, chunk in zip(ids, chunks, strict=True)]
    connection.later(INSERT_CHUNKS, [list(column) for column in zip(*rows, strict=True)])
