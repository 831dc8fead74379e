"""Whole memories: the rows of `session_memories`."""

import json
from collections.abc import Sequence
from typing import Any

import apsw

from vector_memory.domain import MemoryKind, Scope
from vector_memory.errors import no_memory
from vector_memory.storage.json_columns import as_json, object_in, texts_in
from vector_memory.storage.records import (
    CountedBy,
    Expendable,
    Memory,
    Neighbour,
    Neighbours,
    Observation,
    Origin,
)
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.rows import fetch, fetch_column, fetch_one, fetch_value
from vector_memory.storage.sqlite.schema import ABOUT_REPORT

COLUMNS = """
    m.id, m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code, m.content, m.title, m.description,
    m.tags, m.metadata, m.content_hash, m.created_at, m.updated_at, m.accessed_at, m.access_count, m.auto_chunk,
    m.chunk_count, m.turn
"""


def memory_from_row(*, tags: str, metadata: str, auto_chunk: int, **columns: Any) -> Memory:
    """Return a Memory for a row of COLUMNS."""
    return Memory(tags=texts_in(tags), metadata=object_in(metadata), chunked=bool(auto_chunk), **columns)


def find_report(
    connection: apsw.Connection,
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
        where content_hash = ? and memory_type = '{MemoryKind.REPORT}' and agent_id = ? and session_id is ?
            and session_iter = ? and task_code is ?
        order by id limit 1
        """,
        (content_hash, agent_id, session_id, session_iter, task_code),
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
        raise no_memory(memory_id)
    return memory


def get_memories(connection: apsw.Connection, memory_ids: Sequence[int]) -> dict[int, Memory]:
    """Return the memories that exist, by id."""
    rows = fetch(
        connection,
        memory_from_row,
        f"select {COLUMNS} from json_each(?) wanted join session_memories m on m.id = wanted.value",
        (json.dumps(memory_ids),),
    )
    return {memory.id: memory for memory in rows}


def get_origins(connection: apsw.Connection, memory_ids: Sequence[int]) -> dict[int, Origin]:
    """Return the origins of the memories that exist, by id."""
    rows = fetch(
        connection,
        Origin,
        """
        select m.id, m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code, m.title, m.created_at,
            m.turn
        from json_each(?) wanted join session_memories m on m.id = wanted.value
        """,
        (json.dumps(memory_ids),),
    )
    return {origin.id: origin for origin in rows}


def get_observations(
    connection: apsw.Connection, report_ids: Sequence[int], limit: int, characters: int
) -> list[Observation]:
    """Return the latest observations on these reports, oldest first."""
    found = fetch(
        connection,
        Observation,
        f"""
        select id, {ABOUT_REPORT} as report_id, agent_id, created_at,
            substr(content, 1, :characters) as beginning
        from session_memories indexed by idx_observed_report
        where memory_type = '{MemoryKind.REPORT_OBSERVATION}'
            and {ABOUT_REPORT} in (select value from json_each(:reports))
        order by id desc limit :limit
        """,
        {"reports": json.dumps(report_ids), "limit": limit, "characters": characters},
    )
    return found[::-1]


# The index of sessions has the memories of a session, kind and iteration in the order of storing.
BESIDE = """
(select json_group_array(json_array(id, beginning)) from (
    select n.id, substr(n.content, 1, :characters) as beginning from session_memories n
    where n.session_id = m.session_id and n.memory_type = m.memory_type and n.session_iter = m.session_iter
        and n.metadata ->> '$.project' is not null and (not :same_agent or n.agent_id = m.agent_id)
        and (n.turn, n.created_at, n.id) {side} (m.turn, m.created_at, m.id)
    order by n.turn {order}, n.created_at {order}, n.id {order} limit :count
))
"""
NEIGHBOURS = f"""
select m.id, {BESIDE.format(side="<", order="desc")}, {BESIDE.format(side=">", order="asc")}
from json_each(:wanted) wanted join session_memories m on m.id = wanted.value
where m.chunk_count <= 1 and m.metadata ->> '$.project' is not null
"""


def get_neighbours(
    connection: apsw.Connection, memory_ids: Sequence[int], count: int, characters: int, *, same_agent: bool
) -> dict[int, Neighbours]:
    """Return what was said just before and after memories, by id; nothing for those with several chunks.

    Up to `count` memories on either side, and the first `characters` of each.
    """
    bindings = {"wanted": json.dumps(memory_ids), "count": count, "characters": characters, "same_agent": same_agent}
    rows: list[tuple[Any, ...]] = connection.execute(NEIGHBOURS, bindings).fetchall()
    return {number: Neighbours(neighbours_in(before)[::-1], neighbours_in(after)) for number, before, after in rows}


def neighbours_in(side: str) -> list[Neighbour]:
    """Return the neighbours in a JSON list."""
    return [Neighbour(number, beginning) for number, beginning in json.loads(side)]


def list_memories(
    connection: apsw.Connection, scope: Scope, limit: int, offset: int = 0, *, latest_first: bool = True
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
        limit :limit offset :offset
        """,
        condition.bindings | {"limit": limit, "offset": offset},
    )


def count_memories(connection: apsw.Connection, scope: Scope, since: str | None = None) -> int:
    """Return the number of memories in a scope, created at `since` or later if given."""
    condition = memory_filter(scope)
    sql = f"select count(*) from session_memories m where {condition.sql}"
    if since is None:
        return int(fetch_value(connection, sql, condition.bindings))
    return int(fetch_value(connection, f"{sql} and m.created_at >= :since", condition.bindings | {"since": since}))


COUNTED = {
    "kind": "select m.memory_type as name from session_memories m where {condition}",
    "category": """
        select case json_type(m.metadata, '$.category') when 'text' then m.metadata ->> '$.category' else '' end as name
        from session_memories m where {condition}
    """,
    "tag": """
        select tag.value as name from session_memories m, json_each(m.tags) tag where {condition} and tag.type = 'text'
    """,
}


def count_by(connection: apsw.Connection, scope: Scope, by: CountedBy) -> dict[str, int]:
    """Return the number of memories of a scope for each kind, category or tag, sorted by name."""
    condition = memory_filter(scope)
    named = COUNTED[by].format(condition=condition.sql)
    sql = f"select name, count(*) from ({named}) group by name order by name"
    rows: list[tuple[Any, ...]] = connection.execute(sql, condition.bindings).fetchall()
    return dict(rows)


def memory_ids(connection: apsw.Connection, scope: Scope) -> list[int]:
    """Return the ids of the memories of a scope, ascending."""
    condition = memory_filter(scope)
    sql = f"select m.id from session_memories m where {condition.sql} order by m.id"
    return fetch_column(connection, sql, condition.bindings)


def expendable(connection: apsw.Connection, before: str, *, tagged: bool, limit: int | None) -> list[Expendable]:
    """Return memories created before that time, oldest first; if `tagged`, the least read tagged memories first."""
    return fetch(
        connection,
        Expendable,
        f"""
        select m.id, (select count(*) from memory_chunks where parent_id = m.id) as chunk_count
        from session_memories m
        where m.created_at < :before and (m.memory_type = '{MemoryKind.TAGGED}') = :tagged
        order by iif(:tagged, m.access_count, 0), m.created_at, m.id limit :limit
        """,
        {"before": before, "tagged": tagged, "limit": -1 if limit is None else limit},
    )


def set_tags(connection: apsw.Connection, memory_id: int, tags: Sequence[str], now: str) -> None:
    """Replace the tags of a memory."""
    sql = "update session_memories set tags = ?, updated_at = ? where id = ?"
    connection.execute(sql, (as_json(tags), now, memory_id))


def record_access(connection: apsw.Connection, memory_ids: Sequence[int], now: str) -> None:
    """Count one read for each id; ids can repeat."""
    connection.executemany(
        "update session_memories set access_count = access_count + 1, accessed_at = max(accessed_at, ?) where id = ?",
        [(now, memory_id) for memory_id in memory_ids],
    )


def is_unindexed(connection: apsw.Connection, memory_id: int) -> bool:
    """Return whether a memory exists that does not have all its vectors."""
    sql = "select 1 from session_memories where id = ? and embedding_model_id is null"
    return fetch_value(connection, sql, (memory_id,)) is not None


def count_unindexed(connection: apsw.Connection, scope: Scope | None = None) -> int:
    """Return the number of memories that do not have all their vectors, in a scope or in all."""
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
