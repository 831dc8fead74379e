"""Adds and deletes memories together with their derived data: chunks, words, passages and vectors."""

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import apsw

from vector_memory.domain import Chunk, NewMemory
from vector_memory.storage.insert import as_stored, place_of, words_in
from vector_memory.storage.json_columns import as_json
from vector_memory.storage.records import Derived, Embedded, History, Memory
from vector_memory.storage.sqlite import keywords, pending, vectors
from vector_memory.storage.sqlite.memories import is_unindexed
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value, next_ids

# The place of a memory is its kind, agent, session, iteration, task and parent report; for knowledge also its category.
DUPLICATES = """
from session_memories
where content_hash = :content_hash and memory_type = :kind and agent_id = :agent_id
    and session_id is :session_id and session_iter = :session_iter and task_code is :task_code
    and json_extract(metadata, '$.parent_report_id') is json_extract(:metadata, '$.parent_report_id')
    and (memory_type <> 'knowledge_base'
        or json_extract(metadata, '$.category') is json_extract(:metadata, '$.category'))
    and json_extract(metadata, '$.root') is json_extract(:metadata, '$.root')
"""


def find_duplicate(
    connection: apsw.Connection, memory: NewMemory, content_hash: str, at: str | None = None
) -> int | None:
    """Return the id of the memory with the same content in the same place, created `at` a time if given, or None."""
    sql = f"select id {DUPLICATES} and (:at is null or created_at = :at) order by id limit 1"
    found = fetch_value(connection, sql, duplicate_bindings(memory, content_hash) | {"at": at})
    return None if found is None else int(found)


def times_of_duplicates(connection: apsw.Connection, memory: NewMemory, content_hash: str) -> list[str]:
    """Return when the memories with the same content in the same place were created."""
    return fetch_column(connection, f"select created_at {DUPLICATES}", duplicate_bindings(memory, content_hash))


def duplicate_bindings(memory: NewMemory, content_hash: str) -> dict[str, Any]:
    """Return the bindings of DUPLICATES."""
    # All metadata as JSON: SQLite has no type for some JSON values.
    return place_of(memory, content_hash) | {"metadata": as_json(memory.metadata)}


def add_memory(
    connection: apsw.Connection, new: NewMemory, derived: Derived, *, content_hash: str, history: History
) -> int:
    """Add a memory and return its id. Raises EmbeddingUnavailableError; then nothing is added."""
    embedded = derived.embedded
    model_id = None if embedded is None else vectors.adopt_fingerprint(connection, embedded.fingerprint)
    (memory_id,) = next_ids(connection, "session_memories", 1)
    memory = as_stored(memory_id, new, content_hash, history, len(derived.chunks))
    insert_row(connection, memory, model_id, is_dated=history.is_dated)
    chunk_ids = insert_chunks(connection, memory, derived)
    keywords.add(connection, memory_id, words_in(derived))
    if embedded is not None:
        add_embedded(connection, memory, chunk_ids, embedded)
    return memory_id


def add_vectors(connection: apsw.Connection, memory: Memory, derived: Derived, *, after: int, is_last: bool) -> bool:
    """Add the vectors that follow those of a memory's first `after` passages, and chunks and words if it has none.

    False: the memory has all its vectors, or was deleted, or another process has just added or removed vectors.
    """
    embedded = derived.embedded
    if embedded is None or not is_unindexed(connection, memory.id):
        pending.settle(connection, memory.id)
        return False
    if vectors.count_passages(connection, memory.id) != after:
        return False
    if not is_enriched_alike(connection, memory.id, derived):
        if after:
            return False
        sql = "update memory_chunks set is_contextually_enriched = ? where parent_id = ?"
        connection.execute(sql, (derived.enriched, memory.id))
    model_id = vectors.adopt_fingerprint(connection, embedded.fingerprint)
    chunk_ids = chunk_ids_of(connection, memory.id)
    if derived.chunks and not chunk_ids:
        chunk_ids = add_chunks(connection, memory, derived)
    add_embedded(connection, memory, chunk_ids, embedded)
    if is_last:
        pending.settle(connection, memory.id)
        connection.execute("update session_memories set embedding_model_id = ? where id = ?", (model_id, memory.id))
    else:
        pending.note_progress(connection, memory.id)
    return True


def is_enriched_alike(connection: apsw.Connection, memory_id: int, derived: Derived) -> bool:
    """Return whether the stored chunks of a memory, if there are any, are enriched if and only if these are."""
    sql = "select 1 from memory_chunks where parent_id = ? and is_contextually_enriched <> ? limit 1"
    return fetch_value(connection, sql, (memory_id, derived.enriched)) is None


def add_chunks(connection: apsw.Connection, memory: Memory, derived: Derived) -> list[int]:
    """Give a stored document its chunks and index their words; return the ids of the chunks in order."""
    chunk_ids = insert_chunks(connection, memory, derived)
    keywords.add(connection, memory.id, words_in(derived))
    connection.execute("update session_memories set chunk_count = ? where id = ?", (len(chunk_ids), memory.id))
    return chunk_ids


def delete_memory(connection: apsw.Connection, memory_id: int) -> int | None:
    """Delete a memory and its derived data; return its number of chunks, or None if there is no such memory."""
    chunk_count = int(fetch_value(connection, "select count(*) from memory_chunks where parent_id = ?", (memory_id,)))
    keywords.remove(connection, memory_id)
    connection.execute("delete from session_memories where id = ?", (memory_id,))
    return chunk_count if connection.changes() else None


def chunk_ids_of(connection: apsw.Connection, memory_id: int) -> list[int]:
    """Return the ids of a document's chunks in order."""
    sql = "select id from memory_chunks where parent_id = ? order by chunk_index"
    return fetch_column(connection, sql, (memory_id,))


def add_embedded(connection: apsw.Connection, memory: Memory, chunk_ids: Sequence[int], embedded: Embedded) -> None:
    """Add the passages of a stored memory."""
    passages = stored_passages(memory, chunk_ids, embedded)
    vectors.add_passages(connection, memory, passages, embedded.vectors, embedded.states)


def stored_passages(memory: Memory, chunk_ids: Sequence[int], embedded: Embedded) -> list[vectors.Passage]:
    """Return the passages as they are stored: with the ids of their chunks."""
    return [
        vectors.Passage(chunk_ids[passage.unit] if memory.chunked else None, passage.start, passage.end)
        for passage in embedded.passages
    ]


def insert_row(connection: apsw.Connection, memory: Memory, model_id: int | None, *, is_dated: bool = False) -> None:
    """Insert the row of a memory. `is_dated`: in the turn of the latest one that was written before it."""
    values = {field.name: getattr(memory, field.name) for field in fields(memory)}
    values |= {"tags": as_json(memory.tags), "metadata": as_json(memory.metadata)}
    connection.execute(INSERT_ROW, values | {"model_id": model_id, "is_dated": is_dated})


INSERT_ROW = """
insert into session_memories (
    id, memory_type, agent_id, session_id, session_iter, task_code, content, title, description, tags, metadata,
    content_hash, created_at, updated_at, accessed_at, access_count, auto_chunk, chunk_count, embedding_model_id, turn
) values (
    :id, :memory_type, :agent_id, :session_id, :session_iter, :task_code, :content, :title, :description, :tags,
    :metadata, :content_hash, :created_at, :updated_at, :accessed_at, :access_count, :chunked, :chunk_count, :model_id,
    iif(:is_dated, coalesce((
        select turn from session_memories where created_at <= :created_at order by created_at desc, id desc limit 1
    ), 0), :turn)
)
"""


def insert_chunks(connection: apsw.Connection, memory: Memory, derived: Derived) -> list[int]:
    """Insert the chunks of a document, and return their ids in order."""
    if not derived.chunks:
        return []
    ids = next_ids(connection, "memory_chunks", len(derived.chunks))
    insert_chunk_rows(connection, memory, derived.chunks, ids, enriched=derived.enriched)
    return ids


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
