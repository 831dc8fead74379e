"""SQL with its parameters, as a value that can wait until it is sent, and statements that are sent at once."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

Row = tuple[Any, ...]

Cursor = psycopg.Cursor[Row]

Parameters = Sequence[Any] | Mapping[str, Any] | None


class Statement(NamedTuple):
    """A statement with its parameters. `binary`: its results are sent as PostgreSQL stores them."""

    sql: str
    parameters: Parameters = None
    binary: bool = False


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
        self._enqueue_sync()
        try:
            yield from self._communicate_gen()
        except psycopg.Error:
            with suppress(psycopg.Error):  # what comes later says only that something before has failed
                yield from self._rest_gen()
            raise
        yield from self._rest_gen()

    def _rest_gen(self) -> PQGen[None]:
        while self.pgconn.flush():  # of the last statements, the socket may have taken a part only
            ready = yield Wait.RW
            if ready & Ready.R:
                self.pgconn.consume_input()
        yield from self._fetch_gen(flush=False)
