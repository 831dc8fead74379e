"""Connections that a client opens and leaves: the server closes them, so that they cannot use up what it has."""

import asyncio
import resource
import socket
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from vector_memory.server.http import bodies

HEAD_SECONDS = 30.0
"""Time for a client to send the headers of a request."""

UNREAD_SECONDS = 60.0
"""How long a client may leave an answer unread."""

MANY_FILES = 65_536
"""Open files that are enough for any number of clients that one process can serve."""


class Connection(H11Protocol):
    """Closes a connection that does not send its next request in time.

    The body of a request that is not answered yet has a clock of its own, where it is read.
    """

    _deadline: asyncio.TimerHandle | None = None
    _seen: RequestResponseCycle | None = None
    _body_ends = 0.0

    def connection_made(self, transport: Any) -> None:
        """Expect a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read on, after an early answer only as long as the body may take."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not self._seen:
            self._seen, self._body_ends = self.cycle, self.loop.time() + bodies.BODY_SECONDS
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_clock()
        elif self._deadline is None and not self.transport.is_closing():
            now = self.loop.time()
            ends = self._body_ends if self.conn.their_state is h11.SEND_BODY else now + HEAD_SECONDS
            self._deadline = self.loop.call_at(max(now, ends), self.transport.abort)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def drop_who_never_reads(listening: socket.socket) -> None:
    """Let the system close connections whose client leaves an answer unread. macOS has no such setting."""
    if (option := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
        listening.setsockopt(socket.IPPROTO_TCP, option, int(UNREAD_SECONDS * 1000))


def allow_many_files() -> None:
    """Raise the limit of open files, one of which is each connection: by default it is 1,024 on most systems."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY_FILES if hard == resource.RLIM_INFINITY else min(MANY_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
