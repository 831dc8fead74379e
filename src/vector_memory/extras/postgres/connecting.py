"""Connects to a PostgreSQL server, and checks that it is suitable."""

import logging
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from typing import Any

import psycopg
from psycopg import errors as postgres
from psycopg.conninfo import conninfo_to_dict

from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.extras.postgres.beginnings import UNLIMITED
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.errors import NO_NAMES, refusal, translated_errors
from vector_memory.extras.postgres.generations import SAID
from vector_memory.extras.postgres.hosts import Address, Hosts
from vector_memory.storage.cancellation import require_wanted

# psycopg logs the consequences of errors that it also raises, and its messages can quote stored texts.
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
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 2_000,
}
"""Parameters of a connection, unless its address has them. A machine that is gone is noticed after three seconds."""

POOLER = re.compile(r"(?<=[?&])pooler=prepared&|[?&]pooler=prepared(?=$)")
"""A parameter of a URL that libpq does not know."""

CARRIED = r"""
select from pg_catalog.pg_prepared_statements where statement = pg_catalog.current_query() and name not like '\_pg3\_%'
"""
"""This statement, if the session knows it under another name than psycopg gives it."""

HIDES = (
    postgres.InsufficientPrivilege,
    postgres.FeatureNotSupported,
    postgres.ObjectNotInPrerequisiteState,
    postgres.UndefinedFunction,
)
"""Errors of engines that do not let everybody see the timeline. Aurora, for example, needs a setting for it."""

FIRST_ANSWER_SECONDS = 5.0
"""How long a new connection waits for its first answer, which a pooler sends once it has a session."""


def connect(url: str) -> Connection:
    """Return a connection on which nothing is set, to the primary if the URL names several servers.

    Raises UnreachableError if the server may answer later, and DatabaseError otherwise.
    """
    return hosts_of(url).connect()


@cache
def hosts_of(url: str) -> Hosts:
    """Return the servers that a URL names."""
    return Hosts(parameters_in(url), opened)


def opened(parameters: Address) -> Connection:
    """Return a connection with these parameters of libpq. Raises as `connect`."""
    connection = None
    try:
        connection = Connection.connect(**{**parameters, "pooler": None}, autocommit=True)
        connection.opened_with = parameters
        with connection.answered_within(FIRST_ANSWER_SECONDS):
            note_server(connection)
    except psycopg.OperationalError as error:
        said, host = f"{error}", parameters.get("host")
        if connection is not None:  # it was closed at once, and the error may lack the server's last message
            said += f" {connection.pgconn.error_message!r}"
            connection.close()
        raise refusal(said, parameters.get("dbname", ""), host) from None
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


def note_server(connection: Connection) -> None:
    """Note whether a pooler is in between, and whether the server reveals its timeline.

    With a pooler, statements get no names. A server's session reports its number when it begins; a pooler has to report
    its own instead. The query runs in a transaction, which some poolers refuse.
    """
    try:
        number = backend_of(connection, f", {SAID}")
    except HIDES:
        connection.rollback()
        connection.hides_timeline = True
        number = backend_of(connection)
    connection.is_pooled = number != connection.info.backend_pid
    if connection.is_pooled and connection.opened_with["pooler"]:
        require_names(connection)
    elif connection.is_pooled:
        connection.prepare_threshold = None
    connection.rollback()


def require_names(connection: Connection) -> None:
    """Raise DatabaseError unless the pooler passes its clients' named statements on.

    Such a pooler renames them, which the session shows. Another one would run other clients' statements of the same
    name. The connection is in a transaction.
    """
    if not connection.cursor().execute(CARRIED, prepare=True).fetchall():
        connection.execute("deallocate all")  # in a session that others receive
        raise DatabaseError(NO_NAMES)


def backend_of(connection: Connection, beside: str = "") -> int:
    """Begin a transaction, and return the number of the session. `beside`: another query for the server."""
    require_wanted()
    answers = connection.cursor().execute(
        f"begin; set local search_path = pg_catalog; select pg_backend_pid(){beside}".encode()
    )
    answers.nextset()
    answers.nextset()
    ((number, *_),) = answers.fetchall()
    return int(number)


@contextmanager
def statements_alone(url: str) -> Iterator[Connection]:
    """Yield a connection for statements that cannot run in a transaction, without time limits.

    Through a pooler, the role's time limits apply, because a session's settings could reach others.
    """
    with translated_errors(), closing(connect(url)) as connection:
        connection.patience = math.inf
        if not connection.is_pooled:
            values = [value for setting in UNLIMITED.items() for value in setting]
            calls = ", ".join(["pg_catalog.set_config(%s, %s, false)"] * len(UNLIMITED))
            connection.execute(f"select {calls}", values)
        yield connection


def parameters_in(url: str) -> dict[str, Any]:
    """Return a connection's parameters, and as `pooler` whether the URL says that it passes named statements on.

    Raises ConfigurationError for a parameter that libpq does not know.
    """
    known, declared = POOLER.subn("", url)
    try:
        return {**ADDRESS, **conninfo_to_dict(known), "client_encoding": "UTF8", "pooler": declared}
    except psycopg.ProgrammingError:
        raise ConfigurationError(
            "A parameter in the database URL is unknown or invalid: check what follows ?."
        ) from None


def require_supported(connection: Connection) -> None:
    """Raise DatabaseError if the server or its pgvector is too old for this release, or the database is not in UTF8."""
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
