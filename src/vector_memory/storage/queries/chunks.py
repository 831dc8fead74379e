"""The chunks of memories: the rows of `memory_chunks`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from vector_memory.domain import Chunk
from vector_memory.errors import DatabaseError
from vector_memory.storage.connection import Asked, Queries, Steps, read
from vector_memory.storage.damaged import texts_in, texts_in_each
from vector_memory.storage.records import ChunkOutline, StoredChunk

COLUMNS = """
    c.id, c.parent_id, c.chunk_index, c.content, c.chunk_type, c.start_char, c.end_char, c.token_count,
    c.section_hierarchy, c.level, c.contains_code, c.contains_table, c.is_oversized, c.is_contextually_enriched
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


class OutlineRow(NamedTuple):
    """A row of a chunk's outline, with its headings as JSON."""

    id: int
    memory_id: int
    start: int
    end: int
    headings: str


class ChunkQueries(Queries):
    """Reads chunks."""

    def get(self, chunk_id: int) -> StoredChunk | None:
        """Return a chunk, or None."""
        sql = f"select {COLUMNS} from memory_chunks c where {{visible_id:c.parent_id}} and c.id = %(id)s"
        return self.connection.fetch_one(chunk_from_row, sql, {"id": chunk_id})

    @read
    def get_all(self, chunk_ids: Sequence[int]) -> Steps[dict[int, StoredChunk]]:
        """Return the chunks, by id. Raises DatabaseError if one is missing: the ids come from an index."""
        sql = f"select {COLUMNS} from memory_chunks c where {{visible_id:c.parent_id}} and c.id {{among:ids}}"
        rows = yield Asked(chunk_from_row, sql, {"ids": list(chunk_ids)})
        found = {chunk.id: chunk for chunk in rows}
        if len(found) < len(set(chunk_ids)) and self.connection.sessions is None:
            raise DatabaseError("The index refers to a missing chunk: run `vector-memory doctor --fix`.")
        return found

    def of(self, memory_id: int, first: int = 0, last: int | None = None) -> list[StoredChunk]:
        """Return a document's chunks at the positions `first` to `last`, inclusive, in order; default: all."""
        sql = f"""
            select {COLUMNS} from memory_chunks c
            where {{visible_id:c.parent_id}} and c.parent_id = %(memory)s and c.chunk_index >= %(first)s
                and (c.chunk_index <= %(last)s or %(last)s is null)
            order by c.chunk_index
        """
        return self.connection.fetch(chunk_from_row, sql, {"memory": memory_id, "first": first, "last": last})

    @read
    def outlines(self, memory_ids: Sequence[int]) -> Steps[list[ChunkOutline]]:
        """Return all chunks of the documents without their texts, ordered by document and position."""
        sql = """
            select c.id, c.parent_id as memory_id, c.start_char as start, c.end_char as end,
                c.section_hierarchy as headings
            from memory_chunks c where {visible_id:c.parent_id} and c.parent_id {among:ids}
            order by c.parent_id, c.chunk_index
        """
        rows: list[OutlineRow] = yield Asked(OutlineRow, sql, {"ids": list(memory_ids)})
        headings = texts_in_each({row.headings for row in rows})  # many chunks have the same
        return [ChunkOutline(chunk, memory, start, end, headings[text]) for chunk, memory, start, end, text in rows]
