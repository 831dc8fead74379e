"""Prepares a database for servers whose roles may create nothing."""

from collections.abc import Mapping
from contextlib import closing

from vector_memory.errors import DatabaseError
from vector_memory.storage.postgres import beginnings, migrations, tenant_tables
from vector_memory.storage.postgres.connecting import connect
from vector_memory.storage.postgres.errors import translated_errors
from vector_memory.storage.postgres.tenant_tables import READING, grant, rights

ADD = """
insert into roles values (%s, %s, %s)
on conflict (name) do update set may_write = excluded.may_write, only_schema = excluded.only_schema
"""

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

    `may_write`: the roles to add, with whether they may write. `only`: these may use the memory of `schema`, no other.
    """
    opening = beginnings.maintaining(shared_schema)
    with translated_errors(), closing(connect(url)) as connection, connection.writing(opening):
        (may_create,) = connection.execute("select has_database_privilege(current_database(), 'create')").fetchall()
        if not may_create[0]:
            raise DatabaseError(NOT_ALLOWED)
        tenant_tables.create(connection, shared_schema)
        for role, writes in may_write.items():
            connection.execute(ADD, (role, writes, schema if only else None))
        names = connection.execute("select name from namespaces order by name").fetchall()
        memories = [schema, *(f"{namespace_prefix}{name}" for (name,) in names)]
        memories = list(dict.fromkeys(memories))
        known = connection.execute(tenant_tables.ROLES).fetchall()
        for memory in memories:
            migrations.migrate(connection, memory, dimensions)
        for role, writes, own in known:
            grant(connection, shared_schema, role, READING if writes and own is None else None)
            for memory in memories:
                may_use = own in {None, memory}
                grant(connection, memory, role, rights(may_write=writes) if may_use else None)
        return memories
