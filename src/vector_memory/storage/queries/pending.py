"""Memories whose vectors a process is computing: `pending_vectors`.

A process leases what it has promised to index. If it ends first, its leases expire, and any other process that has the
memory open takes them over, one at a time: see `writing.background`. An attempt is a lease that was taken over and has
not led to new vectors yet. After a few attempts a memory is left to the backfill, because its text seems to kill every
process that embeds it. The database's clock counts, since machines' clocks differ: a lease is as long as its holder
says.
"""

import time
from typing import TYPE_CHECKING, Any, cast

from vector_memory.domain import Fingerprint, Scope
from vector_memory.storage.connection import Queries, Query, Steps, read
from vector_memory.storage.queries.filters import memory_filter
from vector_memory.storage.queries.memories import COLUMNS, memory_from_row
from vector_memory.storage.queries.passages import Model, PassageChanges, PassageQueries
from vector_memory.storage.records import RECENT_SECONDS, EmbeddedPassage, Lease, Memory, Pending

if TYPE_CHECKING:
    from vector_memory.storage.base import Reader, Writer


MAX_ATTEMPTS = 3

MANY = 16
"""If a process has leased this many memories, others take some over."""

# No lease lasts a minute: one that ends later was taken before the clock was set back.
IS_HELD = "leased_until between {now} and {now} + 60"

TO_TAKE_OVER = f"""
coalesce(
    (select min(memory_id) from pending_vectors where not ({IS_HELD}) and attempts < {MAX_ATTEMPTS}),
    (
        select max(memory_id) from pending_vectors where {IS_HELD} and owner <> %(owner)s
        group by owner having count(*) >= {MANY} order by count(*) desc limit 1
    )
)
"""

UNTIL = "{now} + %(seconds)s"


def values_of(lease: Lease) -> dict[str, Any]:
    """Return the holder of a lease, and how long it lasts from now."""
    return {"owner": lease.owner, "seconds": lease.until - time.time()}


class PendingQueries(PassageQueries):
    """Reads which vectors are outstanding, and which passages have some."""

    def embedded_passages(self, memory_id: int) -> list[EmbeddedPassage]:
        """Return the passages of a memory that have vectors so far, in order."""
        sql = f"""
            select coalesce(c.chunk_index, 0) as unit, p.start_char as start, p.end_char as end
            from memory_passages p left join memory_chunks c on c.id = p.chunk_id
            where p.memory_id = %(id)s and {self.passages_read} order by p.id
        """
        return self.connection.fetch(EmbeddedPassage, sql, {"id": memory_id})

    def next_without_vectors(self, after_id: int, *, given_up: bool = False) -> Memory | None:
        """Return the memory with the smallest id above `after_id` that lacks vectors, and that nobody works on.

        `given_up`: one that several processes took over without progress; else any other.
        """
        sql = f"""
            select {COLUMNS} from session_memories m left join pending_vectors p on p.memory_id = m.id
            where {self.lacking.condition} and m.id > %(after)s and ({IS_HELD}) is not true
                and (coalesce(p.attempts, 0) >= {MAX_ATTEMPTS}) = %(given_up)s
            order by m.id limit 1
        """
        return self.connection.fetch_one(memory_from_row, sql, {"after": after_id, "given_up": given_up})

    def next_leased(self, owner: str, most_characters: int | None = None) -> Memory | None:
        """Return the oldest memory of at most this many characters whose vectors a process has promised."""
        sql = f"""
            select {COLUMNS} from pending_vectors p join session_memories m on m.id = p.memory_id
            where p.owner = %(owner)s and ({{characters:m}} <= %(most)s or %(most)s is null)
            order by p.memory_id limit 1
        """
        return self.connection.fetch_one(memory_from_row, sql, {"owner": owner, "most": most_characters})

    def can_take_over(self, owner: str) -> bool:
        """Return whether there is a memory for a process to take over: left behind, or of one that has many."""
        return self.connection.fetch_value(f"select {TO_TAKE_OVER}", {"owner": owner}) is not None

    @read
    def pending(self, scope: Scope, until: int | None = None, owner: str | None = None) -> Steps[Pending]:
        """Return which memories of a scope have vectors that somebody is computing now, with ids up to `until`.

        `owner`: only those that this process has promised.
        """
        condition = memory_filter(scope)
        sql = f"""
            select count(*) as memories, cast(coalesce(sum({{octets:m}}), 0) as bigint) as size, max(m.id) as last_id,
                max({{now}} - p.promised_at) filter (where abs({{now}} - p.promised_at) < {RECENT_SECONDS}) as seconds
            from pending_vectors p cross join session_memories m
            where {{visible:m}} and m.id = p.memory_id and {IS_HELD} and (m.id <= %(until)s or %(until)s is null)
                and (p.owner = %(owner)s or %(owner)s is null) and {condition.sql}
        """
        parameters = condition.parameters | {"until": until, "owner": owner}
        found = yield Query(Pending, sql, parameters)
        return next(iter(found), Pending())


class PendingChanges(PassageChanges):
    """Changes which process computes vectors."""

    def defer_vectors(self, memory_id: int, lease: Lease) -> None:
        """Note that the holder of the lease computes the vectors of a memory after this transaction."""
        sql = f"""
            insert into pending_vectors values (%(id)s, %(owner)s, {UNTIL}, 0, {{now}})
            on conflict (memory_id) do update
                set owner = excluded.owner, leased_until = excluded.leased_until, attempts = 0
        """
        self.connection.later(sql, values_of(lease) | {"id": memory_id})

    def defer_missing_vectors(self) -> None:
        """Make all memories without vectors available to any process, unless one has them already."""
        self.connection.later(
            f"""
            insert into pending_vectors
            select m.id, '', 0, 0, 0 from session_memories m where {self.vectors.lacking.condition}
            on conflict do nothing
            """
        )

    def renew_leases(self, lease: Lease) -> None:
        """Extend the holder's leases."""
        sql = f"update pending_vectors set leased_until = {UNTIL} where owner = %(owner)s"
        self.connection.later(sql, values_of(lease))

    def take_over(self, lease: Lease) -> None:
        """Lease the oldest memory that was left behind, or else the newest of the process that has the most left.

        Of a process that has only a few left, none is taken.
        A memory that was taken over several times without getting any new vectors is given up: `next_without_vectors`
        returns it on request.
        """
        sql = f"""
            update pending_vectors set owner = %(owner)s, leased_until = {UNTIL},
                attempts = attempts + case when {IS_HELD} then 0 else 1 end
            where memory_id = {TO_TAKE_OVER}
        """
        self.connection.later(sql, values_of(lease))

    def release_leases(self, owner: str, failed: int | None = None) -> None:
        """Release this process's leases; the memory that has `failed` may be retried a few times.

        Otherwise the text is not at fault, so the attempt at the one memory that it took over does not count.
        """
        sql = """
            update pending_vectors set leased_until = 0, owner = case when %(all)s then owner else '' end,
                attempts = case when %(all)s and attempts > 0 then attempts - 1 else attempts end
            where owner = %(owner)s and (%(all)s or memory_id = %(failed)s)
        """
        self.connection.later(sql, {"owner": owner, "failed": failed, "all": failed is None})

    def end_leases(self) -> None:
        """End other processes' leases: vectors of their model are no longer stored."""
        self.connection.later("update pending_vectors set owner = '', leased_until = 0")

    def note_progress(self, memory_id: int) -> None:
        """Reset the attempts at a memory, because it has new vectors."""
        self.connection.later("update pending_vectors set attempts = 0 where memory_id = %(id)s", {"id": memory_id})

    def settle(self, memory_id: int) -> None:
        """Note that a memory's vectors are settled."""
        self.connection.later("delete from pending_vectors where memory_id = %(id)s", {"id": memory_id})


# A change of the model (`vector-memory reembed`), which is recorded in the memory.
#
# From its beginning, the new model is the current one: only its vectors are stored, memory by memory, and a memory
# lacks vectors until it has all of them. Other models' vectors stay until then, for processes with these models; then
# they are removed in small steps, so that writers do not have to wait.

PASSAGES_PER_STEP = 200


class ChangeOfModel(Queries):
    """Begins and ends a change of the model. What changes anything needs a writer."""

    def __init__(self, reader: "Reader") -> None:
        super().__init__(reader.connection)
        self._vectors, self._writer = reader.vectors, cast("Writer", reader)

    def others(self) -> list[Model]:
        """Return the models whose vectors are to be removed when all memories have those of the current one."""
        return [model for model in self._vectors.models() if not model.is_current]

    def begin(self, fingerprint: Fingerprint) -> None:
        """Make a model the current one. Incomplete vectors of the previous one are removed."""
        if fingerprint == self._vectors.fingerprint():
            return
        self._writer.discard_vectors(None)
        known = next((model for model in self._vectors.models() if model.fingerprint == fingerprint), None)
        if known is None:
            self._writer.add_model(fingerprint)
        else:
            self.connection.later("update embedding_models set is_current = (id = %(id)s)", {"id": known.id})
            self._writer.vectors.forget_models()
        self._writer.end_leases()

    def remove_step(self) -> bool:
        """Remove some vectors of models that are not current, so few that writers do not wait; False: none are left."""
        others = self.others()
        if not others:
            return False
        values = {"model": others[0].id, "limit": PASSAGES_PER_STEP}
        sql = "select id from memory_passages where model_id = %(model)s order by id limit %(limit)s"
        if found := self.connection.fetch_column(sql, values):
            self.connection.later("delete from memory_passages where id {among:ids}", {"ids": found})
            return True
        # Memories that the engine fails on are complete with the earlier model.
        sql = "update session_memories set embedding_model_id = null where embedding_model_id = %(model)s"
        self.connection.later(sql, values)
        self._writer.remove_room(others[0])
        self.connection.later("delete from embedding_models where id = %(model)s", values)
        self._writer.vectors.forget_models()
        return True

    def without_states(self) -> list[int]:
        """Return the memories that have all vectors, but not the states of all tokens."""
        sql = f"""
            select distinct m.id from memory_passages p join session_memories m on m.id = p.memory_id {{with_states}}
            where {{lacks_states}} and {self._vectors.passages_read} and not ({self._vectors.lacking.condition})
            order by m.id
        """
        return self.connection.fetch_column(sql)

    def take_lease(self, lease: Lease) -> bool:
        """Take or renew the right to work on all memories; False: another process has it."""
        sql = f"select 1 from upkeep where owner <> %(owner)s and {IS_HELD}"
        if self.connection.fetch_value(sql, {"owner": lease.owner}) is not None:
            return False
        self.connection.later(f"update upkeep set owner = %(owner)s, leased_until = {UNTIL}", values_of(lease))
        return True

    def release_lease(self, owner: str) -> None:
        """Let another process continue."""
        self.connection.later("update upkeep set leased_until = 0 where owner = %(owner)s", {"owner": owner})
