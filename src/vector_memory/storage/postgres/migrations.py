"""Creates the tables of a memory in its schema, and upgrades them. All processes may try: one does it.

A migration and its number commit together. Whoever opens a memory that is up to date needs no right to create anything.
"""

from collections.abc import Callable, Sequence

import psycopg
from psycopg import errors as postgres
from psycopg.sql import SQL, Identifier

from vector_memory.errors import DatabaseError
from vector_memory.storage.postgres import schema as tables
from vector_memory.storage.postgres.connecting import NO_PGVECTOR, pgvector_in, require_supported, set_up
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.state import NEWER

LOCK_KEY = 0x76656374  # "vect"
"""Of the advisory lock under which the schemas of a database are created and upgraded, one at a time."""

MISSING = (
    "There is no memory in this schema of the database yet: run `vector-memory database prepare` with a role that may "
    "create tables."
)
OUTDATED = (
    "The tables of this memory are older than this release of vector-memory: run `vector-memory database prepare` with "
    "a role that may change them."
)


def create_tables(connection: psycopg.Connection[tuple[object, ...]], dimensions: int) -> None:
    """Create the tables of a memory whose vectors have this length."""
    for script in tables.FIRST_TABLES:
        connection.execute(script.replace("{dimensions}", str(dimensions)).encode())
    connection.execute("insert into namespace (id, schema_version, dimensions) values (1, 0, %s)", (dimensions,))


def index_names_above(connection: psycopg.Connection[tuple[object, ...]], _dimensions: int) -> None:
    """Let all words be indexed again: those of a unit now include those of its title and of the headings above it."""
    connection.execute(tables.OUTDATED_WORDS.encode())
    connection.execute("insert into outdated_words select id from keyword_blocks")


def add_token_states(connection: psycopg.Connection[tuple[object, ...]], _dimensions: int) -> None:
    """Make room for the states of tokens. Passages that are stored already have none until they are embedded again."""
    connection.execute(tables.STATES_OF_TOKENS.encode())
    # By its schema: a statement would also find a table of this name in the schema of pgvector.
    spare = "select to_regclass(quote_ident(current_schema()) || '.spare_memory_passages')"
    if connection.execute(spare).fetchall() != [(None,)]:
        connection.execute(tables.STATES_OF_TOKENS.replace("memory_passages", "spare_memory_passages").encode())


def time_promises(connection: psycopg.Connection[tuple[object, ...]], _dimensions: int) -> None:
    """Record since when a process computes the vectors of a memory."""
    connection.execute(tables.PROMISED_AT.encode())


def fold_words(connection: psycopg.Connection[tuple[object, ...]], _dimensions: int) -> None:
    """Let all words be indexed again: equal words now have equal terms, however they are written."""
    connection.execute("insert into outdated_words select id from keyword_blocks on conflict do nothing")


def add_generations(connection: psycopg.Connection[tuple[object, ...]], _dimensions: int) -> None:
    """Make room for on which server the memory is: its writers notice when it goes on from a copy."""
    connection.execute(tables.GENERATIONS.encode())


MIGRATIONS: Sequence[Callable[[Connection, int], None]] = (
    create_tables,
    index_names_above,
    add_token_states,
    time_promises,
    fold_words,
    add_generations,
)
"""A migration gets the length of the vectors."""


def prepare(connection: Connection, schema: str, dimensions: int, *, read_only: bool) -> None:
    """Bring a schema up to date, unless a newer release has changed it. Raises DatabaseError."""
    done = applied(connection, schema)
    if done < len(MIGRATIONS):
        if read_only:
            raise DatabaseError(OUTDATED if done else MISSING)
        migrate(connection, schema, dimensions)
    elif done > len(MIGRATIONS):
        raise DatabaseError(NEWER)
    require_supported(connection)


def migrate(connection: Connection, schema: str, dimensions: int) -> None:
    """Run the migrations that are missing, while nobody else does."""
    done = 0
    try:
        with connection.transaction():
            connection.execute("select set_config('lock_timeout', '60s', true), pg_advisory_xact_lock(%s)", (LOCK_KEY,))
            if pgvector_in(connection) is None:
                create_extension(connection)
            require_supported(connection)
            done = applied(connection, schema)
            if not done:
                connection.execute(SQL("create schema if not exists {}").format(Identifier(schema)).as_string())
            set_up(connection, schema, {})
            if done:  # a writer of an earlier release ends first, and the next one finds the new version
                connection.execute("select from namespace for update")
            for migration in MIGRATIONS[done:]:
                migration(connection, dimensions)
            connection.execute("update namespace set schema_version = greatest(schema_version, %s)", (len(MIGRATIONS),))
    except postgres.InsufficientPrivilege:
        raise DatabaseError(OUTDATED if done else MISSING) from None


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


def applied(connection: Connection, schema: str) -> int:
    """Return the number of migrations that a schema has had; 0: it has no tables, or does not exist."""
    if not has_tables(connection, schema):
        return 0
    version = connection.execute(f"select schema_version from {Identifier(schema).as_string()}.namespace").fetchone()
    return int(version[0]) if version else 0


def has_tables(connection: Connection, schema: str) -> bool:
    """Return whether a schema has the tables of a memory."""
    (row,) = connection.execute("select to_regclass(format('%%I.namespace', %s::text))", (schema,)).fetchall()
    return row[0] is not None
