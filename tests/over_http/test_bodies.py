"""Bodies that come slowly, are large, or full of values: their size and time are limited."""

import asyncio
import json
import socket
from contextlib import ExitStack
from typing import Any

import pytest

from over_http.calling import called
from over_http.conftest import Team
from servers import LEGACY
from vector_memory.server.http import asgi_guard
from vector_memory.server.http.asgi_guard import BYTES_OF_VALUE, MAX_BODIES, MAX_BODY, Gate
from waiting import eventually, until


def head(secret: str | None, framing: str) -> bytes:
    """Return the headers of a call."""
    lines = [
        "POST /mcp HTTP/1.1",
        "Host: 127.0.0.1",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"MCP-Protocol-Version: {LEGACY}",
        framing,
    ]
    return "\r\n".join([*lines, *([f"Authorization: Bearer {secret}"] if secret else []), "", ""]).encode()


def connected(team: Team) -> socket.socket:
    host, port = team.url.split("/")[2].split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def everything(stranger: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    answer = b""
    try:
        while data := stranger.recv(2**16):
            answer += data
    except ConnectionResetError:
        pass
    return answer


def test_large_bodies_that_are_not_complete_keep_no_other_call_waiting(team: Team) -> None:
    reader, writer = team.token("slow-reader", permission="read"), team.token("quick-writer", "blue")
    with ExitStack() as stack:
        for framing in (f"Content-Length: {MAX_BODY}", "Transfer-Encoding: chunked") * 4:
            slow = stack.enter_context(connected(team))
            slow.sendall(head(reader, framing) + b"%x\r\n" % MAX_BODY + bytes(2 * 2**20))
        report = {"agent_id": "a", "session_id": "s", "content": "# Large\n\n" + "😀" * 400_000}
        assert called(team.url, writer, "store_report", **report)["success"]
        assert called(team.url, reader, "list_sessions")["success"]  # nor the small ones of the same token


class Held:
    """An application behind a gate. It has begun so many calls, and answers none before `go_on`."""

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()
        self._gate = Gate(self._app)

    async def _app(self, _scope: Any, receive: Any, _send: Any) -> None:
        if (await receive())["type"] == "http.request":
            self.begun += 1
            await self.go_on.wait()

    async def request(self, body: bytes) -> list[Any]:
        """Send a body in two pieces, and return what is answered: nothing if the application has begun."""
        pieces, sent = [body, b""], list[Any]()

        async def receive() -> Any:
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._gate({"type": "http", "path": "/", "headers": []}, receive, send)
        return sent


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "together"),
    [
        (b'"' + bytes(MAX_BODY - 2) + b'"', 8),
        (json.dumps("," * 500_000).encode(), 2),
        (json.dumps("[{" * 250_000).encode(), 2),
        (b"[" + b"7," * 300_000 + b"7]", 4),
    ],
    ids=["long", "text of commas", "text of brackets", "values"],
)
async def test_bodies_in_memory_have_one_limit_and_one_beyond_it_is_told_to_try_again(
    body: bytes, together: int
) -> None:
    """They count until their calls are answered, and no longer if they are refused."""
    held = Held()
    async with asyncio.TaskGroup() as group:
        for _ in range(together):
            group.create_task(held.request(body))
        await until(lambda: held.begun == together)
        for _ in range(2):
            start, answer = await held.request(body)
            assert (start["status"], (b"retry-after", b"5") in start["headers"]) == (503, True)
            assert answer["body"] == b"Too many large requests at the same time: try again later.\n"
        held.go_on.set()
    assert await held.request(body) == []
    assert held.begun == together + 1


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_that_comes_too_slowly_is_answered_and_its_connection_closed(
    team: Team, monkeypatch: pytest.MonkeyPatch, framing: str
) -> None:
    monkeypatch.setattr(asgi_guard, "SECONDS_TO_SEND", 0.5)
    secret = team.token(f"slow-{len(framing)}")
    with connected(team) as slow:
        slow.sendall(head(secret, framing) + b"1\r\n{")
        answer = everything(slow)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b"The body has not arrived in time.\n")


@pytest.mark.parametrize("path", ["/mcp", "/healthz"])
def test_an_abandoned_body_gets_no_more_time(team: Team, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A stranger was answered at once, and could send on."""
    monkeypatch.setattr(asgi_guard, "SECONDS_TO_SEND", 0.5)

    def is_cut_off() -> bool:
        try:
            stranger.sendall(b"x")
        except OSError:
            return True
        return False

    with connected(team) as stranger:
        stranger.sendall(head(None, "Content-Length: 1000000").replace(b"/mcp", path.encode()))
        assert stranger.recv(2**16).startswith((b"HTTP/1.1 401", b"HTTP/1.1 200"))
        eventually(is_cut_off)


def test_a_client_whose_body_was_refused_early_can_send_on_and_ask_again(team: Team) -> None:
    with connected(team) as client:
        client.sendall(head(None, "Content-Length: 1000000"))
        assert client.recv(2**16).startswith(b"HTTP/1.1 401")
        client.sendall(bytes(1_000_000) + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert everything(client).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "values", [b"7,", b"[],", b'{"a":0},', b'"ab",', b"["], ids=["numbers", "lists", "objects", "texts", "nested lists"]
)
def test_a_body_of_more_values_than_any_call_is_refused_before_it_is_parsed(team: Team, values: bytes) -> None:
    body = values * (MAX_BODIES // 2 // BYTES_OF_VALUE)
    with connected(team) as client:
        client.sendall(head(team.token(f"complex-{abs(hash(values))}"), f"Content-Length: {len(body)}") + body)
        answer = everything(client)
    assert (answer.startswith(b"HTTP/1.1 413 "), b"retry-after" in answer) == (True, False)
