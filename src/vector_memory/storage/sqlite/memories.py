"""Whole memories: the rows of `session_memories`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apsw

from vector_memory.domain import MemoryKind, NewMemory, Scope
from vector_memory.errors import NotFoundError
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.rows import fetch, fetch_column, fetch_one, fetch_value, object_in, texts_in

if TYPE_CHECKING:
    from vector_memory.storage.sqlite.keywords import Words

COLUMNS = """
    m.id, m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code, m.content, m.title, m.description,
    m.tags, m.metadata, m.content_hash, m.created_at, m.updated_at, m.accessed_at, m.access_count, m.auto_chunk,
    m.chunk_count
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory. Times are ISO 8601 in UTC; `content_hash` is the full SHA-256 in hex."""

    id: int
    memory_type: str
    agent_id: str
    session_id: str | None
    session_iter: int
    task_code: str | None
    content: str
    title: str | None
    description: str | None
    tags: list[str]
    metadata: dict[str, Any]
    content_hash: str
    created_at: str
    updated_at: str
    accessed_at: str
    access_count: int
    chunked: bool
    chunk_count: int


def memory_from_row(*, tags: str, metadata: str, auto_chunk: int, **columns: Any) -> Memory:
    """Make a Memory of a row of COLUMNS."""
    return Memory(tags=texts_in(tags), metadata=object_in(metadata), chunked=bool(auto_chunk), **columns)


def insert_memory(
    connection: apsw.Connection, memory: NewMemory, *, content_hash: str, words: "Words | None", now: str
) -> int:
    """Add a memory and return its id. `words`: of its content; None: it is chunked, and they come with its chunks."""
    memory_id = int(
        fetch_value(
            connection,
            """
            insert into session_memories (
                memory_type, agent_id, session_id, session_iter, task_code, content, title, description, tags,
                metadata, content_hash, created_at, updated_at, accessed_at, auto_chunk
            ) values (
                :kind, :agent_id, :session_id, :session_iter, :task_code, :content, :title, :description, :tags,
                :metadata, :content_hash, :now, :now, :now, :chunked
            ) returning id
            """,
            {
                "kind": str(memory.kind),
                "agent_id": memory.agent_id,
                "session_id": memory.session_id,
                "session_iter": memory.session_iter,
                "task_code": memory.task_code,
                "content": memory.content,
                "title": memory.title,
                "description": memory.description,
                "tags": json.dumps(memory.tags, ensure_ascii=False),
                "metadata": as_json(memory.metadata),
                "content_hash": content_hash,
                "now": now,
                "chunked": words is None,
            },
        )
    )
    if words is not None:
        from vector_memory.storage.sqlite import (  # noqa: PLC0415 - needs numpy, which who only looks need not wait for
            keywords,
        )

        keywords.add(connection, memory_id, words)
    return memory_id


def as_json(metadata: dict[str, Any]) -> str:
    """Return metadata as they are stored."""
    return json.dumps(metadata, ensure_ascii=False)


def find_duplicate(connection: apsw.Connection, memory: NewMemory, content_hash: str) -> int | None:
    """Return the id of the memory with the same content in the same place, if there is one."""
    found = fetch_value(
        connection,
        """
        select id from session_memories
        where content_hash = :content_hash and memory_type = :kind and agent_id = :agent_id
            and session_id is :session_id and session_iter = :session_iter and task_code is :task_code
            and json_extract(metadata, '$.parent_report_id') is json_extract(:metadata, '$.parent_report_id')
            and (memory_type <> 'knowledge_base'
                or json_extract(metadata, '$.category') is json_extract(:metadata, '$.category'))
        order by id limit 1
        """,
        {
            "content_hash": content_hash,
            "kind": str(memory.kind),
            "agent_id": memory.agent_id,
            "session_id": memory.session_id,
            "session_iter": memory.session_iter,
            "task_code": memory.task_code,
            # Whole, because SQLite has no value for everything that JSON can hold.
            "metadata": as_json(memory.metadata),
        },
    )
    return None if found is None else int(found)


def get_memory(connection: apsw.Connection, memory_id: int) -> Memory | None:
    """Return a memory, or None."""
    return fetch_one(
        connection, memory_from_row, f"select {COLUMNS} from session_memories m where m.id = ?", (memory_id,)
    )


def require_memory(connection: apsw.Connection, memory_id: int) -> Memory:
    """Return a memory, or raise NotFoundError."""
    memory = get_memory(connection, memory_id)
    if memory is None:
        raise NotFoundError(f"There is no memory {memory_id}: it was deleted or never stored in this database.")
    return memory


def kind_of(connection: apsw.Connection, memory_id: int) -> str | None:
    """Return a memory's kind, or None if there is no such memory."""
    kind = fetch_value(connection, "select memory_type from session_memories where id = ?", (memory_id,))
    return None if kind is None else str(kind)


def get_memories(connection: apsw.Connection, memory_ids: Sequence[int]) -> dict[int, Memory]:
    """Return those of the memories that exist, by id."""
    rows = fetch(
        connection,
        memory_from_row,
        f"select {COLUMNS} from json_each(?) wanted join session_memories m on m.id = wanted.value",
        (json.dumps(memory_ids),),
    )
    return {memory.id: memory for memory in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a memory comes from: what a reader of a part of it has to know."""

    id: int
    memory_type: str
    agent_id: str
    session_id: str | None
    session_iter: int
    task_code: str | None
    title: str | None
    created_at: str


def get_origins(connection: apsw.Connection, memory_ids: Sequence[int]) -> dict[int, Origin]:
    """Return the origins of those of the memories that exist, by id."""
    rows = fetch(
        connection,
        Origin,
        """
        select m.id, m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code, m.title, m.created_at
        from json_each(?) wanted join session_memories m on m.id = wanted.value
        """,
        (json.dumps(memory_ids),),
    )
    return {origin.id: origin for origin in rows}


def list_memories(
    connection: apsw.Connection, scope: Scope, limit: int, offset: int = 0, *, latest_first: bool = True
) -> list[Memory]:
    """Return the memories of a scope by iteration and time, the newest (or the oldest) first."""
    condition = memory_filter(scope)
    direction = "desc" if latest_first else "asc"
    return fetch(
        connection,
        memory_from_row,
        f"""
        select {COLUMNS} from session_memories m where {condition.sql}
        order by m.session_iter {direction}, m.created_at {direction}, m.id {direction}
        limit :limit offset :offset
        """,
        condition.bindings | {"limit": limit, "offset": offset},
    )


def count_memories(connection: apsw.Connection, scope: Scope) -> int:
    """Return how many memories are in a scope."""
    condition = memory_filter(scope)
    sql = f"select count(*) from session_memories m where {condition.sql}"
    return int(fetch_value(connection, sql, condition.bindings))


def delete_memory(connection: apsw.Connection, memory_id: int) -> bool:
    """Remove a memory with its chunks, passages, vectors and keywords; False if there is none."""
    from vector_memory.storage.sqlite import keywords  # noqa: PLC0415 - as above

    keywords.remove(connection, memory_id)
    connection.execute("delete from session_memories where id = ?", (memory_id,))
    return bool(connection.changes())


OLD = f"from session_memories where created_at < ? and memory_type <> '{MemoryKind.TAGGED}'"
"""Of tagged memories those in use are kept, whatever their age: `storage.tags.least_used`."""


def count_older(connection: apsw.Connection, before: str) -> tuple[int, int]:
    """Return how many memories were created before that time, and how many chunks they have."""
    memories = fetch_value(connection, f"select count(*) {OLD}", (before,))
    chunks = fetch_value(
        connection, f"select count(*) from memory_chunks where parent_id in (select id {OLD})", (before,)
    )
    return int(memories), int(chunks)


def ids_older(connection: apsw.Connection, before: str) -> list[int]:
    """Return the ids of the memories that were created before that time, the oldest first."""
    return fetch_column(connection, f"select id {OLD} order by created_at, id", (before,))


def count_chunks(connection: apsw.Connection, memory_id: int) -> int:
    """Return how many chunks a memory has."""
    return int(fetch_value(connection, "select count(*) from memory_chunks where parent_id = ?", (memory_id,)))


def record_access(connection: apsw.Connection, memory_ids: Sequence[int], now: str) -> None:
    """Count one reading of each of the memories; an id that stands there twice was read twice."""
    connection.executemany(
        "update session_memories set access_count = access_count + 1, accessed_at = max(accessed_at, ?) where id = ?",
        [(now, memory_id) for memory_id in memory_ids],
    )


def next_unindexed(connection: apsw.Connection, after_id: int) -> Memory | None:
    """Return the memory without vectors that has the smallest id above `after_id`."""
    return fetch_one(
        connection,
        memory_from_row,
        f"""
        select {COLUMNS} from session_memories m
        where m.embedding_model_id is null and m.id > ? order by m.id limit 1
        """,
        (after_id,),
    )


def is_unindexed(connection: apsw.Connection, memory_id: int) -> bool:
    """Tell whether a memory is there and has no vectors."""
    sql = "select 1 from session_memories where id = ? and embedding_model_id is null"
    return fetch_value(connection, sql, (memory_id,)) is not None


def count_unindexed(connection: apsw.Connection, scope: Scope | None = None) -> int:
    """Return how many memories, of a scope or of all, have no vectors."""
    condition = memory_filter(scope or Scope())
    return int(
        fetch_value(
            connection,
            f"""
            select count(*) from session_memories m indexed by idx_embedding_model
            where m.embedding_model_id is null and {condition.sql}
            """,
            condition.bindings,
        )
    )
