"""Which of the servers that a URL names is used: the primary of the newest timeline.

A server that takes over begins a timeline. The earlier primary may come back afterwards, accept changes and be the
first in the URL: what is stored there is lost. So all of them are asked.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from typing import Any, NamedTuple

from vector_memory.errors import DatabaseError
from vector_memory.storage.postgres.connect_errors import UNREACHABLE, UnreachableError
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.errors import translated_errors
from vector_memory.storage.postgres.generations import TIMELINE

Address = Mapping[str, Any]
"""What libpq connects to one of them with."""

ASKED_SECONDS = 2.0
"""For so long the answers of the servers are relied on."""

LONG_SECONDS = 1.0
"""A server that refuses connections does so at once; one that takes longer than this is not heard at all."""

LISTS = {"host": "PGHOST", "hostaddr": "PGHOSTADDR", "port": "PGPORT"}
"""The parameters that may have a value for each server, and the variables that stand for them."""

FOR_READERS = {"read-only", "standby", "prefer-standby"}
"""Values of target_session_attrs with which libpq chooses the server."""

STATE = f"""
select (select system_identifier from pg_control_system()), pg_postmaster_start_time(),
    not current_setting('transaction_read_only')::boolean,
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
UNRELATED = (
    "The database URL names servers that are no copies of each other: name a primary and its standbys only, or use a "
    "URL for each."
)


HIDDEN_TIMELINE = (
    "A server of the database URL does not say its timeline, so it is not certain which is the primary: name one "
    "server only, or let the role run pg_control_system, pg_control_checkpoint, pg_current_wal_lsn and pg_walfile_name."
)


class ServerState(NamedTuple):
    """What a server says of itself. `started_at` distinguishes servers that are copies of each other.

    `timeline`: on a standby, the newest that it knows.
    """

    system_id: int
    started_at: datetime
    accepts_changes: bool
    timeline: int


class Host:
    """One of the servers. `state`: what it said when it was asked last; None: it did not answer, for this `reason`.

    `is_silent`: it did not even refuse.
    """

    def __init__(self, parameters: Address, opened: Callable[[Address], Connection]) -> None:
        self.parameters = parameters
        self.state: ServerState | None = None
        self.reason = DatabaseError()
        self.is_silent = False
        self._opened = opened
        self._asking = threading.Thread()

    def ask(self) -> None:
        """Begin to ask, unless the last question is not answered yet."""
        if not self._asking.is_alive():
            self._asking = threading.Thread(target=self._ask, daemon=True)
            self._asking.start()

    def wait(self) -> None:
        """Wait for the answer."""
        self._asking.join()

    def _ask(self) -> None:
        began = time.monotonic()
        try:
            with translated_errors(), closing(self._opened(self.parameters)) as connection:
                if connection.hides_timeline:
                    raise DatabaseError(HIDDEN_TIMELINE)  # noqa: TRY301 - one of several reasons
                self.state = ServerState._make(connection.execute(STATE).fetchall()[0])
            self.is_silent = False
        except DatabaseError as error:
            self.state, self.reason = None, error
            self.is_silent = time.monotonic() - began > LONG_SECONDS


class Hosts:
    """The servers that a URL names. Safe to use from several threads. `opened`: connects to one of them."""

    def __init__(self, parameters: Address, opened: Callable[[Address], Connection]) -> None:
        wanted = parameters.get("target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS", "any")
        self._hosts = [Host(each, opened) for each in ([parameters] if wanted in FOR_READERS else each_of(parameters))]
        self._needs_primary = wanted != "any"
        self._opened = opened
        self._chosen: Host | None = None
        self._refusal = DatabaseError()
        self._asked_at = 0.0
        self._timelines: dict[int, int] = {}
        self._lock = threading.Lock()

    def connect(self) -> Connection:
        """Connect to the server to use. Raises UnreachableError if there is none now, and DatabaseError otherwise."""
        if len(self._hosts) == 1:
            return self._opened(self._hosts[0].parameters)
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
        """Return the server to use. Asks all of them if their answers are older than `age`, in seconds."""
        began = time.monotonic()
        with self._lock:
            if self._asked_at < (began - age if self._chosen else began):  # else another thread has asked meanwhile
                self._chosen = None
                try:
                    self._chosen = self._choose()
                except DatabaseError as error:
                    self._refusal = error
                self._asked_at = time.monotonic()
            if self._chosen is None:
                raise self._refusal
            return self._chosen

    def _choose(self) -> Host:
        """Ask all servers. One that was silent the last time is waited for only if no other can be used."""
        for host in self._hosts:
            host.ask()
        for host in self._hosts:
            if not host.is_silent:
                host.wait()
        with suppress(UnreachableError):
            return self._newest()
        for host in self._hosts:
            host.wait()
        return self._newest()

    def _newest(self) -> Host:
        found = {host.state: host for host in reversed(self._hosts) if host.state}
        if not found:
            raise no_answer(self._hosts)
        for system_id, _, _, timeline in found:
            self._timelines[system_id] = max(timeline, self._timelines.get(system_id, 0))
        return found[newest(found, self._timelines, needs_primary=self._needs_primary)]


def each_of(parameters: Address) -> list[Address]:
    """Return the parameters for each server. Lists of different lengths are left to libpq, which refuses them."""
    named = {name: f"{parameters.get(name) or os.environ.get(variable, '')}" for name, variable in LISTS.items()}
    lists = {name: values.split(",") for name, values in named.items() if values}
    number = max((len(values) for values in lists.values()), default=1)
    if number == 1 or not {len(values) for values in lists.values()} <= {1, number}:
        return [parameters]
    rows = zip(*(values * (number // len(values)) for values in lists.values()), strict=True)
    return [{**parameters, **dict(zip(lists, row, strict=True)), "target_session_attrs": "any"} for row in rows]


def newest(states: Collection[ServerState], timelines: Mapping[int, int], *, needs_primary: bool) -> ServerState:
    """Return which of several servers is used. `timelines`: the newest that is known, by system.

    Raises UnreachableError if it is not certain which is the primary, or none accepts changes although one must, and
    DatabaseError if the servers are no copies of each other.
    """
    if len({state.system_id for state in states}) > 1:
        raise DatabaseError(UNRELATED)
    primaries = [state for state in states if state.accepts_changes]
    current = [state for state in primaries if state.timeline == timelines[state.system_id]]
    if len(current) > 1:
        raise UnreachableError(TWO_PRIMARIES)
    if primaries and not current:
        raise UnreachableError(EARLIER_PRIMARY)
    if needs_primary and not current:
        raise UnreachableError(NO_PRIMARY)
    return current[0] if current else max(states, key=lambda state: state.timeline)


def no_answer(hosts: Sequence[Host]) -> DatabaseError:
    """Return why no server has answered: what one of them has said, or else that none can be reached."""
    for host in hosts:
        if f"{host.reason}" != UNREACHABLE:
            return host.reason
    error = UnreachableError(UNREACHABLE)
    for host in hosts:
        error.add_note("\n".join(host.reason.__notes__))
    return error
