"""How a connection to a PostgreSQL server is made, and what the server must be."""

import logging
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.refusals import refusal
from vector_memory.storage.postgres.statement import Statement

# psycopg logs what follows from an error that it also raises, and its messages can quote what is stored.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)

OLDEST_SERVER = 15
OLDEST_PGVECTOR = (0, 8, 4)
"""Of the releases before it, one reads beyond a buffer, and one may corrupt an index."""

PGVECTOR_REQUIRED = ".".join(map(str, OLDEST_PGVECTOR))
NO_PGVECTOR = (
    f"The database has no pgvector: install pgvector {PGVECTOR_REQUIRED} or newer on its server, and run "
    "`create extension vector` in the database, as its administrator."
)
NO_UNICODE = "The database cannot store every text: create one with the encoding UTF8 (`createdb --encoding=UTF8`)."

ADDRESS: Mapping[str, str | int] = {
    "connect_timeout": 2,
    "application_name": "vector-memory",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 2_000,
}
"""Parameters of a connection, unless its address has them. A server that does not answer counts as lost after seconds.
"""

SETTINGS: Mapping[str, str] = {
    "plan_cache_mode": "force_custom_plan",  # the plan of a search depends on its scope
    "jit": "off",
    "standard_conforming_strings": "on",  # else psycopg doubles the backslashes of bytes
    "array_nulls": "on",
    "client_min_messages": "warning",  # which a connection takes note of while it commits
    "tcp_keepalives_idle": "10",  # so that the server ends the transaction of a machine that is gone
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

MAINTAINING: Mapping[str, str] = {**SETTINGS, "statement_timeout": "0", "lock_timeout": "0"}
"""For statements that take as long as they need, whatever the role is set to."""

READING: Mapping[str, str] = {**SETTINGS, "statement_timeout": "60s"}
WRITING: Mapping[str, str] = {
    **SETTINGS,
    "plan_cache_mode": "auto",  # writers look for ids: planning takes longer than running the statement
    "enable_seqscan": "off",  # so a plan that was made for a small table is as good when the table has grown
    "statement_timeout": "900s",
    "lock_timeout": "100ms",
    "idle_in_transaction_session_timeout": "20s",  # a writer that was stopped keeps others waiting, who do so for 30
}

# Before it, somebody's function in the schema `public` could stand for one that the next statement names.
BUILT_IN = Statement("select pg_catalog.set_config('search_path', 'pg_catalog', false)")

# The schema of pg_temp is last: else somebody's temporary table could stand for one of ours.
SET_UP = """
select set_config('search_path', concat_ws(', ', quote_ident(%(schema)s), (
        select quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace
        where e.extname = 'vector'
    ), 'pg_temp'), false),
    (select count(set_config(name, value, false)) from unnest(%(names)s::text[], %(values)s::text[]) s(name, value))
"""


def connect(url: str, schema: str, settings: Mapping[str, str]) -> Connection:
    """Return a connection whose statements name the tables of a schema, and the types of pgvector if it is there.

    `settings`: READING, WRITING or MAINTAINING. Raises UnreachableError if the server may answer later, and
    DatabaseError otherwise.
    """
    parameters = parameters_in(url)
    try:
        connection = Connection.connect(**parameters, autocommit=True)
    except psycopg.OperationalError as error:
        refused = refusal(error)
        refused.add_note(f"The database is {parameters.get('dbname', '')} at {parameters.get('host', 'localhost')}.")
        raise refused from None
    try:
        set_up(connection, schema, settings)
    except BaseException:
        connection.close()
        raise
    return connection


def parameters_in(url: str) -> dict[str, Any]:
    """Return what a connection is made with. Raises ConfigurationError for a parameter that libpq does not know."""
    try:
        return {**ADDRESS, **conninfo_to_dict(url), "client_encoding": "UTF8"}
    except psycopg.ProgrammingError:
        raise ConfigurationError(
            "A parameter in the database URL is unknown or invalid: check what follows ?."
        ) from None


def set_up(connection: Connection, schema: str, settings: Mapping[str, str]) -> None:
    """Set the search path and the settings of a connection."""
    named = {"schema": schema, "names": list(settings), "values": list(settings.values())}
    connection.together(BUILT_IN, Statement(SET_UP, named))


def require_supported(connection: Connection) -> None:
    """Raise DatabaseError if the server or its pgvector is older than what this release needs, or not for Unicode."""
    if connection.info.server_version < OLDEST_SERVER * 10_000:
        raise DatabaseError(
            f"The server runs PostgreSQL {connection.info.server_version // 10_000}: use PostgreSQL {OLDEST_SERVER} or "
            "newer."
        )
    if connection.info.parameter_status("server_encoding") != "UTF8":
        raise DatabaseError(NO_UNICODE)
    installed = pgvector_in(connection)
    if installed is None:
        raise DatabaseError(NO_PGVECTOR)
    if version_of(installed) < OLDEST_PGVECTOR:
        raise DatabaseError(
            f"The database has pgvector {installed}, which can return wrong results: install pgvector "
            f"{PGVECTOR_REQUIRED} or newer on its server, and run `alter extension vector update` in the database."
        )


def pgvector_in(connection: Connection) -> str | None:
    """Return which version of pgvector the database has; None: it has none."""
    rows = connection.execute("select extversion from pg_extension where extname = 'vector'").fetchall()
    return next((str(version) for (version,) in rows), None)


def version_of(text: str) -> tuple[int, ...]:
    """Return a version as numbers, for comparison."""
    return tuple(int(part) for part in text.split(".") if part.isdecimal())
