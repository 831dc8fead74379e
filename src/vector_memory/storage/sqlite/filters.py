"""The conditions of a Scope as SQLite reads them, for statements that are not in `queries` yet."""

from collections.abc import Collection
from typing import Any, NamedTuple

from vector_memory.domain import Scope
from vector_memory.storage.queries import filters
from vector_memory.storage.sqlite.dialect import as_sqlite, bound

UNINDEXED = ("category", "tags", "own_agent_id", "after_id", "created_after", "created_before", "sessions")
"""Fields that are not in the vector index."""


class Filter(NamedTuple):
    """A condition over `session_memories m`, and its named bindings."""

    sql: str
    bindings: dict[str, Any]


def memory_filter(scope: Scope, fields: Collection[str] = filters.CONDITIONS) -> Filter:
    """Return the condition that a memory is in the scope, limited to `fields`. Several tags match any of them."""
    condition = filters.memory_filter(scope, fields)
    return Filter(as_sqlite(condition.sql), bound(condition.parameters))
