"""Sessions: their statistics and names, which is the latest, and what was left since."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vector_memory.domain import OWN_MEMORIES, MemoryKind, Project, Scope
from vector_memory.storage.connection import Counted, Query, value_of
from vector_memory.storage.damaged import object_in, texts_in
from vector_memory.storage.queries.filters import CURRENT, EXPIRED, PINNED, UNEXPIRED, ascii_lower, memory_filter
from vector_memory.storage.queries.passages import OverVectors
from vector_memory.storage.records import (
    Activity,
    MemoryCounts,
    Moment,
    NamedBy,
    RecallCounts,
    SessionCounts,
    SessionSummary,
    Size,
    Span,
)

LISTED = """
with mine as not materialized (
    select m.session_id, m.agent_id, m.memory_type, m.turn, m.created_at, m.id from session_memories m
    where {visible:m} and m.session_id is not null and {condition}
), sessions as (
    select session_id, count(*) as memory_count, count(distinct agent_id) as agent_count,
        max(turn) as turn, max(created_at) as created_at, max(id) as id
    from mine group by session_id order by turn desc, created_at desc, id desc limit %(limit)s
)
select s.session_id, s.memory_count, s.agent_count, latest.created_at as latest_activity, latest.agent_id,
    (select {json_array:agent_id} from (
        select distinct agent_id from mine where session_id = s.session_id order by agent_id limit %(agents)s
    ) named) as agents,
    (select {json_object:memory_type, number} from (
        select memory_type, count(*) as number from mine where session_id = s.session_id
        group by memory_type order by memory_type
    ) counted) as memory_types
from sessions s join session_memories latest on latest.id = (
    select id from mine where session_id = s.session_id order by turn desc, created_at desc, id desc limit 1
)
order by s.turn desc, s.created_at desc, s.id desc
"""

LOOKED_THROUGH = 20_000
"""How many of a shared memory's newest prompts are scanned for a session of the project: about 20 ms."""

LATEST_OF_ALL = f"""
select m.session_id from session_memories m
where m.session_id is not null and m.session_id <> '{OWN_MEMORIES}'
and m.session_id is distinct from %(besides)s and {UNEXPIRED}
order by m.turn desc, m.created_at desc, m.id desc limit 1
"""

# Hooks and imports store the project's folder with prompts.
LATEST_SPOKEN_IN = f"""
with prompts as (
    select m.session_id, {{project:m}} as folder, m.turn, m.created_at, m.id from session_memories m
    where m.memory_type = '{MemoryKind.INPUT_PROMPT}' and m.session_iter = 1 and {UNEXPIRED}
    order by m.turn desc, m.created_at desc, m.id desc limit {LOOKED_THROUGH}
)
select session_id from prompts
where session_id is distinct from %(besides)s and (folder = %(folder)s or %(owns)s and folder is not null)
order by turn desc, created_at desc, id desc limit 1
"""

# Sessions whose agents named none have the project's name and a day.
LATEST_OF_PROJECT = f"""
select m.session_id from session_memories m
where m.session_id > %(prefix)s and m.session_id < %(end)s and length(m.session_id) = %(length)s
    and m.session_id is distinct from %(besides)s and {UNEXPIRED}
order by m.turn desc, m.created_at desc, m.id desc limit 1
"""

# In a text with the character NUL, which the original server stored, SQLite counts only what is before it.
MOMENTS = f"""
m.id as memory_id, m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code, m.title, m.created_at,
m.turn, substr(m.content, 1, %(characters)s) as beginning, {{characters:m}} as content_length,
{{octets:m}} as content_bytes, m.chunk_count, m.access_count, {PINNED} as pinned
"""

LEFT_SINCE = f"""
select {MOMENTS} from session_memories m
where (m.turn, m.created_at) >= (%(turn)s, %(since)s) and {{unindexed:m.memory_type}} = %(kind)s
    and m.session_id is distinct from %(besides)s
    and {CURRENT} and (m.session_id = %(session_id)s or not exists (
        select 1 from session_memories p
        where p.session_id = m.session_id and p.memory_type = '{MemoryKind.INPUT_PROMPT}'
    ))
order by m.turn desc, m.created_at desc, m.id desc limit %(limit)s
"""

CREATED = f"select m.created_at from session_memories m where {UNEXPIRED} order by m.created_at"


def of_expired(belonging: str) -> str:
    """Return the query for the number of rows that belong to what has expired."""
    return f"(select count(*) from memory_lifecycle l join {belonging} = l.memory_id where {EXPIRED})"


OF_SESSION = f"""
select count(*) as total_memories, coalesce(sum(chunk_count), 0) as total_chunks,
    count(*) filter (where {{lacking}}) as without_vectors, max(session_iter) as latest_iteration,
    min(created_at) as earliest_created, max(created_at) as latest_created
from session_memories m where {{visible:m}} and m.session_id = %(id)s and {UNEXPIRED}
"""

NAMES = """
with recursive names(name) as (
    select min(m.{column}) from session_memories m where {unexpired}
    union all
    select (select min(m.{column}) from session_memories m where m.{column} > name and {unexpired})
    from names where name is not null
) select count(name) from names
"""
"""How many names are in a column that an index begins with: each is looked up after the one before."""

# Each count reads an index: in the rows, SQLite would read past the texts to the columns behind them.
OF_ALL = f"""
select (select count(*) from session_memories) - {of_expired("session_memories m on m.id")} as total_memories,
    (select count(*) from memory_chunks) - {of_expired("memory_chunks c on c.parent_id")} as total_chunks,
    ({NAMES.format(column="session_id", unexpired=UNEXPIRED)}) as total_sessions,
    ({NAMES.format(column="agent_id", unexpired=UNEXPIRED)}) as total_agents,
    (select count(*) from session_memories m where {{lacking}} and {UNEXPIRED}) as without_vectors,
    ({CREATED} limit 1) as earliest_created, ({CREATED} desc limit 1) as latest_created,
    (select model from embedding_models where is_current) as embedding_model, {{size}} as database_bytes
"""

TOLD = """
select client, count(distinct session) as sessions, sum(tokens) / count(distinct session) as tokens_per_session,
    count(*) filter (where is_recap) as recaps, count(*) filter (where not is_recap) as recalls, sum(used) as used
from (
    select client, session, is_recap, tokens, max(case when is_used then 1 else 0 end) as used
    from recalls group by client, session, told_at, is_recap, tokens
) told group by client order by client
"""


HOUR = len("2026-11-27T21")

OLDEST_FIRST = "order by m.turn, m.created_at, m.id"


def summary_from_row(*, agents: str, memory_types: str, **columns: Any) -> SessionSummary:
    """Return a SessionSummary for a row of LISTED."""
    return SessionSummary(agents=texts_in(agents), memory_types=object_in(memory_types), **columns)


def counted_by(column: str, condition: str = "true") -> str:
    """Return the query for the number of memories for each value of a column."""
    return f"""
        select {column} as name, count(*) as number from session_memories m
        where {{visible:m}} and {condition} and {UNEXPIRED} group by {column} order by {column}
    """


def newest_first(condition: str) -> str:
    """Return the query for the ids of memories, newest first. It reads a covering index where one exists."""
    return f"""
        select m.id from session_memories m where {{visible:m}} and {condition}
        order by m.turn desc, m.created_at desc, m.id desc
    """


class SessionQueries(OverVectors):
    """Reads sessions."""

    def page(self, scope: Scope, limit: int, agents: int) -> tuple[list[SessionSummary], int]:
        """Return up to `limit` sessions of a scope with up to `agents` agents each, latest first, and their total."""
        condition = memory_filter(scope)
        listed = LISTED.replace("{condition}", condition.sql)
        total = f"select count(distinct m.session_id) from session_memories m where {{visible:m}} and {condition.sql}"
        found, (count,) = self.connection.batch(
            Query(summary_from_row, listed, condition.parameters | {"limit": limit, "agents": agents}),
            Query(value_of, total, condition.parameters),
        )
        return found, count

    def latest(self, project: Project, besides: str | None = None) -> str | None:
        """Return the project's session with the user's latest prompt, or else its latest one; never `besides`.

        Only prompts stored by a hook or an import are known to be the user's.
        """
        if self.connection.sessions is not None:  # these are all there is
            latest, _ = self.page(Scope(), 2, 1)
            return next((one.session_id for one in latest if one.session_id != besides), None)
        named = {"folder": project.folder, "owns": project.owns_memory, "besides": besides}
        found = self.connection.fetch_value(LATEST_SPOKEN_IN, named)
        if found is None and project.owns_memory:
            found = self.connection.fetch_value(LATEST_OF_ALL, {"besides": besides})
        elif found is None:
            prefix, length = project.session_on(""), len(project.session_on("0000-00-00"))
            dated = {"prefix": prefix, "end": f"{prefix}:", "length": length, "besides": besides}
            found = self.connection.fetch_value(LATEST_OF_PROJECT, dated)
        return None if found is None else str(found)

    def timeline(self, scope: Scope, limit: int, characters: int, offset: int = 0) -> list[Moment]:
        """Return the `limit` newest memories of a scope after the first `offset`, oldest first.

        They have the first `characters` of their text.
        """
        condition = memory_filter(scope)
        listed = f"{newest_first(condition.sql)} limit %(limit)s offset %(offset)s"
        sql = f"select {MOMENTS} from session_memories m where m.id in ({listed}) {OLDEST_FIRST}"
        parameters = condition.parameters | {"limit": limit, "offset": offset, "characters": characters}
        return self.connection.fetch(Moment, sql, parameters)

    def newest(self, scope: Scope) -> list[int]:
        """Return the ids of the memories of a scope, the newest first."""
        condition = memory_filter(scope)
        return self.connection.fetch_column(newest_first(condition.sql), condition.parameters)

    def moments(self, memory_ids: Sequence[int], characters: int) -> list[Moment]:
        """Return memories, oldest first, with the first `characters` of their text."""
        sql = f"select {MOMENTS} from session_memories m where {{visible:m}} and m.id {{among:ids}} {OLDEST_FIRST}"
        return self.connection.fetch(Moment, sql, {"ids": list(memory_ids), "characters": characters})

    def activity(self, scope: Scope) -> list[Activity]:
        """Return how much each agent stored in each hour of a scope, by hour and agent."""
        condition = memory_filter(scope)
        sql = f"""
            select substr(m.created_at, 1, {HOUR}) as hour, m.agent_id, count(*) as memories
            from session_memories m where {{visible:m}} and {condition.sql} group by 1, 2 order by 1, 2
        """
        return self.connection.fetch(Activity, sql, condition.parameters)

    def sizes(self, by: str, scope: Scope, limit: int) -> list[Size]:
        """Return how many memories of a scope have each value of a column, and how large they are, largest first."""
        condition = memory_filter(scope)
        sql = f"""
            select m.{by} as name, count(*) as memories, sum({{octets:m}}) as bytes
            from session_memories m where {{visible:m}} and {condition.sql} group by 1 order by 3 desc limit %(limit)s
        """
        return self.connection.fetch(Size, sql, condition.parameters | {"limit": limit})

    def left_since(self, span: Span, kind: MemoryKind, limit: int, characters: int) -> list[Moment]:
        """Return the newest memories of a kind in a span, oldest first, with the first `characters` of their text."""
        if self.connection.sessions is not None:  # the others may not be seen
            return []
        turn, since = span.since
        known = {"turn": turn, "since": since, "session_id": span.session_id, "besides": span.besides}
        parameters = known | {"kind": str(kind), "limit": limit, "characters": characters}
        return self.connection.fetch(Moment, LEFT_SINCE, parameters)[::-1]

    def counts(self, session_id: str) -> SessionCounts:
        """Return the statistics of a session; those of an unknown session are zero."""
        self.connection.require(session_id)
        one, of_session = {"id": session_id}, "session_id = %(id)s"
        counts: SessionCounts
        (counts,), kinds, agents = self.connection.batch(
            Query(SessionCounts, OF_SESSION.replace("{lacking}", self.vectors.lacking.condition), one),
            Query(Counted, counted_by("memory_type", of_session), one),
            Query(Counted, counted_by("agent_id", of_session), one),
        )
        return replace(counts, memory_counts=dict(kinds), agent_counts=dict(agents))

    def statistics(self) -> MemoryCounts:
        """Return the statistics of the whole memory."""
        counts: MemoryCounts
        (counts,), kinds, told = self.connection.batch(
            Query(MemoryCounts, OF_ALL.replace("{lacking}", self.vectors.lacking.condition)),
            Query(Counted, counted_by("memory_type")),
            Query(RecallCounts, TOLD),
        )
        return replace(counts, memory_counts=dict(kinds), recalls=told)

    def find_names(self, by: NamedBy, part: str, scope: Scope, limit: int) -> tuple[list[str], int]:
        """Return up to `limit` names from the sessions of a scope that contain `part`, and their total number.

        Names that start with `part` come first, then the most recently used. ASCII letters match in either case.
        """
        if "\0" in part:  # no name has it, and PostgreSQL does not accept it
            return [], 0
        condition = memory_filter(scope)
        sql = f"""
            with found as (
                select m.{by} as name, max(m.id) as latest from session_memories m
                where {{visible:m}} and m.session_id is not null and m.{by} is not null
                    and {{position}}(lower(m.{by}), %(part)s) > 0 and {condition.sql}
                group by m.{by}
            )
            select name, count(*) over () as number from found
            order by {{position}}(lower(name), %(part)s) > 1, latest desc limit %(limit)s
        """
        parameters = condition.parameters | {"part": ascii_lower(part), "limit": limit}
        found = self.connection.fetch(Counted, sql, parameters)
        return [one.name for one in found], found[0].number if found else 0
