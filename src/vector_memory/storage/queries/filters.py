"""The conditions of memories: how long they are current, and those of a Scope. Only this module assembles them."""

from typing import Any, NamedTuple

from vector_memory.domain import ANY, STORED, AsOf, Scope
from vector_memory.domain.fields import FILTERS

EXPIRED = "(l.expires_at <= {utc} or l.held is not null)"
"""Whether a memory whose lifecycle is `l` does not exist for readers: it has expired, or people hold it back.

A transaction has one time for all of them.
"""

HELD = "exists (select 1 from memory_lifecycle l where l.memory_id = m.id and l.held is not null)"
"""Whether a memory `m` is held back."""

DELETED = "deleted"
"""Why a memory is held that an agent deleted, as long as a person can undo that."""

UNDELETED = f"not exists (select 1 from memory_lifecycle l where l.memory_id = m.id and l.held = '{DELETED}')"
"""Whether no agent deleted a memory `m`."""

SUPERSEDED = "l.superseded_at is not null and (l.superseded_until is null or l.superseded_until > {utc})"
"""Whether it is superseded now, whenever that began: clocks differ."""

OUTDATED = f"({EXPIRED} or {SUPERSEDED})"
"""Whether it has expired or is superseded."""

UNEXPIRED = f"not exists (select 1 from memory_lifecycle l where l.memory_id = m.id and {EXPIRED})"
"""Whether a memory `m` still exists for readers."""

CURRENT = f"not exists (select 1 from memory_lifecycle l where l.memory_id = m.id and {OUTDATED})"
"""Whether it also is not superseded."""

PINNED = "exists (select 1 from memory_lifecycle l where l.memory_id = m.id and l.pinned)"
"""Whether a memory `m` is pinned."""

UNPINNED = f"not {PINNED}"
"""Whether age or a policy may remove it."""

IN_STATE = f"""
exists (
    select 1 from memory_lifecycle l
    where l.memory_id = m.id and case %(state)s when 'pinned' then l.pinned else {SUPERSEDED} end
)
"""
"""Whether it is pinned, or superseded now."""

THERE_THEN = f"""
n.created_at <= %(as_of)s and not exists (
    select 1 from memory_lifecycle l where l.memory_id = n.id and ({EXPIRED} or l.expires_at <= %(as_of)s)
)
"""
"""Whether a memory `n` existed at a time."""

CURRENT_THEN = f"""
m.created_at <= %(as_of)s and not exists (
    select 1 from memory_lifecycle l where l.memory_id = m.id and (
        {EXPIRED} or l.expires_at <= %(as_of)s or {SUPERSEDED} and l.superseded_at <= %(as_of)s and (
            exists (
                select 1 from supersessions s join session_memories n on n.id = s.newer_id
                where s.older_id = m.id and {THERE_THEN}
            ) or exists (
                with recursive newer(id) as (
                    select m.id union select s.newer_id from newer join supersessions s on s.older_id = newer.id
                )
                select 1 from newer join session_memories n on n.id = newer.id where n.id <> m.id and {THERE_THEN}
            )
        )
    )
)
"""
"""Whether it was stored, and neither superseded nor expired, at a time. A memory that has expired since counts as
deleted, for itself and for what it superseded, so it does not matter when it is erased. Direct supersessions are
checked first, because PostgreSQL takes .2 ms or more for each recursion before it knows the tables."""


SINCE = """
m.id >= coalesce(
    (select min(+memory_id) from memory_lifecycle where given_at > %(since_id)s and +memory_id <= %(since_id)s),
    %(since_id)s + 1
) and (
    m.id > %(since_id)s
    or exists (select 1 from memory_lifecycle l where l.memory_id = m.id and l.given_at > %(since_id)s)
)
"""
"""Whether a memory `m` was stored, or released by a person, after an id. The first bound is one for the index.

With a `+`, engines find it among what was released since, instead of reading all lifecycles in the order of ids.
"""


class Filter(NamedTuple):
    """A condition, and its parameters."""

    sql: str
    parameters: dict[str, Any]


OWN = {
    "category": "{category:m} = %(category)s",
    "tags": "{has_tag:tags}",
    "own_agent_id": "m.agent_id <> %(own_agent_id)s",
    "after_id": "m.id > %(after_id)s",
    "since_id": SINCE,
    "created_after": "m.created_at >= %(created_after)s",
    "created_before": "m.created_at <= %(created_before)s",
    "containing": "({like:m.title} or {like:m.content})",
    "project": "{project:m} = %(project)s",
    "sessions": "m.session_id {among:sessions}",
    "as_of": CURRENT_THEN,
    "state": IN_STATE,
    "min_trust": "m.trust >= %(min_trust)s",
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
    values["min_trust"] = scope.min_trust and scope.min_trust.level
    values["tags"] = list(scope.tags) or None
    values["containing"] = scope.containing and pattern_for(scope.containing)
    values["as_of"] = None if scope.as_of in (ANY, STORED) else scope.as_of
    values["sessions"] = None if scope.sessions is None else list(scope.sessions)
    return {name: value for name, value in values.items() if value is not None}
