"""How long memories are current: until they expire, or until a later memory supersedes them.

`supersessions` has who supersedes whom. What follows from it, and from times of expiry, is kept in `memory_lifecycle`,
so that a search asks one row for each memory that has one. A memory is superseded from when the first memory that
supersedes it was created until all of these have expired, with all that supersede them in turn; usually for ever.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vector_memory.storage.connection import Queries

EXPIRED = "l.expires_at <= {utc}"
"""Whether a memory whose lifecycle is `l` no longer exists for readers. A transaction has one time for all of them."""

OUTDATED = f"""
({EXPIRED} or l.superseded_at is not null and (l.superseded_until is null or l.superseded_until > {{utc}}))
"""
"""Whether it has expired or is superseded."""

UNEXPIRED = f"""
not exists (select 1 from memory_lifecycle l where l.memory_id = m.id and {EXPIRED})
"""
"""Whether a memory `m` still exists for readers."""

CURRENT = f"""
not exists (select 1 from memory_lifecycle l where l.memory_id = m.id and {OUTDATED})
"""
"""Whether it also is not superseded."""

UNPINNED = """
not exists (select 1 from memory_lifecycle l where l.memory_id = m.id and l.pinned)
"""
"""Whether age or a policy may remove it."""

CURRENT_THEN = """
m.created_at <= %(as_of)s and not exists (
    select 1 from memory_lifecycle l where l.memory_id = m.id and (
        l.expires_at <= {utc}
        or l.superseded_at <= %(as_of)s and (l.superseded_until is null or l.superseded_until > %(as_of)s)
    )
)
"""
"""Whether it was stored and not superseded at a time. What has expired since then is gone."""

SUPERSEDING = """
select n.created_at, l.expires_at, l.superseded_at, l.superseded_until
from supersessions s join session_memories n on n.id = s.newer_id left join memory_lifecycle l on l.memory_id = n.id
where s.older_id = %(id)s
"""


class Lifecycle(NamedTuple):
    """When a memory expires, from when until when it is superseded, and whether it is pinned. None: never, for ever."""

    expires_at: str | None = None
    superseded_at: str | None = None
    superseded_until: str | None = None
    pinned: bool = False


class Superseding(NamedTuple):
    """A memory that supersedes another one: when it was created, and its own lifecycle."""

    created_at: str
    expires_at: str | None
    superseded_at: str | None
    superseded_until: str | None

    @property
    def until(self) -> str | None:
        """When neither it nor what supersedes it is left; None: never."""
        if self.expires_at is None or (self.superseded_at is not None and self.superseded_until is None):
            return None
        return max(self.expires_at, self.superseded_until or self.expires_at)


class Link(NamedTuple):
    """Two memories, of which the newer supersedes the older."""

    older_id: int
    newer_id: int


class LifecycleQueries(Queries):
    """Reads which memories are current."""

    def now(self) -> str:
        """Return the time of this transaction, by the clock that says what has expired."""
        return str(self.connection.fetch_value("select {utc} as now"))

    def expired(self, limit: int) -> list[int]:
        """Return the ids of up to `limit` memories that have expired, those that did first in front."""
        sql = f"""
            select l.memory_id from memory_lifecycle l join session_memories m on m.id = l.memory_id
            where {EXPIRED} order by l.expires_at limit %(limit)s
        """
        return self.connection.fetch_column(sql, {"limit": limit})

    def lifecycle(self, memory_id: int) -> Lifecycle:
        """Return the lifecycle of a memory."""
        sql = """
            select expires_at, superseded_at, superseded_until, pinned from memory_lifecycle where memory_id = %(id)s
        """
        return self.connection.fetch_one(Lifecycle, sql, {"id": memory_id}) or Lifecycle()

    def superseding(self, memory_ids: Sequence[int]) -> list[Link]:
        """Return what supersedes memories directly, by ascending ids of both."""
        sql = """
            select older_id, newer_id from supersessions where older_id {among:ids} order by older_id, newer_id
        """
        return self.connection.fetch(Link, sql, {"ids": list(memory_ids)})

    def superseded_by(self, memory_ids: Sequence[int]) -> list[Link]:
        """Return what memories supersede directly, by ascending ids of both."""
        sql = """
            select older_id, newer_id from supersessions where newer_id {among:ids} order by newer_id, older_id
        """
        return self.connection.fetch(Link, sql, {"ids": list(memory_ids)})


class LifecycleChanges(LifecycleQueries):
    """Changes which memories are current."""

    def expire(self, memory_id: int, at: str | None) -> None:
        """Let a memory expire at a time, or never."""
        self._set(memory_id, "expires_at", at)
        self._refresh(link.older_id for link in self.superseded_by([memory_id]))

    def pin(self, memory_id: int, *, pinned: bool) -> None:
        """Pin a memory, or unpin it."""
        self._set(memory_id, "pinned", pinned)

    def keep(self, memory_id: int, expires_at: str | None, *, pinned: bool) -> None:
        """Let a new memory expire at a time, unless that is None, and pin it if it is `pinned`."""
        if expires_at is not None:
            self.expire(memory_id, expires_at)
        if pinned:
            self.pin(memory_id, pinned=True)

    def supersede(self, newer_id: int, older_ids: Iterable[int]) -> None:
        """Let a memory supersede others, which were stored before it: so no memory supersedes itself in the end."""
        older = list(older_ids)
        self.connection.insert(
            "supersessions", [{"older_id": each, "newer_id": newer_id} for each in older], "on conflict do nothing"
        )
        self._refresh(older)

    def release(self, newer_id: int, older_ids: Iterable[int]) -> None:
        """Let a memory no longer supersede others."""
        older = list(older_ids)
        sql = "delete from supersessions where newer_id = %(newer)s and older_id {among:ids}"
        self.connection.later(sql, {"newer": newer_id, "ids": older})
        self._refresh(older)

    def unlink(self, memory_id: int) -> list[int]:
        """Prepare for deleting a memory, and return what it supersedes: from now on, what supersedes it does."""
        older = [link.older_id for link in self.superseded_by([memory_id])]
        if older:
            newer = [link.newer_id for link in self.superseding([memory_id])]
            rows = [{"older_id": one, "newer_id": other} for one in older for other in newer]
            self.connection.insert("supersessions", rows, "on conflict do nothing")
            self.connection.later("delete from supersessions where newer_id = %(id)s", {"id": memory_id})
            self._refresh(older)
        return older

    def _refresh(self, memory_ids: Iterable[int]) -> None:
        """Set from when until when memories are superseded, and what follows for those that they supersede."""
        waiting = list(memory_ids)
        while waiting:
            memory_id = waiting.pop()
            found = self.connection.fetch(Superseding, SUPERSEDING, {"id": memory_id})
            ends = [each.until for each in found]
            since = min((each.created_at for each in found), default=None)
            until = None if None in ends else max(filter(None, ends), default=None)
            known = self.lifecycle(memory_id)
            if (since, until) != (known.superseded_at, known.superseded_until):
                self._set(memory_id, "superseded_at", since)
                self._set(memory_id, "superseded_until", until)
                waiting += [link.older_id for link in self.superseded_by([memory_id])]

    def _set(self, memory_id: int, column: str, value: object) -> None:
        """Set one column of the lifecycle of a memory."""
        sql = f"""
            insert into memory_lifecycle (memory_id, {column}) values (%(id)s, %(value)s)
            on conflict (memory_id) do update set {column} = excluded.{column}
        """
        self.connection.later(sql, {"id": memory_id, "value": value})
