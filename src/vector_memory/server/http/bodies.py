"""Reads the bodies of requests. Each caller has room of its own for them, so that none waits for another's."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from contextlib import ExitStack
from typing import Any
from weakref import WeakValueDictionary

from vector_memory.server.callers import CLAIM

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

MAX_BODY = 16 * 2**20
"""Bytes of a request: a text of the maximum length may take twelve bytes a character as escaped JSON."""

ROOM = 2 * MAX_BODY
"""Bytes of all bodies of a caller that are read or answered at the same time. Others wait until these are answered."""

BODY_SECONDS = 30.0
"""Time for a client to send the body of a request."""

RETRY_SECONDS = 5
"""When a client should try again after an answer with the status 503."""

RETRY = (b"retry-after", str(RETRY_SECONDS).encode())

MAX_STRUCTURE = 2**16
"""Bytes of a body outside of its texts: parsed, they take twenty times their size. No call needs half of them."""

TEXT = re.compile(rb'"[^"]*"')


class BodyError(Exception):
    """A body is refused, with a status of HTTP."""

    def __init__(self, status: int, words: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(words)
        self.status = status
        self.headers = headers


class Room:
    """What a caller's bodies take. Whoever finds it full waits in the order of arrival."""

    def __init__(self) -> None:
        self._taken = 0
        self._turn = asyncio.Lock()
        self._left = asyncio.Event()

    async def take(self, size: int) -> None:
        """Wait until there is room for this many bytes, and take them."""
        async with self._turn:
            while self._taken + size > ROOM:
                self._left.clear()
                await self._left.wait()
            self._taken += size

    def leave(self, size: int) -> None:
        """Give back room."""
        self._taken -= size
        self._left.set()


class Bodies:
    """The bodies of all callers."""

    def __init__(self) -> None:
        self._rooms: WeakValueDictionary[Hashable, Room] = WeakValueDictionary()

    async def read(self, scope: MutableMapping[str, Any], receive: Receive, held: ExitStack) -> Message:
        """Return a whole body, which takes room until `held` is closed, or what came instead of its end.

        Raises BodyError if it does not arrive in time, finds no room, or has more values than any call.
        """
        room, size, taken, kept = self._rooms.setdefault(owner_of(scope), Room()), longest(scope), 0, 0
        late = BodyError(503, "The calls with this token take all its room: send fewer large ones at a time.", RETRY)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                await room.take(size)
                taken, late = size, BodyError(408, "The body has not arrived in time.")
                message = await whole_body(receive)
                kept = len(message.get("body", b""))
        except TimeoutError:
            raise late from None
        finally:
            room.leave(taken - kept)
            held.callback(room.leave, kept)
        if is_complex(message.get("body", b"")):
            raise BodyError(413, "The body has more values than any call.")
        return message


async def whole_body(receive: Receive) -> Message:
    """Return the messages of a body as one, which may be longer than permitted; or that the client has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return message
        body += message.get("body", b"")
        has_more = message.get("more_body", False) and len(body) <= MAX_BODY
        if not has_more:
            return {"type": "http.request", "body": bytes(body), "more_body": message.get("more_body", False)}


def owner_of(scope: MutableMapping[str, Any]) -> Hashable:
    """Return whose room a request takes: that of its token, or the only one of a server without tokens."""
    token = getattr(scope.get("user"), "access_token", None)
    return None if token is None else (token.claims[CLAIM].namespace, token.claims[CLAIM].name)


def longest(scope: MutableMapping[str, Any]) -> int:
    """Return how long a body can be, by its headers."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return MAX_BODY
    return min(int(headers.get(b"content-length", b"0")), MAX_BODY)


def is_complex(body: bytes) -> bool:
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
