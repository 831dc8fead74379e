"""Translates a Scope into SQL conditions. Only this module assembles conditions from parts."""

from typing import Any, NamedTuple

from vector_memory.domain import Scope


class Filter(NamedTuple):
    """A condition over `session_memories m`, and its named parameters."""

    sql: str
    parameters: dict[str, Any]


CONDITIONS = {
    "kind": "m.memory_type = %(kind)s",
    "agent_id": "m.agent_id = %(agent_id)s",
    "session_id": "m.session_id = %(session_id)s",
    "session_iter": "m.session_iter = %(session_iter)s",
    "task_code": "m.task_code = %(task_code)s",
    "category": "m.category = %(category)s",
    "tags": "m.tags && %(tags)s::text[]",
    "own_agent_id": "m.agent_id <> %(own_agent_id)s",
    "after_id": "m.id > %(after_id)s",
    "created_after": "m.created_at >= %(created_after)s",
    "created_before": "m.created_at <= %(created_before)s",
    "sessions": "m.session_id = any(%(sessions)s::text[])",
}

COPIED = {"after_id": "p.memory_id > %(after_id)s"} | {
    name: CONDITIONS[name].replace("m.", "p.")
    for name in ("kind", "agent_id", "session_id", "session_iter", "task_code", "own_agent_id", "sessions")
}
"""The conditions over the columns of `memory_passages p` that are copied from the memory."""

MEMORY_OF_PASSAGE = "join session_memories m on m.id = p.memory_id"


def memory_filter(scope: Scope) -> Filter:
    """Return the condition that a memory is in the scope. Several tags match any of them."""
    parameters = parameters_of(scope)
    return Filter(" and ".join(CONDITIONS[name] for name in parameters) or "true", parameters)


def passage_filter(scope: Scope) -> Filter:
    """Return the condition that a passage is in the scope, after `from memory_passages p`: joins and all."""
    parameters = parameters_of(scope)
    joined = "" if parameters.keys() <= COPIED.keys() else MEMORY_OF_PASSAGE
    conditions = [COPIED.get(name, CONDITIONS[name]) for name in parameters]
    return Filter(f"{joined} where {' and '.join(conditions) or 'true'}", parameters)


def parameters_of(scope: Scope) -> dict[str, Any]:
    """Return the fields that narrow the scope, as PostgreSQL stores them."""
    values: dict[str, Any] = {name: getattr(scope, name) for name in CONDITIONS}
    values["kind"] = scope.kind and str(scope.kind)
    values["tags"] = list(scope.tags) or None
    values["sessions"] = None if scope.sessions is None else list(scope.sessions)
    return {name: value for name, value in values.items() if value is not None}
