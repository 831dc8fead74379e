"""The names of sessions, agents and tasks in use."""

from vector_memory.domain import Scope
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.filters import memory_filter
from vector_memory.storage.records import NamedBy


def names_with(connection: Connection, column: NamedBy, part: str, scope: Scope, limit: int) -> tuple[list[str], int]:
    """Return names of sessions in a scope that contain `part`, and how many there are in all.

    Names that start with `part` come first, then the most recently used. ASCII letters match case-insensitively: with
    the collation of the columns, `lower` changes no others.
    """
    if "\0" in part:  # no name has it, and PostgreSQL does not accept it
        return [], 0
    condition = memory_filter(scope)
    rows = connection.execute(
        f"""
        with found as (
            select {column} as name, max(id) as latest from session_memories m
            where session_id is not null and {column} is not null
                and strpos(lower({column}), lower(%(part)s collate "C")) > 0 and {condition.sql}
            group by {column}
        )
        select name, count(*) over () from found
        order by strpos(lower(name), lower(%(part)s collate "C")) > 1, latest desc limit %(limit)s
        """,
        condition.parameters | {"part": part, "limit": limit},
    ).fetchall()
    return [name for name, _ in rows], rows[0][1] if rows else 0
