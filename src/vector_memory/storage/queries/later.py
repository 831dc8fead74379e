"""Which memories are newer than others and on their subject: `later_links`."""

from collections.abc import Sequence

from vector_memory.domain import Scope
from vector_memory.storage.connection import Queries, Steps, ask, read
from vector_memory.storage.queries.filters import memory_filter
from vector_memory.storage.queries.lifecycle import UNPINNED
from vector_memory.storage.records import Later, Link, Links

# The order of storing, whatever the clocks of their machines said.
IS_OLDER = "(other.turn, other.created_at, other.id) < (m.turn, m.created_at, m.id)"

LINK = f"""
insert into later_links (older_id, newer_id, evidence)
select case when {IS_OLDER} then other.id else m.id end, case when {IS_OLDER} then m.id else other.id end,
    cast(%(evidence)s as double precision)
from session_memories m cross join session_memories other where m.id = %(id)s and other.id = %(other)s
on conflict do nothing
"""

# A memory that corrects another also replaces what that one has corrected.
LINK_FURTHER = """
insert into later_links (older_id, newer_id, evidence)
select l.older_id, %(id)s, max(l.evidence) from later_links l join later_links own on own.older_id = l.newer_id
where own.newer_id = %(id)s group by l.older_id
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
