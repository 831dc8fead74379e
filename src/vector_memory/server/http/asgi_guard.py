"""The outermost part of the HTTP server: liveness, slow clients, and an end that lets running calls finish."""

import asyncio
import re
import resource
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

# Limits of time and size for clients: the bodies of requests, and connections that a client opens and leaves.

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

MAX_BODY = 16 * 2**20
"""Bytes of a request: a text of the maximum length may take twelve bytes a character as escaped JSON."""

MAX_BODIES = 8 * MAX_BODY
"""Bytes of all bodies that are read or answered at the same time."""

BODY_SECONDS = 30.0
"""Time for a client to send the body of a request."""

RETRY_SECONDS = 5
"""When a client should try again after an answer with the status 503."""

RETRY = (b"retry-after", str(RETRY_SECONDS).encode())

MAX_STRUCTURE = 2**16
"""Bytes of a body outside of its texts: parsed, they take twenty times their size. No call needs half of them."""

TEXT = re.compile(rb'"[^"]*"')


class Refusal(NamedTuple):
    """Why a body is refused, with a status and headers of HTTP."""

    status: int
    words: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


SLOW = Refusal(408, "The body has not arrived in time.")
FULL = Refusal(503, "Too many large requests at the same time: try again later.", (RETRY,))
COMPLEX = Refusal(413, "The body has more values than any call needs.")
"""Parsing it would take too much memory."""


class BodyError(Exception):
    """A body is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.words)
        self.refusal = refusal


class Bodies:
    """The bodies of all clients."""

    def __init__(self) -> None:
        self._size = 0

    async def read(self, receive: Receive, held: ExitStack) -> Message:
        """Return a whole body, which counts until `held` is closed, or what came instead of its end.

        Raises BodyError if it does not arrive in time, finds no room, or has more values than any call.
        """
        body, more = bytearray(), True
        held.callback(lambda: self._grow(-len(body)))
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while more and len(body) <= MAX_BODY:
                    message = await receive()
                    if message["type"] != "http.request":
                        return message
                    piece, more = message.get("body", b""), message.get("more_body", False)
                    self._grow(len(piece))
                    body += piece
        except TimeoutError:
            raise BodyError(SLOW) from None
        if is_complex(body):
            raise BodyError(COMPLEX)
        return {"type": "http.request", "body": bytes(body), "more_body": more}

    def _grow(self, size: int) -> None:
        if self._size + size > MAX_BODIES:
            raise BodyError(FULL)
        self._size += size


def is_complex(body: bytes | bytearray) -> bool:
    """Return whether more of a body than any call needs is no text, such as brackets and numbers."""
    if len(body) <= MAX_STRUCTURE:
        return False
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    structure = end = 0
    for text in TEXT.finditer(plain):
        structure += text.start() - end + 2
        end = text.end()
        if structure > MAX_STRUCTURE:
            return True
    return structure + len(plain) - end > MAX_STRUCTURE


HEAD_SECONDS = 30.0
"""Time for a client to send the headers of a request."""

UNREAD_SECONDS = 60.0
"""How long a client may leave an answer unread."""

MANY_FILES = 65_536
"""Open files that are enough for any number of clients that one process can serve."""


class TimedConnection(H11Protocol):
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
            self._seen, self._body_ends = self.cycle, self.loop.time() + BODY_SECONDS
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
        self._bodies = Bodies()
        self._empty = asyncio.Event()
        self._empty.set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (refusal := fault_of(scope)) is not None:
            await answer(send, *refusal, CLOSE)
        elif shortened(scope, self._prefix)["path"] == LIVENESS:
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
        try:
            await asyncio.wait_for(self._empty.wait(), seconds)
        except TimeoutError:
            return

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
                return await self._bodies.read(receive, held)
            except BodyError as error:
                is_refused = True
                status, words, headers = error.refusal
                await answer(send, status, f"{words}\n".encode(), CLOSE, *headers)
                return {"type": "http.disconnect"}

        async def send_unless_refused(message: Message) -> None:
            if not is_refused:
                await send(message)

        return receive_whole, send_unless_refused


def fault_of(scope: MutableMapping[str, Any]) -> tuple[int, bytes] | None:
    """Return how to refuse a request from a foreign page; None: it is clear."""
    if not HOST.fullmatch(dict(scope["headers"]).get(b"host", b"localhost")):
        return 421, b"Misdirected Request\n"
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if len(origins) > 1 or not all(map(ORIGIN.fullmatch, origins)):
        return 403, b"Forbidden Origin\n"
    return None


def shortened(scope: MutableMapping[str, Any], prefix: str) -> MutableMapping[str, Any]:
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


async def answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send a plain answer."""
    facts = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": facts})
    await send({"type": "http.response.body", "body": body})
