"""Prepares a database for servers whose roles may create nothing."""

from collections.abc import Mapping, Sequence
from contextlib import closing

from vector_memory.errors import DatabaseError
from vector_memory.storage.postgres import beginnings, migrations, tenant_tables
from vector_memory.storage.postgres.connecting import connect
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.errors import translated_errors
from vector_memory.storage.postgres.statement import Row
from vector_memory.storage.postgres.tenant_tables import NONE, READING, grant, rights

ADD = """
insert into roles values (%s, %s, %s)
on conflict (name) do update set may_write = excluded.may_write, only_schema = excluded.only_schema
"""

PORTION = 100
"""Memories that one transaction prepares. It keeps a lock on each table and index until its end."""

NOT_ALLOWED = "This role may not create tables in the database: use one that owns it, or has the right CREATE on it."


def prepare(
    url: str,
    schema: str,
    dimensions: int,
    may_write: Mapping[str, bool],
    shared_schema: str,
    namespace_prefix: str,
    *,
    only: bool = False,
) -> list[str]:
    """Create or upgrade all tables, and let roles use them; return the schemas of memories.

    If it fails after the first PORTION of memories, those before are prepared: repeat the call.

    `may_write`: the roles to add, with whether they may write. `only`: these may use the memory of `schema`, no other.
    """
    opening = beginnings.maintaining(shared_schema)
    with translated_errors(), closing(connect(url)) as connection:
        with connection.writing(opening):
            (may_create,) = connection.execute("select has_database_privilege(current_database(), 'create')").fetchall()
            if not may_create[0]:
                raise DatabaseError(NOT_ALLOWED)
            tenant_tables.create(connection, shared_schema)
            for role, writes in may_write.items():
                connection.execute(ADD, (role, writes, schema if only else None))
            names = connection.execute("select name from namespaces order by name").fetchall()
            known = connection.execute(tenant_tables.ROLES).fetchall()
            shared = [(shared_schema, role, READING if writes and own is None else NONE) for role, writes, own in known]
            grant(connection, shared)
            memories = list(dict.fromkeys([schema, *(f"{namespace_prefix}{name}" for (name,) in names)]))
            prepare_memories(connection, memories[:PORTION], dimensions, known)
        for start in range(PORTION, len(memories), PORTION):
            with connection.writing(opening):
                prepare_memories(connection, memories[start : start + PORTION], dimensions, known)
    return memories


def prepare_memories(connection: Connection, memories: Sequence[str], dimensions: int, known: Sequence[Row]) -> None:
    """Create or upgrade the tables of some memories, and let the known roles use them."""
    for memory in memories:
        migrations.migrate(connection, memory, dimensions)
    grant(connection, [(memory, *each) for memory in memories for each in rights(known, memory)])
