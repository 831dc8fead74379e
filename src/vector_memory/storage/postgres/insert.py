"""Adds and deletes memories together with their derived data: chunks, words, passages and vectors."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from vector_memory.domain import Chunk, MemoryKind, NewMemory
from vector_memory.storage.insert import as_stored, place_of, words_in
from vector_memory.storage.json_columns import as_json
from vector_memory.storage.postgres import keywords, pending, vectors
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.rows import fetch_column, fetch_value
from vector_memory.storage.postgres.statement import Cursor, Statement
from vector_memory.storage.records import Derived, Embedded, History, Memory

# The place of a memory is its kind, agent, session, iteration, task and parent report; for knowledge also its category.
DUPLICATES = f"""
from session_memories
where content_hash = %(content_hash)s and memory_type = %(kind)s and agent_id = %(agent_id)s
    and session_id is not distinct from %(session_id)s and session_iter = %(session_iter)s
    and task_code is not distinct from %(task_code)s and about_report is not distinct from %(about_report)s
    and (memory_type <> '{MemoryKind.KNOWLEDGE_BASE}' or category is not distinct from %(category)s)
    and case when %(root)s::text is null then position('"root": ' in metadata) = 0
        else position(%(root)s in metadata) > 0 end
"""


def find_duplicate(connection: Connection, memory: NewMemory, content_hash: str, at: str | None = None) -> int | None:
    """Return the id of the memory with the same content in the same place, created `at` a time if given, or None."""
    sql, parameters, _ = duplicate_of(memory, content_hash, at)
    return id_in(connection.execute(sql, parameters))


def find_duplicate_ahead(
    connection: Connection, memory: NewMemory, content_hash: str, at: str | None = None
) -> int | None:
    """Return the same, and read what `add_memory` needs in the same round trip."""
    session_id = memory.session_id
    found, block = connection.together(duplicate_of(memory, content_hash, at), keywords.latest_block(session_id))
    connection.state.blocks[session_id] = keywords.block_in(block)
    return id_in(found)


def times_of_duplicates(connection: Connection, memory: NewMemory, content_hash: str) -> list[str]:
    """Return when the memories with the same content in the same place were created."""
    return fetch_column(connection, f"select created_at {DUPLICATES}", duplicate_parameters(memory, content_hash))


def id_in(cursor: Cursor) -> int | None:
    """Return the id that a query has found, or None."""
    return next((int(number) for (number,) in cursor.fetchall()), None)


def duplicate_of(memory: NewMemory, content_hash: str, at: str | None) -> Statement:
    """Return the query for the memory with the same content in the same place, of a time if given."""
    sql = f"select id {DUPLICATES} and (%(at)s::text is null or created_at = %(at)s) order by id limit 1"
    return Statement(sql, duplicate_parameters(memory, content_hash) | {"at": at})


def duplicate_parameters(memory: NewMemory, content_hash: str) -> dict[str, Any]:
    """Return the parameters of DUPLICATES."""
    # Compared as text: PostgreSQL reads no JSON that has the character NUL in a name.
    root = as_json({"root": memory.metadata["root"]})[1:-1] if "root" in memory.metadata else None
    return place_of(memory, content_hash) | columns_of(memory.metadata) | {"root": root}


def columns_of(metadata: dict[str, Any]) -> dict[str, str | None]:
    """Return the values of the metadata that have columns of their own."""
    about = metadata.get("parent_report_id")
    return {
        "about_report": None if about is None else as_json(about)[:LONGEST_INDEXED],
        "category": text_of(metadata.get("category")),
        "project": text_of(metadata.get("project")),
    }


LONGEST_INDEXED = 200
"""Characters of a value in an index."""


def text_of(value: object) -> str | None:
    """Return a text that PostgreSQL can store, or None."""
    return value if isinstance(value, str) and "\0" not in value else None


def add_memory(connection: Connection, new: NewMemory, derived: Derived, *, content_hash: str, history: History) -> int:
    """Add a memory and return its id. Raises EmbeddingUnavailableError; then nothing is added."""
    embedded = derived.embedded
    model_id = None if embedded is None else vectors.adopt_fingerprint(connection, embedded.fingerprint)
    (memory_id,) = connection.state.next_ids("memory", 1)
    memory = as_stored(memory_id, new, content_hash, history, len(derived.chunks))
    insert_row(connection, memory, model_id, is_dated=history.is_dated)
    chunk_ids = insert_chunks(connection, memory.id, derived)
    keywords.add(connection, memory_id, memory.session_id, words_in(derived))
    if embedded is not None:
        add_embedded(connection, memory, chunk_ids, embedded)
    return memory_id


def add_vectors(connection: Connection, memory: Memory, derived: Derived, *, after: int, is_last: bool) -> bool:
    """Add the vectors that follow those of a memory's first `after` passages, and chunks and words if it has none.

    False: the memory has all its vectors, or was deleted, or another process has just added or removed vectors.
    """
    embedded = derived.embedded
    found = connection.execute(UNINDEXED, {"id": memory.id, "enriched": derived.enriched}).fetchone()
    if embedded is None or found is None:
        pending.settle(connection, memory.id)
        return False
    present, is_enriched_alike, chunk_ids = found
    if present != after or not (is_enriched_alike or after == 0):
        return False
    if not is_enriched_alike:
        sql = "update memory_chunks set is_contextually_enriched = %s where parent_id = %s"
        connection.later(sql, (derived.enriched, memory.id))
    model_id = vectors.adopt_fingerprint(connection, embedded.fingerprint)
    if derived.chunks and not chunk_ids:
        chunk_ids = add_chunks(connection, memory, derived)
    add_embedded(connection, memory, chunk_ids, embedded)
    if is_last:
        pending.settle(connection, memory.id)
        connection.later("update session_memories set embedding_model_id = %s where id = %s", (model_id, memory.id))
    else:
        pending.note_progress(connection, memory.id)
    return True


UNINDEXED = """
select (select count(*) from memory_passages where memory_id = m.id),
    not exists (
        select 1 from memory_chunks where parent_id = m.id and is_contextually_enriched <> %(enriched)s
    ),
    array(select id from memory_chunks where parent_id = m.id order by chunk_index)
from session_memories m where m.id = %(id)s and m.embedding_model_id is null
"""
"""Of a memory that does not have all its vectors: how many, whether its chunks are enriched alike, their ids."""


def add_chunks(connection: Connection, memory: Memory, derived: Derived) -> list[int]:
    """Give a stored document its chunks and index their words; return the ids of the chunks in order."""
    chunk_ids = insert_chunks(connection, memory.id, derived)
    keywords.add(connection, memory.id, memory.session_id, words_in(derived))
    connection.later("update session_memories set chunk_count = %s where id = %s", (len(chunk_ids), memory.id))
    return chunk_ids


def delete_memory(connection: Connection, memory_id: int) -> int | None:
    """Delete a memory and its derived data; return its number of chunks, or None if there is no such memory."""
    sql = "select (select count(*) from memory_chunks where parent_id = m.id) from session_memories m where m.id = %s"
    chunk_count = fetch_value(connection, sql, (memory_id,))
    if chunk_count is None:
        return None
    keywords.remove(connection, memory_id)
    connection.later("delete from session_memories where id = %s", (memory_id,))
    return int(chunk_count)


def add_embedded(connection: Connection, memory: Memory, chunk_ids: Sequence[int], embedded: Embedded) -> None:
    """Add the passages of a stored memory."""
    passages = stored_passages(memory, chunk_ids, embedded)
    vectors.add_passages(connection, memory, passages, embedded.vectors, embedded.states)


def stored_passages(memory: Memory, chunk_ids: Sequence[int], embedded: Embedded) -> list[vectors.Passage]:
    """Return the passages as they are stored: with the ids of their chunks."""
    return [
        vectors.Passage(chunk_ids[passage.unit] if memory.chunked else None, passage.start, passage.end)
        for passage in embedded.passages
    ]


def insert_row(connection: Connection, memory: Memory, model_id: int | None, *, is_dated: bool = False) -> None:
    """Insert the row of a memory. `is_dated`: in the turn of the latest one that was written before it."""
    values = {field.name: getattr(memory, field.name) for field in fields(memory)}
    connection.later(
        """
        insert into session_memories (
            id, memory_type, agent_id, session_id, session_iter, task_code, content, content_length, content_bytes,
            title, description, tags, metadata, category, about_report, project, content_hash,
            created_at, updated_at, accessed_at, access_count, auto_chunk, chunk_count, embedding_model_id, turn
        ) values (
            %(id)s, %(memory_type)s, %(agent_id)s, %(session_id)s, %(session_iter)s, %(task_code)s, %(content)s,
            %(content_length)s, %(content_bytes)s, %(title)s, %(description)s, %(tags)s, %(metadata)s,
            %(category)s, %(about_report)s, %(project)s, %(content_hash)s, %(created_at)s, %(updated_at)s,
            %(accessed_at)s, %(access_count)s, %(chunked)s, %(chunk_count)s, %(model_id)s,
            case when %(is_dated)s then coalesce((
                select turn from session_memories where created_at <= %(created_at)s order by created_at desc, id desc
                limit 1
            ), 0) else %(turn)s end
        )
        """,
        values
        | columns_of(memory.metadata)
        | {
            "content_length": len(memory.content),
            "content_bytes": len(memory.content.encode()),
            "metadata": as_json(memory.metadata),
            "model_id": model_id,
            "is_dated": is_dated,
        },
    )


def insert_chunks(connection: Connection, memory_id: int, derived: Derived) -> list[int]:
    """Insert the rows of a document's chunks, and return their ids in order."""
    if not derived.chunks:
        return []
    ids = connection.state.next_ids("chunk", len(derived.chunks))
    rows = [
        (chunk_id, memory_id, *chunk_values(chunk), derived.enriched)
        for chunk_id, chunk in zip(ids, derived.chunks, strict=True)
    ]
    connection.later(INSERT_CHUNKS, [list(column) for column in zip(*rows, strict=True)])
    return ids


INSERT_CHUNKS = """
insert into memory_chunks (
    id, parent_id, chunk_index, content, chunk_type, start_char, end_char, token_count, headings, level,
    contains_code, contains_table, is_oversized, is_contextually_enriched
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
