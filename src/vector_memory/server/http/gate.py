"""The outermost part of the HTTP server: liveness, slow clients, and an end that lets running calls finish."""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

LIVENESS = "/healthz"

MISSING = "vector_memory.missing"
"""The key in a request's scope under which the application leaves the scopes that the token should have."""

BODY_SECONDS = 30.0
"""Time for a client to send the body of a request."""

LARGE_BODY = 2**20
"""Bytes of a body that is parsed alone: while it is parsed it can take twenty times its size in memory."""

RETRY_SECONDS = 5
"""When a client should try again after an answer with the status 503."""


class Gate:
    """Wraps the application. `close` lets nobody in any more; `wait_until_empty` waits for those inside."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._inside = 0
        self._is_closed = False
        self._parses_large = asyncio.Lock()
        self._empty = asyncio.Event()
        self._empty.set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == LIVENESS:
            await answer(send, 200, b"ok\n")
        elif self._is_closed:
            await answer(send, 503, b"The server is ending.\n", (b"retry-after", str(RETRY_SECONDS).encode()))
        elif {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            # A proxy may have seen another end of the body: what follows could be part of it, or another request.
            await answer(send, 400, b"Content-Length or Transfer-Encoding, not both.\n", (b"connection", b"close"))
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
            async with AsyncExitStack() as parsing:
                body = alone_if_large(in_time(receive), self._parses_large, parsing)
                await self._app(scope, body, releasing(forbidding(scope, send), parsing))
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()


def in_time(receive: Receive) -> Receive:
    """Return a `receive` that reports a disconnected client if the body does not arrive in time."""
    give_up = time.monotonic() + BODY_SECONDS
    has_body = False

    async def receive_in_time() -> Message:
        nonlocal has_body
        if has_body:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), give_up - time.monotonic())
        except TimeoutError:
            return {"type": "http.disconnect"}
        has_body = not message.get("more_body", False)
        return message

    return receive_in_time


def alone_if_large(receive: Receive, lock: asyncio.Lock, parsing: AsyncExitStack) -> Receive:
    """Return a `receive` that hands out the end of a large body once no other is parsed, until `parsing` is closed."""
    size = 0

    async def receive_alone() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LARGE_BODY and not message.get("more_body", False):
            size = 0
            await parsing.enter_async_context(lock)
        return message

    return receive_alone


def releasing(send: Send, parsing: AsyncExitStack) -> Send:
    """Return a `send` that closes `parsing`: whoever answers has read the body."""

    async def send_and_release(message: Message) -> None:
        await parsing.aclose()
        await send(message)

    return send_and_release


def forbidding(scope: MutableMapping[str, Any], send: Send) -> Send:
    """Return a `send` that turns the answer to a call with too small a token into 403, as OAuth clients expect it.

    Not if the answer is a stream that has begun: it says so in its text, too.
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
