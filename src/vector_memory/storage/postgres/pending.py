"""Memories whose vectors a process is computing: `pending_vectors`, as in the SQLite engine.

The clock of the server counts, since those of several machines differ: a lease is as long as its holder says.
"""

import time
from typing import Any

from vector_memory.domain import Scope
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.filters import memory_filter
from vector_memory.storage.postgres.memories import COLUMNS, memory_from_row
from vector_memory.storage.postgres.rows import fetch_one, fetch_value
from vector_memory.storage.postgres.transaction_header import IS_HELD
from vector_memory.storage.records import RECENT_SECONDS, Lease, Memory, Pending

MAX_ATTEMPTS = 3

MANY = 16
"""Of so many memories that a process has leased, others take some over."""

TO_TAKE_OVER = f"""
coalesce(
    (select min(memory_id) from pending_vectors where not ({IS_HELD}) and attempts < {MAX_ATTEMPTS}),
    (
        select max(memory_id) from pending_vectors where {IS_HELD} and owner <> %(owner)s
        group by owner having count(*) >= {MANY} order by count(*) desc limit 1
    )
)
"""

NOW = "extract(epoch from clock_timestamp())"

UNTIL = f"{NOW} + %(seconds)s"


def bindings_of(lease: Lease) -> dict[str, Any]:
    """Return the holder of a lease, and how long it lasts from now."""
    return {"owner": lease.owner, "seconds": lease.until - time.time()}


def defer_vectors(connection: Connection, memory_id: int, lease: Lease) -> None:
    """Note that the holder of the lease computes the vectors of a memory."""
    connection.later(
        f"insert into pending_vectors values (%(id)s, %(owner)s, {UNTIL}, 0, {NOW})",
        bindings_of(lease) | {"id": memory_id},
    )


def defer_missing_vectors(connection: Connection) -> None:
    """Leave all memories without vectors to whoever takes them over, unless they were already left to somebody."""
    connection.later(
        """
        insert into pending_vectors
        select id, '', 0, 0, 0 from session_memories where embedding_model_id is null
        on conflict do nothing
        """
    )


def renew_leases(connection: Connection, lease: Lease) -> None:
    """Let the holder's leases end later."""
    sql = f"update pending_vectors set leased_until = {UNTIL} where owner = %(owner)s"
    connection.later(sql, bindings_of(lease))


def take_over(connection: Connection, lease: Lease) -> None:
    """Take over a memory, if there is one to take over. If it was left behind, this counts as an attempt."""
    connection.later(
        f"""
        update pending_vectors
        set owner = %(owner)s, leased_until = {UNTIL}, attempts = attempts + ({IS_HELD} is not true)::int
        where memory_id = {TO_TAKE_OVER}
        """,
        bindings_of(lease),
    )


def release_leases(connection: Connection, owner: str, failed: int | None) -> None:
    """Let any process go on with what this one has not done, or only with the memory that has `failed`.

    Otherwise that is not the fault of the text, so the attempt at the one memory that was taken over does not count.
    """
    connection.later(
        """
        update pending_vectors set leased_until = 0,
            owner = case when %(failed)s::bigint is null then owner else '' end,
            attempts = case when %(failed)s::bigint is null then greatest(attempts - 1, 0) else attempts end
        where owner = %(owner)s and memory_id = coalesce(%(failed)s, memory_id)
        """,
        {"owner": owner, "failed": failed},
    )


def end_leases(connection: Connection) -> None:
    """Let any process go on with what others have leased: vectors of their model are no longer stored."""
    connection.later("update pending_vectors set owner = '', leased_until = 0")


def note_progress(connection: Connection, memory_id: int) -> None:
    """Forget the attempts at a memory, because it has got new vectors."""
    connection.later("update pending_vectors set attempts = 0 where memory_id = %s", (memory_id,))


def settle(connection: Connection, memory_id: int) -> None:
    """Note that nobody computes the vectors of a memory any more."""
    connection.later("delete from pending_vectors where memory_id = %s", (memory_id,))


def next_leased(connection: Connection, owner: str, most_characters: int | None) -> Memory | None:
    """Return the oldest memory, of no more characters, that a process has leased."""
    sql = f"""
        select {COLUMNS} from pending_vectors p join session_memories m on m.id = p.memory_id
        where p.owner = %(owner)s and (%(most)s::bigint is null or m.content_length <= %(most)s)
        order by p.memory_id limit 1
    """
    return fetch_one(connection, memory_from_row, sql, {"owner": owner, "most": most_characters})


def can_take_over(connection: Connection, owner: str) -> bool:
    """Return whether there is a memory for a process to take over."""
    return fetch_value(connection, f"select {TO_TAKE_OVER}", {"owner": owner}) is not None


def next_unindexed(connection: Connection, after_id: int, *, given_up: bool) -> Memory | None:
    """Return the memory without all its vectors that has the smallest id above `after_id`, and nobody works on.

    `given_up`: one that has had MAX_ATTEMPTS, or one that has not.
    """
    return fetch_one(
        connection,
        memory_from_row,
        f"""
        select {COLUMNS} from session_memories m left join pending_vectors p on p.memory_id = m.id
        where m.embedding_model_id is null and m.id > %s and ({IS_HELD}) is not true
            and (coalesce(p.attempts, 0) >= {MAX_ATTEMPTS}) is {given_up}
        order by m.id limit 1
        """,
        (after_id,),
    )


def pending(connection: Connection, scope: Scope, until: int | None, owner: str | None) -> Pending:
    """Return which memories of a scope have vectors that somebody is computing now, with ids up to `until`."""
    if not connection.state.pending:
        return Pending()
    condition = memory_filter(scope)
    sql = f"""
        select count(*) as memories, coalesce(sum(m.content_bytes), 0)::bigint as size, max(m.id) as last_id,
            max({NOW} - p.promised_at) filter (where abs({NOW} - p.promised_at) < {RECENT_SECONDS})::float as seconds
        from pending_vectors p join session_memories m on m.id = p.memory_id
        where {IS_HELD} and (%(until)s::bigint is null or m.id <= %(until)s)
            and (%(owner)s::text is null or p.owner = %(owner)s) and {condition.sql}
    """
    bindings = {**condition.parameters, "until": until, "owner": owner}
    return fetch_one(connection, Pending, sql, bindings) or Pending()
