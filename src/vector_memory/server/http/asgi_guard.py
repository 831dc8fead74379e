"""The outermost part of the HTTP server: liveness, slow clients, and an end that lets running calls finish."""

import asyncio
import re
import resource
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import ExitStack, suppress
from typing import Any

from starlette.exceptions import HTTPException
from uvicorn.protocols.http.h11_impl import H11Protocol

# Limits of time and size for clients: the bodies of requests, and connections that a client opens and leaves.

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

MAX_BODY = 16 * 2**20
"""Bytes of a request: a text of the maximum length may take twelve bytes a character as escaped JSON."""

MAX_BODIES = 8 * MAX_BODY
"""Bytes that all bodies in progress may take together, with their values; one may take half."""

BYTES_OF_VALUE = 100
"""Bytes of a parsed value. A text of the maximum length fits, whatever it contains."""

BEFORE_VALUES = (b",", b"[", b"{")

SECONDS_TO_SEND = 30.0
"""Time for a client to send the headers of a request, and then its body."""

RETRY_SECONDS = 5
"""When a client should try again after an answer with the status 503."""

RETRY = (b"retry-after", str(RETRY_SECONDS).encode())

UNREAD_SECONDS = 60.0
"""How long a client may leave an answer unread."""

MANY_FILES = 65_536
"""Enough open files for all clients that one process can serve."""


class TimedConnection(H11Protocol):
    """Closes a connection that does not send its next request in time.

    The body of a request that is not answered yet has a clock of its own, where it is read.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read on; after an early answer, what is left of the body counts as the next request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_clock()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(SECONDS_TO_SEND, self.transport.abort)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def drop_who_never_reads(listening: socket.socket) -> None:
    """Let the system close connections whose client leaves an answer unread. macOS has no such setting."""
    if (option := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
        listening.setsockopt(socket.IPPROTO_TCP, option, int(UNREAD_SECONDS * 1000))


def allow_many_files() -> None:
    """Raise the limit of open files, which connections count towards: the default is 1,024 on most systems."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY_FILES if hard == resource.RLIM_INFINITY else min(MANY_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

LIVENESS = "/healthz"

MISSING = "vector_memory.missing"
"""The key in a request's scope under which the application leaves the scopes that the token should have."""

CLOSE = (b"connection", b"close")

PLACE = rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?"
HOST = re.compile(PLACE)
ORIGIN = re.compile(rb"https?://" + PLACE, re.IGNORECASE)


class Gate:
    """Wraps the application. `close` refuses new requests; `wait_until_empty` waits for the running ones.

    `prefix`: a path below which everything is served, too, for a proxy that does not remove it.
    """

    def __init__(self, app: App, prefix: str = "") -> None:
        self._app = app
        self._prefix = prefix
        self._inside = 0
        self._is_closed = False
        self._bodies = 0
        self._empty = asyncio.Event()
        self._empty.set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (refusal := refusal_of(scope)) is not None:
            await answer(send, *refusal, CLOSE)
        elif without_prefix(scope, self._prefix)["path"] == LIVENESS:
            await answer(send, 200, b"ok\n")
        elif self._is_closed:
            await answer(send, 503, b"The server is ending.\n", RETRY)
        else:
            await self._pass(scope, receive, send)

    def close(self) -> None:
        """Refuse all further requests."""
        self._is_closed = True

    async def wait_until_empty(self, seconds: float) -> None:
        """Wait until all running requests are answered, but no longer than this."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), seconds)

    async def _pass(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self._inside += 1
        self._empty.clear()
        try:
            with ExitStack() as held:
                await self._app(scope, *self._reading_whole(receive, forbidding(scope, send), held))
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    def _reading_whole(self, receive: Receive, send: Send, held: ExitStack) -> tuple[Receive, Send]:
        """Return a `receive` that hands out the body in one piece, and a `send` for unless the body was refused."""
        has_read = is_refused = False

        async def receive_whole() -> Message:
            nonlocal has_read, is_refused
            if has_read:
                return await receive()
            has_read = True
            try:
                return await self._whole_body(receive, held)
            except HTTPException as refusal:
                is_refused, again = True, [] if refusal.status_code == 413 else [RETRY]  # noqa: PLR2004
                await answer(send, refusal.status_code, f"{refusal.detail}\n".encode(), CLOSE, *again)
                return {"type": "http.disconnect"}

        async def send_unless_refused(message: Message) -> None:
            if not is_refused:
                await send(message)

        return receive_whole, send_unless_refused

    async def _whole_body(self, receive: Receive, held: ExitStack) -> Message:
        """Return a body, which counts until `held` is closed, or the message that came instead of its end.

        Raises HTTPException if it does not arrive in time, does not fit, or has more values than any call needs.
        """
        body, size, more = bytearray(), 0, True
        try:
            async with asyncio.timeout(SECONDS_TO_SEND):
                while more and len(body) <= MAX_BODY:
                    message = await receive()
                    if message["type"] != "http.request":
                        return message
                    piece, more = message.get("body", b""), message.get("more_body", False)
                    takes = len(piece) + BYTES_OF_VALUE * sum(map(piece.count, BEFORE_VALUES))
                    size += takes
                    if size > MAX_BODIES // 2:
                        raise HTTPException(413, "The body has more values than any call needs.")
                    self._count(takes)
                    held.callback(self._count, -takes)
                    body += piece
        except TimeoutError:
            raise HTTPException(408, "The body has not arrived in time.") from None
        return {"type": "http.request", "body": bytes(body), "more_body": more}

    def _count(self, size: int) -> None:
        if self._bodies + size > MAX_BODIES:
            raise HTTPException(503, "Too many large requests at the same time: try again later.")
        self._bodies += size


def refusal_of(scope: MutableMapping[str, Any]) -> tuple[int, bytes] | None:
    """Return how to refuse a request with a bad Host or Origin; None if both are fine."""
    if not HOST.fullmatch(dict(scope["headers"]).get(b"host", b"localhost")):
        return 421, b"Misdirected Request\n"
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if len(origins) > 1 or not all(map(ORIGIN.fullmatch, origins)):
        return 403, b"Forbidden Origin\n"
    return None


def without_prefix(scope: MutableMapping[str, Any], prefix: str) -> MutableMapping[str, Any]:
    """Remove a prefix and a final slash from the path of a request: a redirection would name http://."""
    path = scope["path"]
    if path.startswith(f"{prefix}/"):
        path = path.removeprefix(prefix)
    scope["path"] = path.removesuffix("/") or "/"
    return scope


def forbidding(scope: MutableMapping[str, Any], send: Send) -> Send:
    """Return a `send` that turns the answer to a call with too small a token into 403, as OAuth clients expect it.

    Not if the answer is a stream that has begun: its text also says so.
    """

    async def send_or_forbid(message: Message) -> None:
        if message["type"] == "http.response.start" and MISSING in scope:
            challenge = f'Bearer error="insufficient_scope", scope="{" ".join(scope[MISSING])}"'
            headers = [*message["headers"], (b"www-authenticate", challenge.encode())]
            message = {**message, "status": 403, "headers": headers}
        await send(message)

    return send_or_forbid


async def answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes], kind: bytes = b"plain") -> None:
    """Answer with a text. `kind`: plain or html."""
    facts = [(b"content-type", b"text/%s; charset=utf-8" % kind), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": facts})
    await send({"type": "http.response.body", "body": body})
