"""Creates the tables of a memory in its schema.

All processes may try: one does it. Opening a memory that has its tables needs no right to create anything.
"""

from secrets import token_hex

import psycopg
from psycopg import errors as postgres
from psycopg.sql import SQL, Identifier

from vector_memory.errors import DatabaseError
from vector_memory.extras.postgres import beginnings
from vector_memory.extras.postgres import schema as tables
from vector_memory.extras.postgres.beginnings import GIVEN_AWAY, MOVED, NEWER
from vector_memory.extras.postgres.connecting import NO_PGVECTOR, ConnectionPool, pgvector_in, require_supported
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.schema import VERSION
from vector_memory.storage.base import EXPORT_AND_IMPORT

LOCK_KEY = 0x76656374  # "vect"
"""Key of the advisory lock under which a database's schemas are created and upgraded, one at a time."""

MISSING = (
    "There is no memory in this schema of the database yet: run `vector-memory database prepare` with a role that may "
    "create tables."
)
DEVELOPMENT = (
    "The tables of this memory were created by a development version of vector-memory, and were not changed. "
    f"{EXPORT_AND_IMPORT}"
)


def create_tables(connection: psycopg.Connection[tuple[object, ...]], dimensions: int) -> None:
    """Create the tables of a memory whose vectors have this length."""
    commands = (command for script in tables.TABLES for command in script.split(";") if command.strip())
    for command in commands:
        connection.execute(command.encode())
    connection.execute(
        "insert into namespace (id, schema_version, dimensions) values (1, %s, %s)", (VERSION, dimensions)
    )
    connection.execute("insert into provenance (id, memory) values (1, %s)", (token_hex(16),))


def prepare(pool: ConnectionPool, schema: str, dimensions: int, *, read_only: bool) -> None:
    """Create the tables of a schema unless it has them. Raises DatabaseError for those of another release."""
    with pool.connection() as connection, connection.reading(beginnings.looking(schema)):
        version = version_of(connection, schema)
        if version == VERSION:
            return require_supported(connection)
    if version > VERSION:
        raise DatabaseError(NEWER)
    if read_only:
        raise DatabaseError(MISSING)
    with pool.connection() as connection, connection.writing(beginnings.maintaining(schema)):
        migrate(connection, schema, dimensions)
    return None


def migrate(connection: Connection, schema: str, dimensions: int) -> None:
    """Create the tables while nobody else does.

    The connection is in a transaction without time limits, whose statements can name the tables afterwards.
    """
    try:
        connection.execute("select set_config('lock_timeout', '60s', true), pg_advisory_xact_lock(%s)", (LOCK_KEY,))
        if pgvector_in(connection) is None:
            create_extension(connection)
        require_supported(connection)
        is_new = not version_of(connection, schema)
        if is_new:
            connection.execute(SQL("create schema if not exists {}").format(Identifier(schema)).as_string())
        connection.together(*beginnings.in_schema(schema, {}))
        if is_new:
            create_tables(connection, dimensions)
    except postgres.InsufficientPrivilege:
        raise DatabaseError(MISSING) from None


def create_extension(connection: Connection) -> None:
    """Add pgvector to the database. Raises DatabaseError if the server has none, or the role may not."""
    try:
        connection.execute("create extension vector with schema public")
    except (
        postgres.InsufficientPrivilege,
        postgres.FeatureNotSupported,
        postgres.UndefinedFile,
        postgres.InvalidSchemaName,
    ):
        raise DatabaseError(NO_PGVECTOR) from None


def version_of(connection: Connection, schema: str) -> int:
    """Return the version of a schema; 0: it has no tables, or does not exist. Raises DatabaseError for one too old."""
    version = recorded_version(connection, schema)
    if version == GIVEN_AWAY:
        raise DatabaseError(MOVED)
    if 0 < version < VERSION:
        raise DatabaseError(DEVELOPMENT)
    return version


def recorded_version(connection: Connection, schema: str) -> int:
    """Return the recorded version of a schema; 0: it has no tables, or does not exist."""
    if not has_tables(connection, schema):
        return 0
    version = connection.execute(f"select schema_version from {Identifier(schema).as_string()}.namespace").fetchone()
    return int(version[0]) if version else 0


def has_tables(connection: Connection, schema: str) -> bool:
    """Return whether a schema has the tables of a memory."""
    (row,) = connection.execute("select to_regclass(format('%%I.namespace', %s::text))", (schema,)).fetchall()
    return row[0] is not None


def revision(connection: Connection, schema: str) -> int:
    """Return a number that ascends with every commit. No transaction."""
    ((number,),) = connection.execute(f"select revision from {Identifier(schema).as_string()}.namespace").fetchall()
    return int(number)
