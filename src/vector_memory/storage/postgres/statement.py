"""SQL with its parameters, as a value that can wait until it is sent, and statements that are sent at once."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
from psycopg._preparing import Key, Prepare, PrepareManager
from psycopg._queries import PostgresQuery
from psycopg.abc import PQGen
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.waiting import Ready, Wait

Row = tuple[Any, ...]

Cursor = psycopg.Cursor[Row]

Parameters = Sequence[Any] | Mapping[str, Any] | None


class Statement(NamedTuple):
    """A statement with its parameters. `binary`: its results are sent as PostgreSQL stores them."""

    sql: str
    parameters: Parameters = None
    binary: bool = False

    def is_same(self, other: "Statement") -> bool:
        """Return whether another statement has the same answer."""
        return (self.sql, self.binary, comparable(self.parameters)) == (
            other.sql, other.binary, comparable(other.parameters),
        )  # fmt: skip


def comparable(parameters: Parameters) -> list[tuple[Any, Any]]:
    """Return parameters with their names or places, and arrays of NumPy as bytes, which can be compared as a whole."""
    named = parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters or ())
    return [(name, value.tobytes() if hasattr(value, "tobytes") else value) for name, value in named]


class LastingNames(PrepareManager):
    """The named statements of a session. A rollback takes none of them away.

    psycopg removes all then, in a round trip of its own, so that a writer who has waited for another would have each
    of its statements planned again.
    """

    @property
    def are_used(self) -> bool:
        """Whether there are any."""
        return bool(self._names)

    def clear(self) -> bool:
        """Keep them."""
        return False

    def maybe_add_to_cache(self, query: PostgresQuery, prep: Prepare, name: bytes) -> Key | None:
        """Note a statement, and return its key if `validate` has to look at its answer: also if it gets a name."""
        key = super().maybe_add_to_cache(query, prep, name)
        return self.key(query) if prep is Prepare.SHOULD else key

    def validate(self, key: Key, prep: Prepare, name: bytes, results: Sequence[PGresult]) -> None:
        """Forget a name that the server has not taken note of, because something before has failed."""
        if prep is Prepare.SHOULD and results[0].status != ExecStatus.PIPELINE_ABORTED:
            self._rotate()
        else:
            super().validate(key, prep, name, results)


class Batch(psycopg.Pipeline):
    """A pipeline that sends everything at its end, and nothing afterwards.

    A process that is stopped in a transaction keeps its locks until the server ends it for being idle. The server does
    not if more statements are on their way, nor if a request to flush comes last, as psycopg sends one.
    """

    _is_complete = False

    def _communicate_gen(self) -> PQGen[None]:
        if self._is_complete:
            yield from super()._communicate_gen()

    def _exit_gen(self) -> PQGen[None]:
        self._is_complete = True
        try:
            self._enqueue_sync()
            yield from self._communicate_gen()
            while self.pgconn.flush():  # of the last statement, the socket may have taken a part only
                ready = yield Wait.RW
                if ready & Ready.R:
                    self.pgconn.consume_input()
        except psycopg.Error:
            with suppress(psycopg.Error):  # that statements behind the one that failed were not run
                yield from self._fetch_gen(flush=False)
            raise
        yield from self._fetch_gen(flush=False)
