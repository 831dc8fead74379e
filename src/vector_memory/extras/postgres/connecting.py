"""Connects to a PostgreSQL server: which of several, whether it is suitable, and the connections a process keeps."""

import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, NamedTuple

import psycopg
from psycopg import errors as postgres
from psycopg.conninfo import conninfo_to_dict

from vector_memory.errors import ClosedMemoryError, ConfigurationError, DatabaseError, DatabaseLockError
from vector_memory.extras.postgres.beginnings import SAID, TIMELINE, UNLIMITED
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.errors import NO_NAMES, UNREACHABLE, UnreachableError, refusal, translated_errors
from vector_memory.storage.cancellation import require_wanted
from vector_memory.storage.write_lock import LOCK_TIMEOUT_SECONDS

# Which of the servers that a URL names is used: the primary of the newest timeline.
#
# A server that takes over begins a timeline. The earlier primary may come back afterwards, accept changes and be the
# first in the URL: what is stored there is lost. So all of them are queried.

Address = Mapping[str, Any]
"""libpq's parameters for one of them."""

ASKED_SECONDS = 2.0
"""How long the servers' answers are trusted."""

ANSWER_SECONDS = 2.0
"""How long a connected server may take to report its state."""

LONG_SECONDS = 1.0
"""A server that refuses connections does so at once; one that takes longer than this is silent."""

LISTS = {"host": "PGHOST", "hostaddr": "PGHOSTADDR", "port": "PGPORT"}
"""The parameters that may have a value for each server, and their variables."""

FOR_READERS = {"read-only", "standby", "prefer-standby"}
"""Values of target_session_attrs with which libpq chooses the server."""

STATE = f"""
select pg_postmaster_start_time(), not current_setting('transaction_read_only')::boolean,
    case when pg_is_in_recovery() then greatest(
        (select timeline_id from pg_control_checkpoint()), (select received_tli from pg_stat_wal_receiver)
    ) else {TIMELINE} end
"""

TWO_PRIMARIES = (
    "Two servers of the database URL accept changes on the same timeline, so each may lack what is stored on the "
    "other. The memory is used again when only one of them accepts changes: `vector-memory doctor` lists them."
)
EARLIER_PRIMARY = (
    "The only server of the database URL that accepts changes is an earlier primary: another one has taken over since, "
    "and does not answer. Repeat the call when that one is back; `vector-memory doctor` lists the servers."
)
NO_PRIMARY = (
    "No server of the database URL accepts changes: those that answer are standbys. Repeat the call when one of them "
    "has taken over, or the primary is back."
)


class ServerState(NamedTuple):
    """A server's own state. `started_at`: distinguishes it from its copies.

    `timeline`: on a standby, the newest that it knows.
    """

    started_at: datetime
    accepts_changes: bool
    timeline: int


class Host:
    """One of the servers. `answer`: its last state, or why there is none. `is_silent`: it did not refuse.

    `asking`: the thread that waits for its answer.
    """

    def __init__(self, parameters: Address, opened: Callable[[Address], Connection]) -> None:
        self.parameters = parameters
        self.answer: ServerState | DatabaseError = DatabaseError()
        self.is_silent = False
        self._opened = opened
        self.asking = threading.Thread()

    def ask(self) -> None:
        """Begin to query it, unless the last query is unanswered."""
        if not self.asking.is_alive():
            asking = threading.Thread(target=self._ask, daemon=True)
            asking.start()
            self.asking = asking  # others join it at once

    def _ask(self) -> None:
        began = time.monotonic()
        try:
            with translated_errors(), closing(self._opened(self.parameters)) as connection:
                connection.patience = ANSWER_SECONDS
                self.answer = ServerState._make(connection.execute(STATE).fetchall()[0])
            self.is_silent = False
        except DatabaseError as error:
            self.answer, self.is_silent = error, time.monotonic() - began > LONG_SECONDS


class Hosts:
    """The servers that a URL names. Safe to use from several threads. `opened`: connects to one of them."""

    def __init__(self, parameters: Address, opened: Callable[[Address], Connection]) -> None:
        wanted = parameters.get("target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS", "any")
        self._hosts = [Host(each, opened) for each in ([parameters] if wanted in FOR_READERS else each_of(parameters))]
        self._needs_primary = wanted != "any"
        self._opened = opened
        self._chosen, self._asked_at = self._hosts[0], -math.inf
        self._timeline = 0

    def connect(self) -> Connection:
        """Connect to the server to use. Raises UnreachableError if there is none now, and DatabaseError otherwise."""
        if len(self._hosts) == 1:
            return self._opened(self._chosen.parameters)
        host = self._current(ASKED_SECONDS)
        try:
            return self._opened(host.parameters)
        except UnreachableError:
            return self._opened(self._current(0).parameters)

    def still_uses(self, connection: Connection) -> bool:
        """Return whether a connection would be made to the same server now."""
        if len(self._hosts) == 1:
            return True
        with suppress(DatabaseError):
            return self._current(ASKED_SECONDS).parameters is connection.opened_with
        return False

    def _current(self, age: float) -> Host:
        """Return the server to use.

        Queries all if their answers are older than `age`, in seconds. Waits for one that was silent the last time only
        if no other can be used.
        """
        began = time.monotonic()
        if began - self._asked_at > age:
            self._asked_at = -math.inf
            for host in self._hosts:
                host.ask()
            for host in self._hosts:
                if not host.is_silent:
                    host.asking.join()
            try:
                chosen = self._newest()
            except UnreachableError:
                for host in self._hosts:
                    host.asking.join()
                chosen = self._newest()
            self._chosen, self._asked_at = chosen, began
        return self._chosen

    def _newest(self) -> Host:
        answers = [(host.answer, host) for host in self._hosts]
        found = {answer: host for answer, host in reversed(answers) if isinstance(answer, ServerState)}
        if not found:
            reasons = [answer for answer, _ in answers if isinstance(answer, DatabaseError)]
            raise next((reason for reason in reasons if f"{reason}" != UNREACHABLE), reasons[0])
        self._timeline = max(self._timeline, *(state.timeline for state in found))
        return found[newest(found, self._timeline, needs_primary=self._needs_primary)]


def each_of(parameters: Address) -> list[Address]:
    """Return the parameters for each server. Lists of different lengths are left to libpq, which refuses them."""
    named = {name: f"{parameters.get(name) or os.environ.get(variable, '')}" for name, variable in LISTS.items()}
    lists = {name: values.split(",") for name, values in named.items() if values}
    number = max((len(values) for values in lists.values()), default=1)
    if number == 1 or not {len(values) for values in lists.values()} <= {1, number}:
        return [parameters]
    rows = zip(*(values * (number // len(values)) for values in lists.values()), strict=True)
    return [{**parameters, **dict(zip(lists, row, strict=True)), "target_session_attrs": "any"} for row in rows]


def newest(states: Collection[ServerState], timeline: int, *, needs_primary: bool) -> ServerState:
    """Choose one of several servers. `timeline`: the newest that is known.

    Raises UnreachableError if it is not certain which is the primary, or none accepts changes although one must.
    """
    primaries = [state for state in states if state.accepts_changes]
    current = [state for state in primaries if state.timeline == timeline]
    if len(current) > 1:
        raise UnreachableError(TWO_PRIMARIES)
    if primaries and not current:
        raise UnreachableError(EARLIER_PRIMARY)
    if needs_primary and not current:
        raise UnreachableError(NO_PRIMARY)
    return current[0] if current else max(states, key=lambda state: state.timeline)


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
    if version_numbers(installed) < OLDEST_PGVECTOR:
        raise DatabaseError(
            f"The database has pgvector {installed}, which can return wrong results: install pgvector "
            f"{PGVECTOR_REQUIRED} or newer on its server, and run `alter extension vector update` in the database."
        )


def pgvector_in(connection: Connection) -> str | None:
    """Return which version of pgvector the database has; None: it has none."""
    rows = connection.execute("select extversion from pg_extension where extname = 'vector'").fetchall()
    return next((str(version) for (version,) in rows), None)


def version_numbers(text: str) -> tuple[int, ...]:
    """Return a version as numbers, for comparison."""
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


# The connections of this process to a server, which all its memories in one database share.
#
# psycopg's pool waits for a server that is down, without saying why. This one fails at once, and retries at the next
# call. It also accepts a connection whose transaction is still ending.

IDLE_SECONDS = 2.0
"""Connections that were not used for this long are closed, all but one: other processes may need them."""


class ConnectionPool:
    """Lends connections, at most `size` at a time. Safe to use from several threads."""

    _shared: ClassVar[dict[str, "ConnectionPool"]] = {}
    _sharing: ClassVar = threading.Lock()

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self.users = 0
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[tuple[Connection, float]] = []
        self._lock = threading.Lock()
        self._closed = False
        self._tidying: threading.Timer | None = None

    @classmethod
    def of(cls, url: str, size: int) -> "ConnectionPool":
        """Return this process's pool for a database. Each caller closes it once."""
        with cls._sharing:
            pool = cls._shared.setdefault(url, cls(url, size))
            pool.users += 1
            return pool

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield a connection that nobody else uses, outside of a transaction.

        Raises DatabaseLockError if all are in use for too long, and UnreachableError if the server is away.
        """
        if not self._free.acquire(timeout=LOCK_TIMEOUT_SECONDS):
            raise DatabaseLockError(
                f"All {self._size} connections of this process to the database server were in use for too long. Repeat "
                "the call, or allow more with ?connections=N in the database URL."
            )
        try:
            connection = self._idle_connection() or connect(self._url)
            try:
                yield connection
            finally:
                self._take_back(connection)
        finally:
            self._free.release()

    def close(self) -> None:
        """After the last user, close the idle connections now, and each of the others after its use."""
        with self._sharing:
            self.users -= 1
            if self.users:
                return
            del self._shared[self._url]
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            if self._tidying is not None:
                self._tidying.cancel()
        for connection, _ in idle:
            connection.close()

    def _idle_connection(self) -> Connection | None:
        while True:
            with self._lock:
                if self._closed:
                    raise ClosedMemoryError
                if not self._idle:
                    return None
                connection, _ = self._idle.pop()
            if connection.is_usable() and hosts_of(self._url).still_uses(connection):
                return connection
            connection.close()

    def _take_back(self, connection: Connection) -> None:
        with self._lock:
            unused: list[tuple[Connection, float]] = []
            if connection.closed:  # the cause has probably ended its neighbours too, even if nobody has noticed
                unused, self._idle = self._idle, []
            if self._closed or connection.closed:
                unused.append((connection, 0.0))
            else:
                self._idle.append((connection, time.monotonic()))
                self._tidy_later()
        for one, _ in unused:
            one.close()

    def _tidy_later(self) -> None:
        """Close idle connections after a while, if there are any. The lock is held."""
        if len(self._idle) > 1 and self._tidying is None:
            self._tidying = threading.Timer(IDLE_SECONDS, self._tidy)
            self._tidying.daemon = True
            self._tidying.start()

    def _tidy(self) -> None:
        with self._lock:
            since = time.monotonic() - IDLE_SECONDS
            unused = [one for one in self._idle[:-1] if one[1] <= since]
            self._idle = self._idle[len(unused) :]
            self._tidying = None
            if not self._closed:
                self._tidy_later()
        for connection, _ in unused:
            connection.close()
