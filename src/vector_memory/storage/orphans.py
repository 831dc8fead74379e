"""Rows whose parent row is missing: the conditions that find them, for every engine."""

from collections.abc import Callable, Mapping

from vector_memory.storage.postings import BUCKETS

NO_MEMORY = "not exists (select 1 from session_memories where id = t.{column})"

ORPHANS: Mapping[str, str] = {
    "memory_chunks": NO_MEMORY.format(column="parent_id"),
    "memory_passages": f"""
        {NO_MEMORY.format(column="memory_id")}
        or t.chunk_id is not null and not exists (
            select 1 from memory_chunks where id = t.chunk_id and parent_id = t.memory_id
        )
    """,
    "keyword_memories": f"""
        {NO_MEMORY.format(column="memory_id")} or not exists (select 1 from keyword_blocks where id = t.block_id)
    """,
    "keyword_postings": f"not exists (select 1 from keyword_blocks where id = t.id / {BUCKETS})",
    "keyword_blocks": "not exists (select 1 from keyword_memories where block_id = t.id)",
    "later_links": f"{NO_MEMORY.format(column='older_id')} or {NO_MEMORY.format(column='newer_id')}",
    "pending_vectors": NO_MEMORY.format(column="memory_id"),
    "memory_lifecycle": NO_MEMORY.format(column="memory_id"),
    "supersessions": f"""
        {NO_MEMORY.format(column="older_id")} or {NO_MEMORY.format(column="newer_id")} or t.older_id >= t.newer_id
    """,
}
"""By table, which is `t`. Only later memories supersede others."""


def count_orphans(conditions: Mapping[str, str], value_of: Callable[[str], int]) -> dict[str, int]:
    """Count the orphaned rows by table. `value_of`: runs a query and returns its one value."""
    counts = {table: value_of(f"select count(*) from {table} t where {where}") for table, where in conditions.items()}
    return {table: count for table, count in counts.items() if count}


def remove_orphans(conditions: Mapping[str, str], change: Callable[[str], int]) -> int:
    """Delete the orphaned rows; return their number. `change`: runs a statement and counts the rows that it changed."""
    return sum(change(f"delete from {table} as t where {where}") for table, where in conditions.items())
