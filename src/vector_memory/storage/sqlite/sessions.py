"""Statistics of sessions, and of the whole file."""

from typing import Any, Literal

import apsw

from vector_memory.domain import MemoryKind, Project, Scope
from vector_memory.storage.json_columns import object_in, texts_in
from vector_memory.storage.records import MemoryCounts, Moment, SessionCounts, SessionSummary, Span
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.rows import fetch, fetch_columns_of, fetch_value


def summary_from_row(*, agents: str, memory_types: str, **columns: Any) -> SessionSummary:
    """Return a SessionSummary for a row."""
    return SessionSummary(agents=texts_in(agents), memory_types=object_in(memory_types), **columns)


def list_sessions(connection: apsw.Connection, scope: Scope, limit: int, agents: int) -> list[SessionSummary]:
    """Return sessions by latest activity, with up to `agents` agents each; count only the memories of the scope."""
    condition = memory_filter(scope)
    return fetch(
        connection,
        summary_from_row,
        f"""
        with mine as (
            select session_id, agent_id, memory_type, turn, created_at, id from session_memories m
            where session_id is not null and {condition.sql}
        ), sessions as (
            select session_id, count(*) as memory_count, count(distinct agent_id) as agent_count,
                max(turn) as turn, max(created_at) as created_at, max(id) as id
            from mine group by session_id order by turn desc, created_at desc, id desc limit :limit
        )
        select s.session_id, s.memory_count, s.agent_count,
            (select created_at from mine where session_id = s.session_id
             order by turn desc, created_at desc, id desc limit 1) as latest_activity,
            (select agent_id from mine where session_id = s.session_id
             order by turn desc, created_at desc, id desc limit 1) as agent_id,
            (select json_group_array(agent_id) from
                (select distinct agent_id from mine where session_id = s.session_id
                 order by agent_id limit :agents)) as agents,
            (select json_group_object(memory_type, number) from
                (select memory_type, count(*) as number from mine where session_id = s.session_id
                 group by memory_type order by memory_type)) as memory_types
        from sessions s order by s.turn desc, s.created_at desc, s.id desc
        """,
        condition.bindings | {"limit": limit, "agents": agents},
    )


def count_sessions(connection: apsw.Connection, scope: Scope) -> int:
    """Return the number of sessions with memories of the scope."""
    condition = memory_filter(scope)
    sql = f"select count(distinct session_id) from session_memories m where {condition.sql}"
    return int(fetch_value(connection, sql, condition.bindings))


LOOKED_THROUGH = 20_000
"""So many of a shared file's newest prompts are looked through for a session of the project: in about 20 ms."""

LATEST_OF_ALL = """
select session_id from session_memories where session_id is not null and session_id is not :besides
order by turn desc, created_at desc, id desc limit 1
"""

# Hooks and imports store the project's folder with prompts.
LATEST_SPOKEN_IN = f"""
with prompts as (
    select session_id, metadata ->> '$.project' as folder from session_memories
    where memory_type = '{MemoryKind.INPUT_PROMPT}' and session_iter = 1
    order by turn desc, created_at desc, id desc limit {LOOKED_THROUGH}
)
select session_id from prompts
where session_id is not :besides and (folder = :folder or :owns and folder is not null) limit 1
"""

# Sessions whose agents named none have the project's name and a day.
LATEST_OF_PROJECT = """
select session_id from session_memories
where session_id > :prefix and session_id < :prefix || ':' and length(session_id) = :length
    and session_id is not :besides
order by turn desc, created_at desc, id desc limit 1
"""


def latest_session(connection: apsw.Connection, project: Project, besides: str | None) -> str | None:
    """Return a project's latest session, other than `besides`: the last one in which the user spoke, if there is one.

    Only what a hook or an import has stored is known to be the user's.
    """
    bindings = {"folder": project.folder, "owns": project.owns_memory, "besides": besides}
    found = fetch_value(connection, LATEST_SPOKEN_IN, bindings)
    if found is None and project.owns_memory:
        found = fetch_value(connection, LATEST_OF_ALL, {"besides": besides})
    elif found is None:
        dated = {"prefix": project.session_on(""), "length": len(project.session_on("0000-00-00"))}
        found = fetch_value(connection, LATEST_OF_PROJECT, dated | {"besides": besides})
    return None if found is None else str(found)


def session_counts(connection: apsw.Connection, session_id: str) -> SessionCounts:
    """Return the counts of a session; all are 0 for an unknown session."""
    counts = fetch_columns_of(
        connection,
        SessionCounts,
        """
        select count(*) as total_memories, coalesce(sum(chunk_count), 0) as total_chunks,
            count(*) - count(embedding_model_id) as without_vectors, max(session_iter) as latest_iteration,
            min(created_at) as earliest_created, max(created_at) as latest_created
        from session_memories where session_id = ?
        """,
        (session_id,),
    )
    return SessionCounts(
        memory_counts=counts_by(connection, "memory_type", session_id),
        agent_counts=counts_by(connection, "agent_id", session_id),
        **counts,
    )


# Of a text with the character NUL, which the original server stored, they tell of what is before it.
MOMENTS = """
m.id as memory_id, m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code, m.title, m.created_at,
m.turn, substr(m.content, 1, :characters) as beginning, length(m.content) as content_length,
octet_length(m.content) as content_bytes, m.chunk_count
"""


def moments(connection: apsw.Connection, sql: str, bindings: dict[str, Any], characters: int) -> list[Moment]:
    """Return the memories that a query for MOMENTS finds, latest first, in the opposite order."""
    return fetch(connection, Moment, sql, bindings | {"characters": characters})[::-1]


def latest_moments(connection: apsw.Connection, scope: Scope, limit: int, characters: int) -> list[Moment]:
    """Return the latest memories of a scope, oldest first."""
    condition = memory_filter(scope)
    sql = f"""
        select {MOMENTS} from session_memories m where {condition.sql}
        order by m.turn desc, m.created_at desc, m.id desc limit :limit
    """
    return moments(connection, sql, condition.bindings | {"limit": limit}, characters)


# The plus keeps SQLite from reading all memories of the kind instead of those since a turn.
LEFT_SINCE = f"""
select {MOMENTS} from session_memories m
where (m.turn, m.created_at) >= (:turn, :since) and +m.memory_type = :kind and m.session_id is not :besides
    and (m.session_id = :session_id or not exists (
        select 1 from session_memories p
        where p.session_id = m.session_id and p.memory_type = '{MemoryKind.INPUT_PROMPT}'
    ))
order by m.turn desc, m.created_at desc, m.id desc limit :limit
"""


def left_since(connection: apsw.Connection, span: Span, kind: MemoryKind, limit: int, characters: int) -> list[Moment]:
    """Return what a session and those without prompts have left of a kind since a memory, oldest first."""
    turn, since = span.since
    values = {"turn": turn, "since": since, "session_id": span.session_id, "besides": span.besides, "kind": kind}
    return moments(connection, LEFT_SINCE, values | {"limit": limit}, characters)


def memory_counts(connection: apsw.Connection) -> MemoryCounts:
    """Return the counts of the whole file."""
    counts = fetch_columns_of(
        connection,
        MemoryCounts,
        """
        select count(*) as total_memories, coalesce(sum(chunk_count), 0) as total_chunks,
            count(distinct session_id) as total_sessions, count(distinct agent_id) as total_agents,
            count(*) - count(embedding_model_id) as without_vectors,
            min(created_at) as earliest_created, max(created_at) as latest_created,
            (select model from embedding_models) as embedding_model,
            (select page_count * page_size from pragma_page_count(), pragma_page_size()) as database_bytes
        from session_memories
        """,
    )
    by_kind = "select memory_type, count(*) from session_memories group by memory_type order by memory_type"
    kinds: list[tuple[Any, ...]] = connection.execute(by_kind).fetchall()
    return MemoryCounts(memory_counts=dict(kinds), **counts)


def counts_by(
    connection: apsw.Connection, column: Literal["memory_type", "agent_id"], session_id: str
) -> dict[str, int]:
    """Return the number of a session's memories for each value of a column."""
    sql = f"select {column}, count(*) from session_memories where session_id = ? group by {column} order by {column}"
    rows: list[tuple[Any, ...]] = connection.execute(sql, (session_id,)).fetchall()
    return dict(rows)
