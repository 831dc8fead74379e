"""How long memories are current, and which are newer than others and on their subject (`later_links`).

A memory is current until it expires, or until a later memory supersedes it.

`supersessions` records which memory supersedes which. A memory is superseded as long as any memory that supersedes it
exists, directly or through others: once a memory has expired or is deleted, what it supersedes passes to those that
supersede it. The result is kept in `memory_lifecycle`, so that a search reads at most one row for each memory: when it
was superseded, and when everything that supersedes it will have expired; usually never.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from vector_memory.domain import Scope, utc_now
from vector_memory.storage.connection import Connection, Queries, Steps, ask, read
from vector_memory.storage.queries.filters import EXPIRED, UNPINNED, memory_filter
from vector_memory.storage.records import Hold, Later, Link, Links

PENDING = "pending"
"""Why a memory is held that awaits a person's review."""

QUARANTINED = "quarantined"
"""Why a memory is held that a person has taken out of use."""

GONE = "0001"
"""When a memory that is held back has expired, for what it supersedes."""

SUPERSEDING = f"""
select o.id as memory_id, ol.superseded_at as known_at, ol.superseded_until as known_until, n.id as newer_id,
    n.created_at, case when nl.held is null then nl.expires_at else '{GONE}' end as expires_at, nl.superseded_at,
    nl.superseded_until
from ({{memories}}) o left join memory_lifecycle ol on ol.memory_id = o.id
left join supersessions s on s.older_id = o.id left join session_memories n on n.id = s.newer_id
left join memory_lifecycle nl on nl.memory_id = n.id order by o.id desc
"""
"""What supersedes memories directly, and since when each is superseded itself; one row also if nothing does."""

BEFORE = """
with recursive earlier(id, step) as (
    select id, 0 from session_memories where id {among:ids}
    union select s.older_id, e.step + 1 from earlier e join supersessions s on s.newer_id = e.id
    where e.step < %(steps)s
)
select distinct id from earlier
"""
"""Memories, and what they supersede in so many steps."""

ALL_SUPERSEDED = """
select older_id as id from supersessions
union select memory_id from memory_lifecycle where superseded_at is not null
"""


def links_from(near: str, far: str) -> str:
    """Return the query for the links of memories, from their column `near` to `far`, past what has expired."""
    expired = f"exists (select 1 from memory_lifecycle l where l.memory_id = s.{far} and {EXPIRED})"
    return f"""
        with recursive linked(start, id, is_gone) as (
            select s.{near}, s.{far}, {expired} from supersessions s where s.{near} {{among:ids}}
            union select k.start, s.{far}, {expired} from linked k join supersessions s on s.{near} = k.id
            where k.is_gone
        )
        select start as {near}, id as {far} from linked
        where not is_gone and {{visible_id:linked.start}} and {{visible_id:linked.id}} order by start, id
    """


class Superseding(NamedTuple):
    """A row of `SUPERSEDING`."""

    memory_id: int
    known_at: str | None
    known_until: str | None
    newer_id: int | None
    created_at: str | None
    expires_at: str | None
    superseded_at: str | None
    superseded_until: str | None


Span = tuple[str | None, str | None]
"""From when until when a memory is superseded. None: never, for ever."""


class Supersession(NamedTuple):
    """Two memories, of which the newer supersedes the older."""

    older_id: int
    newer_id: int


MOST_COUNTED = 1_000
"""Maximum number of superseded memories of a scope that are counted."""


class LifecycleQueries(Queries):
    """Reads which memories are current."""

    def expired(self, limit: int) -> list[int]:
        """Return the ids of up to `limit` expired memories, the first to expire first; of deleted ones, too."""
        sql = """
            select l.memory_id from memory_lifecycle l join session_memories m on m.id = l.memory_id
            where l.expires_at <= {utc} or l.held_until <= {utc} order by l.expires_at limit %(limit)s
        """
        return self.connection.fetch_column(sql, {"limit": limit})

    def held(self) -> list[Hold]:
        """Return the memories that are held back, the first to be held first."""
        sql = """
            select l.memory_id, l.held, l.held_at, l.held_for, l.held_until
            from memory_lifecycle l join session_memories m on m.id = l.memory_id
            where {visible:m} and l.held is not null and (l.held_until is null or l.held_until > {utc})
            order by l.held_at, l.memory_id
        """
        return self.connection.fetch(Hold, sql)

    @read
    def superseding(self, memory_ids: Collection[int]) -> Steps[list[Supersession]]:
        """Return what supersedes memories, by ascending ids of both."""
        return ask(Supersession, links_from("older_id", "newer_id"), {"ids": list(memory_ids)})

    @read
    def superseded_by(self, memory_ids: Collection[int]) -> Steps[list[Supersession]]:
        """Return what memories supersede, by ascending ids of both."""
        return ask(Supersession, links_from("newer_id", "older_id"), {"ids": list(memory_ids)})

    def wrong(self) -> list[int]:
        """Return the memories whose superseded state contradicts their links."""
        return list(wrong_spans(self.connection, ALL_SUPERSEDED)[1])


def wrong_spans(connection: Connection, memories: str, **parameters: object) -> tuple[set[int], dict[int, Span]]:
    """Return the ids that a query finds, and the correct spans of memories whose stored spans are wrong."""
    rows = connection.fetch(Superseding, SUPERSEDING.format(memories=memories), parameters)
    wrong: dict[int, Span] = {}
    for memory_id, group in groupby(rows, key=lambda row: row.memory_id):
        newer = list(group)
        span = span_of(newer, wrong)
        if span != (newer[0].known_at, newer[0].known_until):
            wrong[memory_id] = span
    return {row.memory_id for row in rows}, wrong


class LifecycleChanges(Queries):
    """Changes which memories are current."""

    def expire(self, memory_id: int, at: str | None) -> None:
        """Set when a memory expires, or that it never does."""
        self._set(memory_id, expires_at=at)
        self.refresh(self._superseded_directly(memory_id))

    def pin(self, memory_id: int, *, pinned: bool) -> None:
        """Pin a memory, or unpin it."""
        self._set(memory_id, pinned=pinned)

    def hold(self, memory_ids: Iterable[int], hold: str | None, why: str | None, until: str | None = None) -> None:
        """Hold memories back for a reason, or release them: None. What they supersede becomes current, or is not.

        `until`: when they are erased.
        """
        ids, at = list(memory_ids), utc_now() if hold else None
        for number in ids:
            self._set(number, held=hold, held_at=at, held_for=why, held_until=until)
        self.refresh(self._superseded_directly(*ids))

    def keep(self, memory_id: int, expires_at: str | None, *, pinned: bool) -> None:
        """Set when a new memory expires, unless that is None, and pin it if it is `pinned`."""
        if expires_at is not None:
            self.expire(memory_id, expires_at)
        if pinned:
            self.pin(memory_id, pinned=True)

    def supersede(self, newer_id: int, older_ids: Iterable[int]) -> None:
        """Make a memory supersede others, which have lower ids, so there are no cycles."""
        older = list(older_ids)
        self._link(Supersession(each, newer_id) for each in older)
        self.refresh(older)

    def release(self, newer_id: int, older_ids: Iterable[int]) -> None:
        """Stop a memory from superseding others, directly or through expired ones."""
        gone = f"""
            select s.older_id from supersessions s join memory_lifecycle l on l.memory_id = s.older_id
            where s.newer_id = %(id)s and {EXPIRED}
        """
        while any(self.bypass(number) for number in self.connection.fetch_column(gone, {"id": newer_id})):
            pass
        older = list(older_ids)
        sql = "delete from supersessions where newer_id = %(newer)s and older_id {among:ids}"
        self.connection.later(sql, {"newer": newer_id, "ids": older})
        self.refresh(older)

    def bypass(self, memory_id: int) -> list[int]:
        """Prepare to delete a memory, and return what it supersedes: that passes to what supersedes it."""
        older = self._superseded_directly(memory_id)
        if older:
            sql = "select older_id, newer_id from supersessions where older_id = %(id)s"
            newer = [link.newer_id for link in self.connection.fetch(Supersession, sql, {"id": memory_id})]
            self._link(Supersession(one, other) for one in older for other in newer)
            self.connection.later("delete from supersessions where newer_id = %(id)s", {"id": memory_id})
            self.refresh(older)
        return older

    def _link(self, found: Iterable[Supersession]) -> None:
        self.connection.insert("supersessions", [link._asdict() for link in found], "on conflict do nothing")

    def _superseded_directly(self, *memory_ids: int) -> list[int]:
        sql = "select distinct older_id from supersessions where newer_id {among:ids}"
        return self.connection.fetch_column(sql, {"ids": list(memory_ids)})

    def refresh(self, memory_ids: Iterable[int]) -> None:
        """Set when memories are superseded, and the consequences for those they supersede.

        Mostly there are none. If all memories of a chain expire, each has some, so more and more are read at once.
        """
        waiting, steps = set(memory_ids), 1
        while waiting:
            read, wrong = wrong_spans(self.connection, BEFORE, ids=list(waiting), steps=steps)
            for memory_id, (since, until) in wrong.items():
                self._set(memory_id, superseded_at=since, superseded_until=until)
            waiting, steps = set(self._superseded_directly(*wrong)) - read, steps * 4

    def _set(self, memory_id: int, **values: object) -> None:
        """Set columns of the lifecycle of a memory."""
        names, placed = ", ".join(values), ", ".join(f"%({name})s" for name in values)
        changes = ", ".join(f"{name} = excluded.{name}" for name in values)
        sql = f"""
            insert into memory_lifecycle (memory_id, {names}) values (%(id)s, {placed})
            on conflict (memory_id) do update set {changes}
        """
        self.connection.later(sql, values | {"id": memory_id})


def span_of(newer: Iterable[Superseding], changed: Mapping[int, Span]) -> Span:
    """Return when a memory is superseded, given what supersedes it, and what has `changed` since the read."""
    since, until = list[str](), list[str | None]()
    for each in newer:
        if each.newer_id is not None and each.created_at is not None:
            at, end = changed.get(each.newer_id, (each.superseded_at, each.superseded_until))
            since.append(min(at or each.created_at, each.created_at))
            is_for_ever = each.expires_at is None or (at is not None and end is None)
            until.append(None if is_for_ever else max(each.expires_at or "", end or ""))
    return min(since, default=None), None if None in until else max(filter(None, until), default=None)


# The order of storing, whatever the clocks of their machines said.
IS_OLDER = "(other.turn, other.created_at, other.id) < (m.turn, m.created_at, m.id)"

# A text of low trust says nothing about what is true now, except of others of low trust.
LINK = f"""
insert into later_links (older_id, newer_id, evidence)
select case when {IS_OLDER} then other.id else m.id end, case when {IS_OLDER} then m.id else other.id end,
    cast(%(evidence)s as double precision)
from session_memories m cross join session_memories other
where m.id = %(id)s and other.id = %(other)s
    and (case when {IS_OLDER} then m.trust else other.trust end >= 0 or m.trust = other.trust)
on conflict do nothing
"""

# A memory that corrects another also replaces what that one has corrected.
LINK_FURTHER = """
insert into later_links (older_id, newer_id, evidence)
select l.older_id, %(id)s, max(l.evidence) from later_links l join later_links own on own.older_id = l.newer_id
where own.newer_id = %(id)s and (
    (select trust from session_memories where id = %(id)s) >= 0
    or (select trust from session_memories where id = l.older_id) < 0
) group by l.older_id
on conflict do nothing
"""

UNLINK = """
delete from later_links where older_id {among:ids} and newer_id {among:ids} and evidence < %(outstanding)s
"""


class LaterQueries(Queries):
    """Reads links."""

    @read
    def later_than(self, memory_ids: Sequence[int], scope: Scope, characters: int) -> Steps[list[Later]]:
        """Return the memories of a scope that are linked to older ones, the newest first.

        `characters`: of their beginnings.
        """
        condition = memory_filter(scope)
        sql = f"""
            select l.older_id, l.evidence, m.id, m.title, m.agent_id, m.created_at,
                substr(m.content, 1, %(characters)s) as beginning
            from later_links l cross join session_memories m
            where {{visible:m}} and {{visible_id:l.older_id}} and l.older_id {{among:ids}} and m.id = l.newer_id
                and {condition.sql}
            order by m.turn desc, m.created_at desc, m.id desc
        """
        parameters = condition.parameters | {"ids": list(memory_ids), "characters": characters}
        return ask(Later, sql, parameters)

    @read
    def among(self, memory_ids: Sequence[int]) -> Steps[list[Link]]:
        """Return the links of memories with each other."""
        sql = """
            select older_id, newer_id, evidence from later_links l
            where {visible_id:l.older_id} and {visible_id:l.newer_id}
                and older_id {among:ids} and newer_id {among:ids}
            order by older_id, newer_id
        """
        return ask(Link, sql, {"ids": list(memory_ids)})

    def after(self, after: tuple[int, int], limit: int) -> list[Link]:
        """Return the first `limit` links after the one of an older and a newer memory, in this order."""
        sql = """
            select older_id, newer_id, evidence from later_links where (older_id, newer_id) > (%(older)s, %(newer)s)
            order by older_id, newer_id limit %(limit)s
        """
        return self.connection.fetch(Link, sql, {"older": after[0], "newer": after[1], "limit": limit})

    def within(self, scope: Scope) -> list[Link]:
        """Return the links between memories of a scope."""
        condition = memory_filter(scope)
        mine = f"in (select m.id from session_memories m where {{visible:m}} and {condition.sql})"
        sql = f"select older_id, newer_id, evidence from later_links where older_id {mine} and newer_id {mine}"
        return self.connection.fetch(Link, sql, condition.parameters)

    def unread(self, scope: Scope, before: str) -> list[int]:
        """Return the ids of memories of a scope created before a time, not read, linked or pinned, oldest first."""
        condition = memory_filter(scope)
        sql = f"""
            select m.id from session_memories m
            where {{visible:m}} and m.access_count = 0 and m.created_at < %(before)s and {condition.sql} and {UNPINNED}
                and not exists (select 1 from later_links l where m.id in (l.older_id, l.newer_id)
                    and {{visible_id:l.older_id}} and {{visible_id:l.newer_id}})
            order by m.created_at, m.id
        """
        return self.connection.fetch_column(sql, condition.parameters | {"before": before})


class LaterChanges(Queries):
    """Changes links."""

    def link(self, memory_id: int, links: Links) -> None:
        """Link a memory with older and newer ones on its subject that still exist, and unlink a series."""
        for other, evidence in links.evidence.items():
            self.connection.later(LINK, {"id": memory_id, "other": other, "evidence": evidence})
        if links.evidence:
            self.connection.later(LINK_FURTHER, {"id": memory_id})
        if links.series:
            self.connection.later(UNLINK, {"ids": list(links.series), "outstanding": links.outstanding})

    def add_links(self, links: Sequence[Link]) -> None:
        """Add links of memories that are stored."""
        self.connection.insert("later_links", [link._asdict() for link in links])

    def unlink(self, older_id: int) -> None:
        """Delete the links of a memory with newer ones."""
        self.connection.later("delete from later_links where older_id = %(id)s", {"id": older_id})

    def remove_links(self) -> None:
        """Delete all links."""
        self.connection.later("delete from later_links")
