"""New memories, in the order in which they became visible.

A memory gets its id in the transaction that adds it, under the file's single write lock, and ids are never reused
(AUTOINCREMENT). So ids ascend in the order of commits, whichever process writes: a reader that has seen an id could
have seen every smaller one.
"""

import apsw

from vector_memory.domain import Scope
from vector_memory.storage.records import Cursor, Memory
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.memories import COLUMNS, memory_from_row
from vector_memory.storage.sqlite.rows import fetch, fetch_value


def cursor(connection: apsw.Connection) -> Cursor:
    """Return a cursor after the largest id ever assigned, even if that memory has been deleted."""
    return Cursor(int(fetch_value(connection, "select seq from sqlite_sequence where name = 'session_memories'") or 0))


def changes_after(connection: apsw.Connection, start: Cursor, scope: Scope, limit: int) -> list[Memory]:
    """Return the first memories of a scope after a cursor, in the order of their commits."""
    condition = memory_filter(scope)
    return fetch(
        connection,
        memory_from_row,
        f"""
        select {COLUMNS} from session_memories m where {condition.sql} and m.id > :start order by m.id limit :limit
        """,
        condition.bindings | {"start": start.memory_id, "limit": limit},
    )
