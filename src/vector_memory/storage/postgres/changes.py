"""New memories, in the order in which they became visible.

A memory gets its id in the transaction that adds it, under the lock of the namespace, and ids are never reused. So ids
ascend in the order of commits, whichever process writes: a reader that has seen an id could have seen every smaller
one.
"""

from vector_memory.domain import Scope
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.filters import memory_filter
from vector_memory.storage.postgres.generations import gaps_in
from vector_memory.storage.postgres.memories import COLUMNS, memory_from_row
from vector_memory.storage.postgres.rows import fetch
from vector_memory.storage.records import Cursor, Memory


def cursor(connection: Connection) -> Cursor:
    """Return a cursor after the largest id ever assigned, even if that memory has been deleted."""
    state = connection.state
    return Cursor(state.last_memory_id, gaps=gaps_in(state.generations, state.lineage, state.last_memory_id))


def changes_after(connection: Connection, start: Cursor, scope: Scope, limit: int) -> list[Memory]:
    """Return the first memories of a scope after a cursor, in the order of their commits."""
    condition = memory_filter(scope)
    return fetch(
        connection,
        memory_from_row,
        f"""
        select {COLUMNS} from session_memories m where {condition.sql} and m.id > %(start)s
        order by m.id limit %(limit)s
        """,
        condition.parameters | {"start": start.memory_id, "limit": limit},
    )
