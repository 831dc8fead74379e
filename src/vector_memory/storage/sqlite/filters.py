"""Translates a Scope into SQL conditions. Only this module assembles conditions from parts."""

import json
from typing import Any, NamedTuple

from vector_memory.domain import Scope


class Filter(NamedTuple):
    """A condition over `session_memories m`, and its named bindings."""

    sql: str
    bindings: dict[str, Any]


TAG_CONDITION = """
exists (select 1 from json_each(m.tags) tag, json_each(:tags) wanted where tag.value = wanted.value)
"""

CONDITIONS = {
    "kind": "m.memory_type = :kind",
    "agent_id": "m.agent_id = :agent_id",
    "session_id": "m.session_id = :session_id",
    "session_iter": "m.session_iter = :session_iter",
    "task_code": "m.task_code = :task_code",
    "category": "json_extract(m.metadata, '$.category') = :category",
    "tags": TAG_CONDITION.strip(),
    "own_agent_id": "m.agent_id <> :own_agent_id",
    "after_id": "m.id > :after_id",
    "created_after": "m.created_at >= :created_after",
    "created_before": "m.created_at <= :created_before",
    "sessions": "m.session_id in (select value from json_each(:sessions))",
}
UNINDEXED = ("category", "tags", "own_agent_id", "after_id", "created_after", "created_before", "sessions")
"""Fields that are not in the vector index."""


def memory_filter(scope: Scope, fields: tuple[str, ...] = tuple(CONDITIONS)) -> Filter:
    """Return the condition that a memory is in the scope, limited to `fields`. Several tags match any of them."""
    bindings = bindings_of(scope)
    wanted = [name for name in fields if name in bindings]
    sql = " and ".join(CONDITIONS[name] for name in wanted) or "true"
    return Filter(sql, {name: bindings[name] for name in wanted})


def bindings_of(scope: Scope) -> dict[str, Any]:
    """Return the fields that narrow the scope, as SQLite values."""
    values: dict[str, Any] = {name: getattr(scope, name) for name in CONDITIONS}
    values["kind"] = scope.kind and str(scope.kind)
    values["tags"] = json.dumps(scope.tags) if scope.tags else None
    values["sessions"] = None if scope.sessions is None else json.dumps(scope.sessions)
    return {name: value for name, value in values.items() if value is not None}
