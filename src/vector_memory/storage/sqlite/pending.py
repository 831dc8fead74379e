"""Memories whose vectors a process is computing: `pending_vectors`.

A process leases what it has promised to index. If it ends before it is done, its leases run out, and any other process
that has the file open takes them over: see `indexing.background`.
"""

import apsw

from vector_memory.domain import Scope
from vector_memory.storage.records import Lease, Memory
from vector_memory.storage.sqlite.filters import memory_filter
from vector_memory.storage.sqlite.memories import COLUMNS, memory_from_row
from vector_memory.storage.sqlite.rows import fetch_one, fetch_value

TABLE = """
create table pending_vectors (
    memory_id integer primary key references session_memories(id) on delete cascade,
    owner text not null,
    leased_until real not null
);
"""

# A lease that ends later than any that can be taken now was made before the clock was set back.
IS_HELD = "leased_until between :now and :until"


def defer_vectors(connection: apsw.Connection, memory_id: int, lease: Lease) -> None:
    """Note that the holder of the lease computes the vectors of a memory."""
    connection.execute("insert into pending_vectors values (?, ?, ?)", (memory_id, lease.owner, lease.until))


def take_leases(connection: apsw.Connection, lease: Lease) -> None:
    """Renew the holder's leases, and take over those that have run out."""
    connection.execute(
        f"update pending_vectors set owner = :owner, leased_until = :until where owner = :owner or not {IS_HELD}",
        lease._asdict(),
    )


def release_leases(connection: apsw.Connection, owner: str) -> None:
    """Let any other process go on with what this one has not done."""
    connection.execute("update pending_vectors set leased_until = 0 where owner = ?", (owner,))


def settle(connection: apsw.Connection, memory_id: int) -> None:
    """Note that nobody computes the vectors of a memory any more."""
    connection.execute("delete from pending_vectors where memory_id = ?", (memory_id,))


def next_pending(connection: apsw.Connection, lease: Lease) -> Memory | None:
    """Return the oldest memory that the holder has leased, or whose lease has run out."""
    sql = f"""
        select {COLUMNS} from pending_vectors p join session_memories m on m.id = p.memory_id
        where p.owner = :owner or not {IS_HELD} order by p.memory_id limit 1
    """
    return fetch_one(connection, memory_from_row, sql, lease._asdict())


def count_pending(connection: apsw.Connection, scope: Scope, lease: Lease) -> int:
    """Return how many memories of a scope have vectors that somebody is computing now."""
    condition = memory_filter(scope)
    sql = f"""
        select count(*) from pending_vectors p join session_memories m on m.id = p.memory_id
        where {IS_HELD} and {condition.sql}
    """
    return int(fetch_value(connection, sql, lease._asdict() | condition.bindings))
