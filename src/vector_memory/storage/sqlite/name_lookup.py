"""The names of sessions, agents and tasks in use."""

from typing import Any

import apsw

from vector_memory.domain import Scope
from vector_memory.storage.records import NamedBy
from vector_memory.storage.sqlite.filters import memory_filter


def names_with(
    connection: apsw.Connection, column: NamedBy, part: str, scope: Scope, limit: int
) -> tuple[list[str], int]:
    """Return names of sessions in a scope that contain `part`, and how many there are in all.

    Names that start with `part` come first, then the most recently used. ASCII letters match case-insensitively.
    """
    condition = memory_filter(scope)
    rows: list[tuple[Any, ...]] = connection.execute(
        f"""
        with found as (
            select {column} as name, max(id) as latest from session_memories m
            where session_id is not null and {column} is not null and instr(lower({column}), lower(:part)) > 0
                and {condition.sql}
            group by {column}
        )
        select name, count(*) over () from found
        order by instr(lower(name), lower(:part)) > 1, latest desc limit :limit
        """,
        condition.bindings | {"part": part, "limit": limit},
    ).fetchall()
    return [name for name, _ in rows], rows[0][1] if rows else 0
