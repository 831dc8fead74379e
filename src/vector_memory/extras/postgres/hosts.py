"""Which of the servers that a URL names is used: the primary of the newest timeline.

A server that takes over begins a timeline. The earlier primary may come back afterwards, accept changes and be the
first in the URL: what is stored there is lost. So all of them are queried.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from datetime import datetime
from typing import Any, NamedTuple

from vector_memory.errors import DatabaseError
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.errors import UNREACHABLE, UnreachableError, translated_errors
from vector_memory.extras.postgres.generations import TIMELINE

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
    """One of the servers. `answer`: its last state, or why there is none. `is_silent`: it did not refuse."""

    def __init__(self, parameters: Address, opened: Callable[[Address], Connection]) -> None:
        self.parameters = parameters
        self.answer: ServerState | DatabaseError = DatabaseError()
        self.is_silent = False
        self._opened = opened
        self._asking = threading.Thread()

    def ask(self) -> None:
        """Begin to query it, unless the last query is unanswered."""
        if not self._asking.is_alive():
            asking = threading.Thread(target=self._ask, daemon=True)
            asking.start()
            self._asking = asking

    def wait(self) -> None:
        """Wait for the answer."""
        self._asking.join()

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
                    host.wait()
            try:
                chosen = self._newest()
            except UnreachableError:
                for host in self._hosts:
                    host.wait()
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
