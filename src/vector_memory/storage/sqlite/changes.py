"""What is new: memories in the order in which they became visible.

An id is given inside the transaction that adds the memory, under the file's one write lock, and never again
(AUTOINCREMENT). So ids ascend in the order of commits, whichever process writes: a reader who has seen an id has seen,
or could have seen, every smaller one.
"""

from typing import Any

import apsw

from vector_memory.domain import Scope
from vector_memory.storage.records import Memory
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.memories import COLUMNS, memory_from_row
from vector_memory.storage.sqlite.rows import fetch, fetch_value


def last_id(connection: apsw.Connection) -> int:
    """Return the largest id that any memory ever had, also if it was deleted; 0 in an empty file."""
    return int(fetch_value(connection, "select seq from sqlite_sequence where name = 'session_memories'") or 0)


def count_by_kind(connection: apsw.Connection, scope: Scope) -> dict[str, int]:
    """Return how many memories of the scope there are of each kind that it has."""
    condition = memory_filter(scope)
    sql = f"select m.memory_type, count(*) from session_memories m where {condition.sql} group by m.memory_type"
    rows: list[tuple[Any, ...]] = connection.execute(sql, condition.bindings).fetchall()
    return dict(rows)


def list_in_order(connection: apsw.Connection, scope: Scope, limit: int) -> list[Memory]:
    """Return the memories of the scope in the order in which they were stored, the first `limit`."""
    condition = memory_filter(scope)
    return fetch(
        connection,
        memory_from_row,
        f"select {COLUMNS} from session_memories m where {condition.sql} order by m.id limit :limit",
        condition.bindings | {"limit": limit},
    )
