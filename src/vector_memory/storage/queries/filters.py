"""Translates a Scope into SQL conditions. Only this module assembles conditions from parts."""

from typing import Any, NamedTuple

from vector_memory.domain import ANY, STORED, AsOf, Scope
from vector_memory.domain.fields import FILTERS
from vector_memory.storage.queries.lifecycle import CURRENT, CURRENT_THEN, EXPIRED, IN_STATE, OUTDATED, UNEXPIRED


class Filter(NamedTuple):
    """A condition, and its parameters."""

    sql: str
    parameters: dict[str, Any]


OWN = {
    "category": "{category:m} = %(category)s",
    "tags": "{has_tag:tags}",
    "own_agent_id": "m.agent_id <> %(own_agent_id)s",
    "after_id": "m.id > %(after_id)s",
    "created_after": "m.created_at >= %(created_after)s",
    "created_before": "m.created_at <= %(created_before)s",
    "containing": "({like:m.title} or {like:m.content})",
    "project": "{project:m} = %(project)s",
    "sessions": "m.session_id {among:sessions}",
    "as_of": CURRENT_THEN,
    "state": IN_STATE,
}
"""Conditions of filters that are not equal to a column of their name."""

CONDITIONS = {name: OWN.get(name, f"m.{one.name} = %({name})s") for name, one in FILTERS.items()}
"""The condition of each field of a Scope that is set, over a memory `m`."""

LIFETIMES: dict[AsOf, list[str]] = {None: [CURRENT], ANY: [UNEXPIRED]}
"""Conditions for the values of `as_of` that are not times."""

HIDDEN: dict[AsOf, str] = {None: OUTDATED, ANY: EXPIRED}
"""Whether memories whose lifecycle is `l` do not match them."""


def memory_filter(scope: Scope) -> Filter:
    """Return the condition that a memory `m` is in the scope. Several tags match any of them."""
    parameters = parameters_of(scope)
    conditions = [CONDITIONS[name] for name in parameters] + LIFETIMES.get(scope.as_of, [])
    return Filter(" and ".join(conditions) or "true", parameters)


def ascii_lower(text: str) -> str:
    """Return a text with its ASCII letters in lower case, as the functions of both engines do: bytes have no others."""
    return text.encode().lower().decode()


def pattern_for(part: str) -> str:
    """Return the pattern of `like` for texts that contain a part."""
    escaped = ascii_lower(part).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def parameters_of(scope: Scope) -> dict[str, Any]:
    """Return the fields that narrow the scope, as parameters."""
    values: dict[str, Any] = {name: getattr(scope, name) for name in CONDITIONS}
    values["kind"], values["state"] = (one and str(one) for one in (scope.kind, scope.state))
    values["tags"] = list(scope.tags) or None
    values["containing"] = scope.containing and pattern_for(scope.containing)
    values["as_of"] = None if scope.as_of in (ANY, STORED) else scope.as_of
    values["sessions"] = None if scope.sessions is None else list(scope.sessions)
    return {name: value for name, value in values.items() if value is not None}
