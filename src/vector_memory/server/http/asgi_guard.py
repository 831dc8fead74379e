"""The outermost part of the HTTP server: liveness, slow clients, and an end that lets running calls finish."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import ExitStack
from typing import Any

from vector_memory.server.http.client_limits import RETRY, Bodies, BodyError, Message, Receive

Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

LIVENESS = "/healthz"

MISSING = "vector_memory.missing"
"""The key in a request's scope under which the application leaves the scopes that the token should have."""

CLOSE = (b"connection", b"close")

SINGLE = {
    *(b"authorization", b"content-length", b"content-type", b"host", b"origin", b"transfer-encoding"),
    *(b"last-event-id", b"mcp-method", b"mcp-name", b"mcp-protocol-version", b"mcp-session-id"),
}
"""Headers that a request has once: of two, a proxy may have checked the other one."""

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
                await self._app(scope, *self._reading_whole(scope, receive, forbidding(scope, send), held))
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    def _reading_whole(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send, held: ExitStack
    ) -> tuple[Receive, Send]:
        """Return a `receive` that hands out the body in one piece, and a `send` for unless the body was refused."""
        has_read = is_refused = False

        async def receive_whole() -> Message:
            nonlocal has_read, is_refused
            if has_read:
                return await receive()
            has_read = True
            try:
                return await self._bodies.read(scope, receive, held)
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
    """Return how to refuse a request that a proxy, or another check, may understand in another way; None: it is clear.

    What follows a body whose end is not clear could be part of it, or another request.
    """
    counts = Counter(name for name, _ in scope["headers"])
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers and (b"content-length" in headers or scope["http_version"] != "1.1"):
        return 400, b"Content-Length or Transfer-Encoding, not both.\n"
    if doubled := [name for name in SINGLE if counts[name] > 1]:
        return 400, b"Send %s once.\n" % doubled[0]
    if not HOST.fullmatch(headers.get(b"host", b"localhost")):
        return 421, b"Misdirected Request\n"
    if not ORIGIN.fullmatch(headers.get(b"origin", b"http://localhost")):
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
