"""Memories whose vectors a process is computing: `pending_vectors`.

A process leases what it has promised to index. If it ends before it is done, its leases run out, and any other process
that has the file open takes them over, one at a time: see `indexing.background`. An attempt is a lease that was taken
over and has not led to any new vectors yet. After a few attempts a memory is left to the backfill, because its text
seems to kill every process that embeds it.
"""

import apsw

from vector_memory.domain import Scope
from vector_memory.storage.records import RECENT_SECONDS, Lease, Memory, Pending
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.memories import COLUMNS, memory_from_row
from vector_memory.storage.sqlite.rows import fetch_one, fetch_value

PROMISED_AT = "alter table pending_vectors add column promised_at real not null default 0"

MAX_ATTEMPTS = 3

MANY = 16
"""Of so many memories that a process has leased, others take some over."""

# No lease is as long as a minute: one that ends later was taken before the clock was set back.
IS_HELD = "leased_until between unixepoch('subsec') and unixepoch('subsec') + 60"

TO_TAKE_OVER = f"""
coalesce(
    (select min(memory_id) from pending_vectors where not {IS_HELD} and attempts < {MAX_ATTEMPTS}),
    (
        select max(memory_id) from pending_vectors where {IS_HELD} and owner <> :owner
        group by owner having count(*) >= {MANY} order by count(*) desc limit 1
    )
)
"""


def defer_vectors(connection: apsw.Connection, memory_id: int, lease: Lease) -> None:
    """Note that the holder of the lease computes the vectors of a memory."""
    sql = "insert into pending_vectors values (?, ?, ?, 0, unixepoch('subsec'))"
    connection.execute(sql, (memory_id, lease.owner, lease.until))


def defer_missing_vectors(connection: apsw.Connection) -> None:
    """Leave all memories without vectors to whoever takes them over, unless they were already left to somebody."""
    connection.execute(
        """
        insert or ignore into pending_vectors
        select id, '', 0, 0, 0 from session_memories where embedding_model_id is null
        """
    )


def renew_leases(connection: apsw.Connection, lease: Lease) -> None:
    """Let the holder's leases end later."""
    connection.execute("update pending_vectors set leased_until = :until where owner = :owner", lease._asdict())


def take_over(connection: apsw.Connection, lease: Lease) -> None:
    """Take over a memory, if there is one to take over. If it was left behind, this counts as an attempt."""
    connection.execute(
        f"""
        update pending_vectors set owner = :owner, leased_until = :until, attempts = attempts + not ({IS_HELD})
        where memory_id = {TO_TAKE_OVER}
        """,
        lease._asdict(),
    )


def release_leases(connection: apsw.Connection, owner: str, failed: int | None) -> None:
    """Let any process go on with what this one has not done, or only with the memory that has `failed`.

    Otherwise that is not the fault of the text, so the attempt at the one memory that was taken over does not count.
    """
    connection.execute(
        """
        update pending_vectors
        set leased_until = 0, owner = iif(:failed is null, owner, ''),
            attempts = iif(:failed is null, max(attempts - 1, 0), attempts)
        where owner = :owner and memory_id = coalesce(:failed, memory_id)
        """,
        {"owner": owner, "failed": failed},
    )


def end_leases(connection: apsw.Connection) -> None:
    """Let any process go on with what others have leased: vectors of their model are no longer stored."""
    connection.execute("update pending_vectors set owner = '', leased_until = 0")


def note_progress(connection: apsw.Connection, memory_id: int) -> None:
    """Forget the attempts at a memory, because it has got new vectors."""
    connection.execute("update pending_vectors set attempts = 0 where memory_id = ?", (memory_id,))


def settle(connection: apsw.Connection, memory_id: int) -> None:
    """Note that nobody computes the vectors of a memory any more."""
    connection.execute("delete from pending_vectors where memory_id = ?", (memory_id,))


def next_leased(connection: apsw.Connection, owner: str, most_characters: int | None) -> Memory | None:
    """Return the oldest memory, of no more characters, that a process has leased."""
    sql = f"""
        select {COLUMNS} from pending_vectors p join session_memories m on m.id = p.memory_id
        where p.owner = :owner and (:most is null or length(m.content) <= :most) order by p.memory_id limit 1
    """
    return fetch_one(connection, memory_from_row, sql, {"owner": owner, "most": most_characters})


def can_take_over(connection: apsw.Connection, owner: str) -> bool:
    """Return whether there is a memory for a process to take over."""
    return fetch_value(connection, f"select {TO_TAKE_OVER}", {"owner": owner}) is not None


def next_unindexed(connection: apsw.Connection, after_id: int, *, given_up: bool) -> Memory | None:
    """Return the memory without all its vectors that has the smallest id above `after_id`, and nobody works on.

    `given_up`: one that has had MAX_ATTEMPTS, or one that has not.
    """
    return fetch_one(
        connection,
        memory_from_row,
        f"""
        select {COLUMNS} from session_memories m left join pending_vectors on memory_id = m.id
        where m.embedding_model_id is null and m.id > ? and ({IS_HELD}) is not true
            and (coalesce(attempts, 0) >= {MAX_ATTEMPTS}) is {given_up}
        order by m.id limit 1
        """,
        (after_id,),
    )


def pending(connection: apsw.Connection, scope: Scope, until: int | None, owner: str | None) -> Pending:
    """Return which memories of a scope have vectors that somebody is computing now, with ids up to `until`."""
    condition = memory_filter(scope)
    sql = f"""
        select count(*) as memories, coalesce(sum(octet_length(m.content)), 0) as size, max(m.id) as last_id,
            max(unixepoch('subsec') - promised_at) filter (
                where abs(unixepoch('subsec') - promised_at) < {RECENT_SECONDS}
            ) as seconds
        from pending_vectors cross join session_memories m on m.id = memory_id
        where {IS_HELD} and (:until is null or m.id <= :until) and (:owner is null or owner = :owner)
            and {condition.sql}
    """
    return fetch_one(connection, Pending, sql, {**condition.bindings, "until": until, "owner": owner}) or Pending()
