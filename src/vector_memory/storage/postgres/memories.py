"""Whole memories: the rows of `session_memories`."""

from collections.abc import Sequence
from itertools import starmap
from typing import Any

from vector_memory.domain import MemoryKind, Scope
from vector_memory.errors import no_memory
from vector_memory.storage.json_columns import object_in
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.filters import memory_filter
from vector_memory.storage.postgres.rows import fetch, fetch_column, fetch_one, fetch_value
from vector_memory.storage.records import (
    CountedBy,
    Expendable,
    Memory,
    Neighbour,
    Neighbours,
    Observation,
    Origin,
)

COLUMNS = """
    m.id, m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code, m.content, m.title, m.description,
    m.tags, m.metadata, m.content_hash, m.created_at, m.updated_at, m.accessed_at, m.access_count,
    m.auto_chunk, m.chunk_count, m.turn
"""


def memory_from_row(*, metadata: str, auto_chunk: bool, **columns: Any) -> Memory:
    """Return a Memory for a row of COLUMNS."""
    return Memory(metadata=object_in(metadata), chunked=auto_chunk, **columns)


def find_report(
    connection: Connection,
    content_hash: str,
    agent_id: str,
    session_id: str | None,
    session_iter: int,
    task_code: str | None,
) -> int | None:
    """Return the id of the report with this content, agent, session, iteration and task, or None."""
    found = fetch_value(
        connection,
        f"""
        select id from session_memories
        where content_hash = %s and memory_type = '{MemoryKind.REPORT}' and agent_id = %s
            and session_id is not distinct from %s and session_iter = %s and task_code is not distinct from %s
        order by id limit 1
        """,
        (content_hash, agent_id, session_id, session_iter, task_code),
    )
    return None if found is None else int(found)


def require_memory(connection: Connection, memory_id: int) -> Memory:
    """Return a memory, or raise NotFoundError."""
    sql = f"select {COLUMNS} from session_memories m where m.id = %s"
    memory = fetch_one(connection, memory_from_row, sql, (memory_id,))
    if memory is None:
        raise no_memory(memory_id)
    return memory


def get_memories(connection: Connection, memory_ids: Sequence[int]) -> dict[int, Memory]:
    """Return the memories that exist, by id."""
    rows = fetch(
        connection,
        memory_from_row,
        f"""
        select {COLUMNS} from unnest(%s::bigint[]) with ordinality wanted(id, place)
        join session_memories m on m.id = wanted.id order by wanted.place
        """,
        (list(memory_ids),),
    )
    return {memory.id: memory for memory in rows}


def get_origins(connection: Connection, memory_ids: Sequence[int]) -> dict[int, Origin]:
    """Return the origins of the memories that exist, by id."""
    rows = fetch(
        connection,
        Origin,
        """
        select m.id, m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code, m.title, m.created_at,
            m.turn
        from unnest(%s::bigint[]) with ordinality wanted(id, place)
        join session_memories m on m.id = wanted.id order by wanted.place
        """,
        (list(memory_ids),),
    )
    return {origin.id: origin for origin in rows}


def observation_from_row(*, report_id: str, **columns: Any) -> Observation:
    """Return an Observation for a row."""
    return Observation(report_id=int(report_id), **columns)


def get_observations(
    connection: Connection, report_ids: Sequence[int], limit: int, characters: int
) -> list[Observation]:
    """Return the latest observations on these reports, oldest first."""
    found = fetch(
        connection,
        observation_from_row,
        f"""
        select id, about_report as report_id, agent_id, created_at, left(content, %(characters)s) as beginning
        from session_memories
        where memory_type = '{MemoryKind.REPORT_OBSERVATION}' and about_report = any(%(reports)s::text[])
        order by id desc limit %(limit)s
        """,
        {"reports": list(map(str, report_ids)), "limit": limit, "characters": characters},
    )
    return found[::-1]


# The index of sessions has the memories of a session, kind and iteration in the order of storing.
BESIDE = """
(select coalesce(json_agg(json_build_array(id, beginning)), '[]') from (
    select n.id, left(n.content, %(characters)s) as beginning from session_memories n
    where n.session_id = m.session_id and n.memory_type = m.memory_type and n.session_iter = m.session_iter
        and n.project is not null and (not %(same_agent)s or n.agent_id = m.agent_id)
        and (n.turn, n.created_at, n.id) {side} (m.turn, m.created_at, m.id)
    order by n.turn {order}, n.created_at {order}, n.id {order} limit %(count)s
) beside)
"""
NEIGHBOURS = f"""
select m.id, {BESIDE.format(side="<", order="desc")}, {BESIDE.format(side=">", order="asc")}
from unnest(%(wanted)s::bigint[]) wanted(id) join session_memories m on m.id = wanted.id
where m.chunk_count <= 1 and m.project is not null
"""


def get_neighbours(
    connection: Connection, memory_ids: Sequence[int], count: int, characters: int, *, same_agent: bool
) -> dict[int, Neighbours]:
    """Return what was said just before and after memories, by id; nothing for those with several chunks.

    Up to `count` memories on either side, and the first `characters` of each.
    """
    named = {"wanted": list(memory_ids), "count": count, "characters": characters, "same_agent": same_agent}
    rows = connection.execute(NEIGHBOURS, named).fetchall()
    return {
        number: Neighbours([*starmap(Neighbour, before[::-1])], [*starmap(Neighbour, after)])
        for number, before, after in rows
    }


def list_memories(
    connection: Connection, scope: Scope, limit: int, offset: int = 0, *, latest_first: bool = True
) -> list[Memory]:
    """Return the memories of a scope, sorted by iteration and turn, newest (or oldest) first."""
    condition = memory_filter(scope)
    direction = "desc" if latest_first else "asc"
    return fetch(
        connection,
        memory_from_row,
        f"""
        select {COLUMNS} from session_memories m where {condition.sql}
        order by m.session_iter {direction}, m.turn {direction}, m.created_at {direction}, m.id {direction}
        limit %(limit)s offset %(offset)s
        """,
        condition.parameters | {"limit": limit, "offset": offset},
    )


def count_memories(connection: Connection, scope: Scope, since: str | None = None) -> int:
    """Return the number of memories in a scope, created at `since` or later if given."""
    condition = memory_filter(scope)
    sql = f"select count(*) from session_memories m where {condition.sql}"
    if since is None:
        return int(fetch_value(connection, sql, condition.parameters))
    return int(fetch_value(connection, f"{sql} and m.created_at >= %(since)s", condition.parameters | {"since": since}))


COUNTED = {
    "kind": "select m.memory_type as name from session_memories m where {condition}",
    "category": "select coalesce(m.category, '') as name from session_memories m where {condition}",
    "tag": "select unnest(m.tags) as name from session_memories m where {condition}",
}


def count_by(connection: Connection, scope: Scope, by: CountedBy) -> dict[str, int]:
    """Return the number of memories of a scope for each kind, category or tag, sorted by name."""
    condition = memory_filter(scope)
    named = COUNTED[by].format(condition=condition.sql)
    sql = f"select name, count(*) from ({named}) counted group by name order by name"
    return dict(connection.execute(sql, condition.parameters).fetchall())


def memory_ids(connection: Connection, scope: Scope) -> list[int]:
    """Return the ids of the memories of a scope, ascending."""
    condition = memory_filter(scope)
    sql = f"select m.id from session_memories m where {condition.sql} order by m.id"
    return fetch_column(connection, sql, condition.parameters)


def expendable(connection: Connection, before: str, *, tagged: bool, limit: int | None) -> list[Expendable]:
    """Return memories created before that time, oldest first; if `tagged`, the least read tagged memories first."""
    return fetch(
        connection,
        Expendable,
        f"""
        select m.id, (select count(*) from memory_chunks where parent_id = m.id) as chunk_count
        from session_memories m
        where m.created_at < %(before)s and (m.memory_type = '{MemoryKind.TAGGED}') = %(tagged)s
        order by case when %(tagged)s then m.access_count else 0 end, m.created_at, m.id limit %(limit)s
        """,
        {"before": before, "tagged": tagged, "limit": limit},
    )


def set_tags(connection: Connection, memory_id: int, tags: Sequence[str], now: str) -> None:
    """Replace the tags of a memory."""
    sql = "update session_memories set tags = %s, updated_at = %s where id = %s"
    connection.later(sql, (list(tags), now, memory_id))


def record_access(connection: Connection, memory_ids: Sequence[int], now: str) -> None:
    """Count one read for each id; ids can repeat."""
    connection.later(
        """
        update session_memories m
        set access_count = m.access_count + read.times, accessed_at = greatest(m.accessed_at, %s)
        from (select id, count(*) as times from unnest(%s::bigint[]) id group by id) read
        where m.id = read.id
        """,
        (now, list(memory_ids)),
    )


def count_unindexed(connection: Connection, scope: Scope) -> int:
    """Return the number of memories of a scope that do not have all their vectors."""
    condition = memory_filter(scope)
    sql = f"select count(*) from session_memories m where m.embedding_model_id is null and {condition.sql}"
    return int(fetch_value(connection, sql, condition.parameters))
