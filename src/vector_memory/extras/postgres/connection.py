"""A connection in a transaction, which sends several statements in one round trip.

A round trip takes 0.05 ms on a socket and 0.5 to 2 ms in a network. So a transaction begins with its first statement,
changes whose results nobody needs are sent with the next one, and the end of a read is sent without waiting for the
answer.
"""

import math
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import FeatureNotSupported, InvalidSqlStatementName
from psycopg.pq import ConnStatus, TransactionStatus

from vector_memory.errors import DatabaseError
from vector_memory.extras.postgres import beginnings, statement
from vector_memory.extras.postgres.beginnings import Newest, State
from vector_memory.extras.postgres.errors import POOLER_FULL, UNREACHABLE, UnreachableError
from vector_memory.extras.postgres.statement import Batch, Cursor, Parameters, Row, Statement
from vector_memory.storage.cancellation import require_wanted
from vector_memory.storage.write_lock import LOCK_TIMEOUT_SECONDS

T = TypeVar("T")

# TCP notices within seconds that a machine or a network is gone (`connecting.ADDRESS`), but not that a server stands
# still on a running machine. So the wait for an answer is limited too.

LONGEST_READ, LONGEST_WRITE = 65.0, 905.0
"""Seconds to wait for an answer: a little more than the server allows for a statement (`beginnings`)."""

QUIET_SECONDS = 0.5
"""How long the end of a transaction may take before its connection is closed, and between two requests to cancel."""

CANCEL_SECONDS = 1.2
"""How long a server may take to accept a request to cancel."""


def attentive(steps: PQGen[T], note_quiet: Callable[[], None]) -> PQGen[T]:
    """Return the steps of a wait for an answer; call `note_quiet` whenever nothing has arrived for a moment."""
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready:
                note_quiet()
            wanted = steps.send(ready)
    except StopIteration as end:
        found: T = end.value
        return found


def has_input(descriptor: int, seconds: float) -> bool:
    """Wait at most this long, and return whether a socket has input."""
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], seconds)[0])
    poll = select.poll()  # unlike `select`, it takes descriptors above 1,023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1_000))


Attempt = Callable[[Callable[[], object]], None]
"""Calls a function, and retries it while another process is writing."""

COMMIT = Statement("commit")

WARNING_CLASS = "01"
"""How the codes of warnings begin. A server that ends the connection sends other codes last, as notices if they follow
an answer."""

# The only warning of a commit: its wait for a standby was ended, here or by an administrator.
UNCONFIRMED = (
    "The change is stored, but no standby of the database server has confirmed it yet: a failover now would lose it. "
    "There is no need to repeat it. Check the standbys, which `vector-memory doctor` lists."
)


STALE_NAMES = (InvalidSqlStatementName, FeatureNotSupported)
"""A pooler no longer passes names on, or a named statement returns other types since a table was altered."""


def once(action: Callable[[], object]) -> None:
    """Call a function."""
    action()


def usual() -> float:
    """Return how many seconds a commit may wait for a standby if no client does."""
    return LOCK_TIMEOUT_SECONDS


class Connection(psycopg.Connection[Row]):
    """Used by one thread at a time, and in autocommit mode. Rows are tuples.

    Use `execute`, `together` and `later`, not the pipeline mode of psycopg. `is_pooled`: each transaction may run in
    another session of the server. `hides_timeline`: the server does not reveal its timeline. `opened_with`: the
    parameters of the server. `patience`: how many seconds to wait for an answer.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        statement.register(self.adapters)
        self._has_stale_names = False
        self._opening: Sequence[Statement] = ()
        self._attempt: Attempt = once
        self._seconds_left: Callable[[], float] = usual
        self._waiting: list[Statement] = []
        self._state: State | None = None
        self._newest = Newest()
        self._met = self._newest.marks
        self._warnings = 0
        self._answer_by, self._late = math.inf, self._give_up
        self.patience = LONGEST_READ
        self.is_pooled, self.hides_timeline = True, False
        self.opened_with: Mapping[str, Any] = {}
        self.add_notice_handler(self._note_warning)

    # A transaction

    @contextmanager
    def reading(self, opening: Sequence[Statement], newest: Newest | None = None) -> Iterator[None]:
        """Read in a transaction, which begins with the first statement. `opening`: one of `beginnings`.

        `newest`: the newest state of the memory that this process has seen.
        """
        self.begin(opening, newest=newest)
        try:
            yield
        finally:
            self.end_read()
            self.patience = LONGEST_READ

    @contextmanager
    def writing(
        self,
        opening: Sequence[Statement],
        attempt: Attempt = once,
        seconds_left: Callable[[], float] = usual,
        newest: Newest | None = None,
    ) -> Iterator[None]:
        """Read and write in a transaction: committed at the end of the block, rolled back on any error.

        `seconds_left`: says how long the commit may wait for a standby.
        """
        self.begin(opening, attempt, newest)
        self._seconds_left = seconds_left
        try:
            yield
            self.end_write()
        except BaseException:
            self.undo()
            raise
        finally:
            self.patience = LONGEST_READ

    def begin(self, opening: Sequence[Statement], attempt: Attempt = once, newest: Newest | None = None) -> None:
        """Begin a transaction with the next statement."""
        self._opening, self._attempt, self._state = opening, attempt, None
        self._newest = newest or Newest()
        longest = LONGEST_WRITE if beginnings.LOCK in opening else LONGEST_READ
        self.patience = longest if newest else math.inf
        self._met = self._newest.marks  # now, because others may commit before the answer is here
        self._waiting.clear()

    @property
    def header(self) -> Statement:
        """The statement that reads the state of the memory."""
        return beginnings.READ_BY_START if self.hides_timeline else beginnings.READ

    @property
    def state(self) -> State:
        """What the transaction knows of the memory. Costs a round trip if nothing has been sent yet."""
        if self._opening:
            self.together()
        if self._state is None:
            raise DatabaseError("The state of the memory is not known outside of a transaction.")
        return self._state

    # psycopg also accepts templates.
    def execute(self, query: str, params: Parameters = None, *, binary: bool = False) -> Cursor:  # type: ignore[override]
        """Send the queued statements and this one, and return its cursor.

        One round trip. Raises CancelledCallError if nobody waits for its result.
        """
        require_wanted()
        return self.together(Statement(query, params, binary))[0]

    def together(self, *statements: Statement) -> list[Cursor]:
        """Send the queued statements and these, and return their cursors. One round trip."""
        if self._opening:
            return self._open(statements)
        return self._send_all(statements)

    def later(self, sql: str, parameters: Parameters = None) -> None:
        """Queue a statement; it is sent with the next one or with the commit. Its result cannot be read."""
        self._waiting.append(Statement(sql, parameters))

    def end_write(self) -> None:
        """Commit. Sends nothing if the transaction has sent and changed nothing."""
        if self._opening and not self._waiting:
            self._opening = ()
            return
        if self._opening:
            self.together()  # nothing is committed in tables of a newer release
        self._waiting.extend(self._state.changes() if self._state else ())
        self._warnings = 0
        with self.answered_within(self._seconds_left(), self._stop_waiting):
            (committed,) = self._send_all([COMMIT])
        if self._warnings:
            raise DatabaseError(UNCONFIRMED)
        if committed.statusmessage != COMMIT.sql.upper():
            raise DatabaseError("A statement failed, so nothing was changed: repeat the call.")
        if self._state:
            self._newest.meet(self._state.marks)

    def end_read(self) -> None:
        """Send the end of the transaction, without waiting for the answer: `is_usable` receives it."""
        self._opening, self._state = (), None
        self._waiting.clear()
        if self.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            self.pgconn.send_query(b"rollback")
            self.pgconn.flush()

    def undo(self) -> None:
        """Roll back, if the connection is not lost."""
        self._opening, self._state, self.patience = (), None, LONGEST_READ
        self._waiting.clear()
        with suppress(psycopg.OperationalError):
            self.rollback()

    def is_usable(self) -> bool:
        """Return whether a transaction can begin: the last one has ended, and the server has not hung up."""
        if self.closed or self._has_stale_names:
            return False
        pgconn = self.pgconn
        try:
            pgconn.consume_input()
            is_answered = False
            while not is_answered:
                while pgconn.is_busy():  # or `get_result` would wait, and no other thread could run in the meantime
                    if not has_input(pgconn.socket, QUIET_SECONDS):
                        return False
                    pgconn.consume_input()
                is_answered = pgconn.get_result() is None
            while has_input(pgconn.socket, 0):  # what follows the last message of a server that ends
                pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return pgconn.status == ConnStatus.OK and pgconn.transaction_status == TransactionStatus.IDLE

    # Sending

    def wait(self, gen: PQGen[T], *arguments: Any, **options: Any) -> T:
        """Wait for an answer, for the time of `answered_within` or `patience`."""
        until = time.monotonic() + self.patience

        def note_quiet() -> None:
            if time.monotonic() > min(until, self._answer_by):
                self._answer_by = time.monotonic() + QUIET_SECONDS
                self._late()

        return super().wait(attentive(gen, note_quiet), *arguments, **options)

    def _note_warning(self, notice: psycopg.errors.Diagnostic) -> None:
        self._warnings += (notice.sqlstate or "").startswith(WARNING_CLASS)

    @contextmanager
    def answered_within(self, seconds: float, late: Callable[[], None] | None = None) -> Iterator[None]:
        """Call `late` repeatedly if no answer arrives for this long; by default, raise UnreachableError."""
        self._answer_by, self._late = time.monotonic() + seconds, late or self._give_up
        try:
            yield
        finally:
            self._answer_by = math.inf

    def _give_up(self) -> None:
        """Raise UnreachableError: the server stands still, or the pooler has no free session."""
        self.close()
        raise UnreachableError(POOLER_FULL if self.is_pooled else UNREACHABLE)

    def _stop_waiting(self) -> None:
        """Make the server end a commit's wait for a standby, which none of its time limits does."""
        try:
            self.cancel_safe(timeout=CANCEL_SECONDS)
        except psycopg.Error:  # it stands still, or is gone
            self.close()
            raise

    def _open(self, statements: Sequence[Statement]) -> list[Cursor]:
        asked = [self.header if each is beginnings.READ else each for each in self._opening]
        sent = [*asked, *self._waiting, *statements]
        cursors: list[Cursor] = []

        def send() -> None:
            had_stale_names = self._has_stale_names
            try:
                cursors[:] = self.send(sent)
            except psycopg.Error:
                with suppress(psycopg.OperationalError):
                    self.rollback()
                if self._has_stale_names == had_stale_names:
                    raise
                send()

        is_brief = self.is_pooled or beginnings.LOCK in self._opening
        with self.answered_within(LOCK_TIMEOUT_SECONDS if is_brief else math.inf):
            self._attempt(send)
        opening, self._opening = self._opening, ()
        self._waiting.clear()
        if opening[-1] is beginnings.READ:
            self._state = beginnings.state_in(cursors[len(opening) - 1], self._met)
            if beginnings.LOCK in opening:
                self._waiting.extend(self._state.new_generation())
            else:
                self._newest.meet(self._state.marks)
        return cursors[len(sent) - len(statements) :]

    def _send_all(self, statements: Sequence[Statement]) -> list[Cursor]:
        waiting, self._waiting = self._waiting, []
        return self.send([*waiting, *statements])[len(waiting) :]

    def send(self, statements: Sequence[Statement]) -> list[Cursor]:
        """Send statements in one round trip, and return their cursors."""
        try:
            if len(statements) == 1:
                return [self._execute(statements[0])]
            self._pipeline = Batch(self)
            with self.pipeline():
                return [self._execute(statement) for statement in statements]
        except STALE_NAMES:
            if self.prepare_threshold is not None:  # it continues without names, and is closed afterwards
                self.prepare_threshold, self._has_stale_names = None, True
            raise

    def _execute(self, statement: Statement) -> Cursor:
        cursor: Cursor = super().cursor()
        return cursor.execute(statement.sql, statement.parameters, binary=statement.binary)
