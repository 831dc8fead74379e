"""The names of sessions, agents and tasks in use."""

from typing import Any

import apsw

from vector_memory.storage.records import NamedBy


def names_with(
    connection: apsw.Connection, column: NamedBy, part: str, session_id: str | None, limit: int
) -> tuple[list[str], int]:
    """Return names that contain `part`, and how many there are in all; if a session is given, only its own.

    Names that start with `part` come first, then the most recently used. ASCII letters match case-insensitively.
    """
    rows: list[tuple[Any, ...]] = connection.execute(
        f"""
        with found as (
            select {column} as name, max(id) as latest from session_memories
            where session_id is not null and {column} is not null and instr(lower({column}), lower(:part)) > 0
                and (:session_id is null or session_id = :session_id)
            group by {column}
        )
        select name, count(*) over () from found
        order by instr(lower(name), lower(:part)) > 1, latest desc limit :limit
        """,
        {"part": part, "session_id": session_id, "limit": limit},
    ).fetchall()
    return [name for name, _ in rows], rows[0][1] if rows else 0
