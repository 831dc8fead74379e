"""Statistics of sessions, and of the whole memory."""

from vector_memory.domain import MemoryKind, Project, Scope
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.filters import memory_filter
from vector_memory.storage.postgres.rows import columns_of, fetch, fetch_value, rows_of
from vector_memory.storage.postgres.statement import Statement
from vector_memory.storage.records import MemoryCounts, Moment, SessionCounts, SessionSummary, Span

LISTED = """
with mine as not materialized (
    select session_id, agent_id, memory_type, turn, created_at, id from session_memories m
    where session_id is not null and {condition}
), sessions as (
    select session_id, count(*) as memory_count, count(distinct agent_id) as agent_count,
        max(turn) as turn, max(created_at) as created_at, max(id) as id
    from mine group by session_id order by turn desc, created_at desc, id desc limit %(limit)s
)
select s.session_id, s.memory_count, s.agent_count, latest.created_at as latest_activity, latest.agent_id,
    array(
        select distinct agent_id from mine where session_id = s.session_id order by agent_id limit %(agents)s
    ) as agents,
    (select json_object_agg(memory_type, number order by memory_type) from (
        select memory_type, count(*) as number from mine where session_id = s.session_id group by memory_type
    ) counted) as memory_types
from sessions s, lateral (
    select created_at, agent_id from mine where session_id = s.session_id
    order by turn desc, created_at desc, id desc limit 1
) latest
order by s.turn desc, s.created_at desc, s.id desc
"""


def list_sessions(connection: Connection, scope: Scope, limit: int, agents: int) -> tuple[list[SessionSummary], int]:
    """Return sessions by latest activity, with up to `agents` agents each, and how many there are.

    Only the memories of the scope count.
    """
    condition = memory_filter(scope)
    total = f"select count(distinct session_id) from session_memories m where {condition.sql}"
    listed, counted = connection.together(
        Statement(LISTED.format(condition=condition.sql), condition.parameters | {"limit": limit, "agents": agents}),
        Statement(total, condition.parameters),
    )
    return rows_of(listed, SessionSummary), int(counted.fetchall()[0][0])


LOOKED_THROUGH = 20_000
"""So many of a shared memory's newest prompts are looked through for a session of the project."""

LATEST_OF_ALL = """
select session_id from session_memories where session_id is not null and session_id is distinct from %(besides)s
order by turn desc, created_at desc, id desc limit 1
"""

# Hooks and imports store the project's folder with prompts.
LATEST_SPOKEN_IN = f"""
with prompts as (
    select session_id, project, turn, created_at, id from session_memories
    where memory_type = '{MemoryKind.INPUT_PROMPT}' and session_iter = 1
    order by turn desc, created_at desc, id desc limit {LOOKED_THROUGH}
)
select session_id from prompts
where session_id is distinct from %(besides)s and (project = %(folder)s or %(owns)s and project is not null)
order by turn desc, created_at desc, id desc limit 1
"""

# Sessions whose agents named none have the project's name and a day.
LATEST_OF_PROJECT = """
select session_id from session_memories
where session_id > %(prefix)s and session_id < %(prefix)s || ':' and length(session_id) = %(length)s
    and session_id is distinct from %(besides)s
order by turn desc, created_at desc, id desc limit 1
"""


def latest_session(connection: Connection, project: Project, besides: str | None) -> str | None:
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


def session_counts(connection: Connection, session_id: str) -> SessionCounts:
    """Return the counts of a session; all are 0 for an unknown session."""
    counted = "select {0}, count(*) from session_memories where session_id = %s group by {0} order by {0}"
    whole, kinds, agents = connection.together(
        Statement(
            """
            select count(*) as total_memories, coalesce(sum(chunk_count), 0) as total_chunks,
                count(*) - count(embedding_model_id) as without_vectors, max(session_iter) as latest_iteration,
                min(created_at) as earliest_created, max(created_at) as latest_created
            from session_memories where session_id = %s
            """,
            (session_id,),
        ),
        Statement(counted.format("memory_type"), (session_id,)),
        Statement(counted.format("agent_id"), (session_id,)),
    )
    counts = columns_of(whole)
    return SessionCounts(memory_counts=dict(kinds.fetchall()), agent_counts=dict(agents.fetchall()), **counts)


MOMENTS = """
m.id as memory_id, m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code, m.title, m.created_at,
m.turn, left(m.content, %(characters)s) as beginning, m.content_length, m.content_bytes, m.chunk_count
"""


def latest_moments(connection: Connection, scope: Scope, limit: int, characters: int) -> list[Moment]:
    """Return the latest memories of a scope, oldest first."""
    condition = memory_filter(scope)
    found = fetch(
        connection,
        Moment,
        f"""
        select {MOMENTS} from session_memories m where {condition.sql}
        order by m.turn desc, m.created_at desc, m.id desc limit %(limit)s
        """,
        condition.parameters | {"limit": limit, "characters": characters},
    )
    return found[::-1]


LEFT_SINCE = f"""
select {MOMENTS} from session_memories m
where (m.turn, m.created_at) >= (%(turn)s, %(since)s) and m.memory_type = %(kind)s
    and m.session_id is distinct from %(besides)s
    and (m.session_id = %(session_id)s or not exists (
        select 1 from session_memories p
        where p.session_id = m.session_id and p.memory_type = '{MemoryKind.INPUT_PROMPT}'
    ))
order by m.turn desc, m.created_at desc, m.id desc limit %(limit)s
"""


def left_since(connection: Connection, span: Span, kind: MemoryKind, limit: int, characters: int) -> list[Moment]:
    """Return what a session and those without prompts have left of a kind since a memory, oldest first."""
    turn, since = span.since
    values = {"turn": turn, "since": since, "session_id": span.session_id, "besides": span.besides, "kind": str(kind)}
    found = fetch(connection, Moment, LEFT_SINCE, values | {"limit": limit, "characters": characters})
    return found[::-1]


def memory_counts(connection: Connection) -> MemoryCounts:
    """Return the counts of the whole memory."""
    whole, kinds = connection.together(
        Statement(
            """
            select count(*) as total_memories, coalesce(sum(chunk_count), 0) as total_chunks,
                count(distinct session_id) as total_sessions, count(distinct agent_id) as total_agents,
                count(*) - count(embedding_model_id) as without_vectors,
                min(created_at) as earliest_created, max(created_at) as latest_created,
                (select model from embedding_models) as embedding_model, (
                    select sum(pg_total_relation_size(c.oid))::bigint
                    from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = current_schema() and c.relkind = 'r'
                ) as database_bytes
            from session_memories
            """
        ),
        Statement("select memory_type, count(*) from session_memories group by memory_type order by memory_type"),
    )
    counts = columns_of(whole)
    return MemoryCounts(memory_counts=dict(kinds.fetchall()), **counts)
