"""Statements that are sent at once."""

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait


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
        finally:
            yield from self._fetch_gen(flush=False)
