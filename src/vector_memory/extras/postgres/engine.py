"""The engine as `storage.opening` uses it: opens memories, prepares databases, and has what their servers share.

Servers share namespaces with their limits, tokens, roles and a key. They are in a separate schema: only a role that may
create tables changes it; roles that serve only read it.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import LiteralString

from psycopg import errors as postgres
from psycopg.sql import SQL, Identifier

from vector_memory.errors import ConfigurationError, DatabaseError, NotFoundError
from vector_memory.extras.postgres import approximate, beginnings, migrations
from vector_memory.extras.postgres.beginnings import GIVEN_AWAY
from vector_memory.extras.postgres.connecting import ConnectionPool, connect
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.database import PostgresDatabase, PostgresStorage
from vector_memory.extras.postgres.errors import translated_errors
from vector_memory.extras.postgres.schema import SHARED, SIZE
from vector_memory.extras.postgres.statement import Row, fetch_column, fetch_value
from vector_memory.extras.postgres.transactions import PostgresConnection
from vector_memory.settings import NAMESPACE_PREFIX, SHARED_SCHEMA, DatabaseUrl
from vector_memory.storage.teams import KEY_BYTES, TABLES, HeldMemory, Sizes, Teams, TeamTables


def open_schema(address: DatabaseUrl, *, dimensions: int, read_only: bool) -> PostgresStorage:
    """Open a memory. Raises DatabaseError if it cannot be used."""
    return PostgresStorage(
        PostgresDatabase(
            address.conninfo(),
            schema=address.schema,
            dimensions=dimensions,
            read_only=read_only,
            connections=address.connections,
        )
    )


def index_vectors(address: DatabaseUrl, *, drop: bool = False) -> None:
    """Create the index of vectors for searches of large scopes, or drop it. Raises DatabaseError."""
    approximate.change(address.conninfo(), address.schema, drop=drop)


ROLES = """
create table if not exists roles (
    name text collate "C" primary key,
    may_write boolean not null,
    only_schema text collate "C"
);
"""

KNOWN = "select name, may_write, only_schema from roles"

MISSING = (
    "This database has no namespaces that this role may read: run `vector-memory database prepare --database-url URL "
    "--serve ROLE` with a role that may create tables, and then `vector-memory namespace create`."
)

NONE, READING, WRITING = "", "SELECT", "DELETE, INSERT, SELECT, UPDATE"
"""What a role may do with the tables of a schema."""

# `on all tables` would read the whole catalog for each schema, five times.
REVOKE: tuple[LiteralString, ...] = (
    "revoke all on {tables} from {role}",
    "alter default privileges in schema {schema} revoke all on tables from {role}",
    "revoke usage on schema {schema} from {role}",
)
GRANT: tuple[LiteralString, ...] = (
    "grant usage on schema {schema} to {role}",
    "grant {rights} on {tables} to {role}",
    "alter default privileges in schema {schema} grant {rights} on tables to {role}",
)

HELD = """(
    select coalesce(string_agg(distinct privilege_type, ', ' order by privilege_type), '')
    from aclexplode({acl}) where grantee = r.oid
)"""
"""The rights of a role, from a list of the catalog."""

LACKING = f"""
select w.schema, w.role, w.rights, array_agg(c.relname::text)
from unnest(%s::text[], %s::text[], %s::text[]) w(schema, role, rights)
join pg_namespace n on n.nspname = w.schema
join pg_class c on c.relnamespace = n.oid and c.relkind = 'r'
left join pg_roles r on r.rolname = w.role
left join pg_default_acl d on d.defaclnamespace = n.oid and d.defaclobjtype = 'r'
    and d.defaclrole = current_user::regrole
group by w.schema, w.role, w.rights, n.nspacl, d.defaclacl, r.oid
having r.oid is null or bool_or({HELD.format(acl="c.relacl")} <> w.rights)
    or {HELD.format(acl="d.defaclacl")} <> w.rights
    or {HELD.format(acl="n.nspacl")} <> case when w.rights <> '' then 'USAGE' else '' end
"""
"""The schemas and roles whose rights differ from the wanted ones, with the tables of the schema."""


class SharedTables(TeamTables):
    """The tables of a database. `dimensions`: the length of vectors in new namespaces."""

    def __init__(self, address: DatabaseUrl, dimensions: int) -> None:
        self._pool = ConnectionPool.of(address.conninfo(), address.connections)
        self._address = address
        self._dimensions = dimensions

    @contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Teams]:
        """Read, or change, in a transaction. Raises DatabaseError, and ConfigurationError if there are no tables."""
        with self._transaction(writes=writes) as connection:
            yield DatabaseTeams(connection, self._address, self._dimensions)

    def address(self, name: str) -> DatabaseUrl:
        """Return the schema of a namespace."""
        return self._address.of_namespace(name)

    def has_memory(self, name: str) -> bool:  # noqa: ARG002 - the engine says what is missing
        """Return True: opening the memory shows whether it exists."""
        return True

    def sizes(self, name: str) -> Sizes:
        """Return the size of a namespace's tables; the log is the server's."""
        with self._transaction() as connection:
            return Sizes(int(fetch_value(connection, SIZE, (self.address(name).schema,))), 0)

    @contextmanager
    def held(self, name: str) -> Iterator[HeldMemory]:
        """Make a memory's writers wait during the block."""
        with self._transaction(writes=True) as connection:
            schema = Identifier(self.address(name).schema).as_string(connection)
            version = fetch_value(connection, f"select schema_version from {schema}.namespace for update")
            source = fetch_value(connection, f"select source from {schema}.provenance")
            yield HeldMemory(source if version == GIVEN_AWAY else None, partial(self.give_away, connection, schema))

    def give_away(self, connection: Connection, schema: str, heir: str | None) -> None:
        """Give away a memory's tables at the end of the transaction."""
        connection.execute(f"update {schema}.provenance set source = %s", (heir,))
        connection.execute(f"update {schema}.namespace set schema_version = {GIVEN_AWAY}, revision = revision + 1")

    def memory_name(self, name: str) -> str | None:
        """Return the random name of a memory; None: the schema has no memory."""
        schema = self.address(name).schema
        with self._transaction() as connection:
            if not migrations.has_tables(connection, schema):
                return None
            named = Identifier(schema).as_string(connection)
            return str(fetch_value(connection, f"select memory from {named}.provenance"))

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    @contextmanager
    def _transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        reading = beginnings.looking(SHARED_SCHEMA, beginnings.READING)
        with translated_errors(), self._pool.connection() as connection:
            changing = connection.writing(beginnings.maintaining(SHARED_SCHEMA))
            try:
                with changing if writes else connection.reading(reading):
                    yield connection
            except postgres.UndefinedTable:
                raise ConfigurationError(MISSING) from None


class DatabaseTeams(Teams):
    """The namespaces and tokens of a database."""

    def __init__(self, raw: Connection, address: DatabaseUrl, dimensions: int) -> None:
        super().__init__(PostgresConnection(raw))
        self._raw, self._address, self._dimensions = raw, address, dimensions

    def make_memory(self, name: str) -> None:
        """Create a namespace's schema, with the roles' usual rights."""
        schema = self._address.of_namespace(name).schema
        known = self._raw.execute(KNOWN).fetchall()
        migrations.migrate(self._raw, schema, self._dimensions)
        grant(self._raw, [(schema, *each) for each in rights(known, schema)])


def create(connection: Connection, schema: str) -> None:
    """Create the tables, where they do not exist yet, in a transaction whose statements name this schema."""
    if not connection.execute("select 1 from pg_namespace where nspname = %s", (schema,)).fetchall():
        connection.execute(f"create schema {schema}")
    connection.execute(TABLES.format_map(SHARED) + ROLES)
    connection.execute(
        "insert into server_key (id, key) values (1, %s) on conflict do nothing", (os.urandom(KEY_BYTES),)
    )


def rights(known: Sequence[Row], memory: str) -> list[tuple[str, str]]:
    """Return the known roles, with what each may do with the tables of a memory."""
    return [
        (role, NONE if own not in {None, memory} else WRITING if writes else READING) for role, writes, own in known
    ]


def grant(connection: Connection, wanted: Sequence[tuple[str, str, str]]) -> None:
    """Grant roles the wanted rights on the tables of schemas, including tables that the current role creates later.

    `wanted`: schema, role and rights. Raises NotFoundError if a role does not exist.
    """
    columns = [list(column) for column in zip(*wanted, strict=True)] or [[], [], []]
    try:
        for schema, role, allowed, tables in connection.execute(LACKING, columns).fetchall():
            names = {
                "schema": Identifier(schema),
                "role": Identifier(role),
                "rights": SQL(allowed),
                "tables": SQL(", ").join(Identifier(schema, table) for table in tables),
            }
            for statement in (*REVOKE, *(GRANT if allowed else ())):
                connection.execute(SQL(statement).format(**names).as_string(connection))
    except postgres.UndefinedObject:
        raise NotFoundError(f'There is no role "{role}" in this database server: create it first.') from None


# Prepares a database for servers whose roles may create nothing.

ADD = """
insert into roles values (%s, %s, %s)
on conflict (name) do update set may_write = excluded.may_write, only_schema = excluded.only_schema
"""

PORTION = 100
"""Memories that one transaction prepares. It keeps a lock on each table and index until its end."""

NOT_ALLOWED = "This role may not create tables in the database: use one that owns it, or has the right CREATE on it."


def prepare_database(
    address: DatabaseUrl,
    *,
    dimensions: int,
    serving: Sequence[str] = (),
    reading: Sequence[str] = (),
    only: bool = False,
) -> list[str]:
    """Create or upgrade the tables of a memory, of all namespaces, and those that servers share; return the schemas.

    If it fails after the first PORTION of memories, the earlier ones are prepared: repeat the call.

    `serving`, `reading`: roles that may use the tables from now on, to write or only to read. `only`: just those of the
    memory of the address. Raises DatabaseError if the role of the address may not, NotFoundError if one of the others
    does not exist.
    """
    opening = beginnings.maintaining(SHARED_SCHEMA)
    with translated_errors(), closing(connect(address.conninfo())) as connection:
        with connection.writing(opening):
            if not fetch_value(connection, "select has_database_privilege(current_database(), 'create')"):
                raise DatabaseError(NOT_ALLOWED)
            create(connection, SHARED_SCHEMA)
            for role, writes in (dict.fromkeys(reading, False) | dict.fromkeys(serving, True)).items():
                connection.execute(ADD, (role, writes, address.schema if only else None))
            names = fetch_column(connection, "select name from namespaces order by name")
            known = connection.execute(KNOWN).fetchall()
            shared = [(SHARED_SCHEMA, role, READING if writes and own is None else NONE) for role, writes, own in known]
            grant(connection, shared)
            memories = list(dict.fromkeys([address.schema, *(f"{NAMESPACE_PREFIX}{name}" for name in names)]))
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
