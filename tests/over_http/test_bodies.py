"""Bodies that come slowly, are large, or full of values: they cost their sender alone."""

import asyncio
import json
import socket
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from over_http.calling import called
from over_http.conftest import Team
from servers import LEGACY
from vector_memory.server.current_store import CLAIM
from vector_memory.server.http import asgi_guard
from vector_memory.server.http.asgi_guard import (
    LARGE,
    MAX_BODY,
    MAX_STRUCTURE,
    ROOM,
    Bodies,
    BodyError,
    Gate,
    is_complex,
)
from vector_memory.tenancy.tokens import Caller, Permission
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


def test_large_bodies_that_are_not_complete_keep_no_other_token_waiting(team: Team) -> None:
    reader, writer = team.token("slow-reader", permission="read"), team.token("quick-writer", "blue")
    with ExitStack() as stack:
        for framing in (f"Content-Length: {MAX_BODY}", "Transfer-Encoding: chunked") * 4:
            slow = stack.enter_context(connected(team))
            slow.sendall(head(reader, framing) + b"%x\r\n" % MAX_BODY + bytes(2 * LARGE))
        report = {"agent_id": "a", "session_id": "s", "content": "# Large\n\n" + "😀" * 400_000}
        assert called(team.url, writer, "store_report", **report)["success"]
        assert called(team.url, reader, "list_sessions")["success"]  # nor the small ones of the same token


@pytest.mark.anyio
async def test_large_bodies_keep_no_other_token_waiting_while_their_calls_run() -> None:
    """Whoever only reads could hold up all others with calls that wait."""
    running: list[str] = []
    go_on = asyncio.Event()

    async def app(scope: Any, receive: Any, _send: Any) -> None:
        await receive()
        running.append(scope["owner"])
        await go_on.wait()

    async def request(owner: str) -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": b'"' + bytes(MAX_BODY - 2) + b'"'}

        caller = Caller(name="same", namespace=owner, permission=Permission.READ)
        user = SimpleNamespace(access_token=SimpleNamespace(claims={CLAIM: caller}))
        headers = [(b"content-length", str(MAX_BODY).encode())]
        await gate({"type": "http", "path": "/", "headers": headers, "owner": owner, "user": user}, receive, None)

    gate = Gate(app)
    async with asyncio.TaskGroup() as group:
        for owner in ("red", "red", "red", "blue"):
            group.create_task(request(owner))
        await until(lambda: len(running) == 3)
        assert running == ["red", "red", "blue"]
        go_on.set()


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_that_comes_too_slowly_is_answered_and_its_connection_closed(
    team: Team, monkeypatch: pytest.MonkeyPatch, framing: str
) -> None:
    monkeypatch.setattr(asgi_guard, "BODY_SECONDS", 0.5)
    secret = team.token(f"slow-{len(framing)}")
    with connected(team) as slow:
        slow.sendall(head(secret, framing) + b"1\r\n{")
        answer = everything(slow)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b"The body has not arrived in time.\n")


@pytest.mark.parametrize("path", ["/mcp", "/healthz"])
def test_an_abandoned_body_gets_no_more_time(team: Team, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A stranger was answered at once, and could send on for as long as headers may take."""
    monkeypatch.setattr(asgi_guard, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(asgi_guard, "HEAD_SECONDS", 10_000.0)

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
    "body",
    [
        "[" + "7," * MAX_STRUCTURE + "7]",
        "[" * (MAX_STRUCTURE + 1),
        json.dumps(["ab"] * MAX_STRUCTURE),
        json.dumps({"text": '"\\' * 200_000, "x": [[]] * MAX_STRUCTURE}),
        " " * (MAX_STRUCTURE + 1),
    ],
    ids=["numbers", "lists", "texts", "after a text", "spaces"],
)
def test_a_body_of_more_values_than_any_call_is_refused_before_it_is_parsed(team: Team, body: str) -> None:
    secret = team.token(f"complex-{abs(hash(body))}")
    with connected(team) as client:
        client.sendall(head(secret, f"Content-Length: {len(body)}") + body.encode())
        assert everything(client).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "text", ["7," * 500_000, '"\\' * 250_000, "\\" * 500_000, "\n\t\x01" * 100_000, "é😀" * 200_000]
)
def test_a_text_may_contain_anything(text: str) -> None:
    for escaped in (True, False):
        assert not is_complex(json.dumps({"content": text, "more": [text, "\\"]}, ensure_ascii=escaped).encode())


def scope_of(size: int) -> dict[str, Any]:
    return {"type": "http", "headers": [(b"content-length", str(size).encode())]}


class Waiting:
    """Reads bodies of one token, each of which is held until it is told to end."""

    def __init__(self) -> None:
        self.bodies = Bodies()
        self.read: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def request(self, name: str, size: int, *, sent: int | None = None) -> None:
        """Read a body of some size, of which only so many bytes arrive."""
        pieces = [size if sent is None else sent]

        async def receive() -> Any:
            if not pieces:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": b'"' + bytes(pieces.pop() - 2) + b'"', "more_body": bool(sent)}

        ends = self._ends[name] = asyncio.Event()
        with ExitStack() as held:
            await self.bodies.read(scope_of(size), receive, held)
            self.read.append(name)
            await ends.wait()

    def end(self, name: str) -> None:
        self._ends[name].set()


@pytest.mark.anyio
async def test_large_bodies_of_one_token_wait_for_each_other_in_their_order_and_small_ones_do_not() -> None:
    waiting = Waiting()
    sizes = {"first": MAX_BODY, "second": MAX_BODY, "third": MAX_BODY, "fourth": MAX_BODY, "small": LARGE}
    async with asyncio.TaskGroup() as group:
        for name, size in sizes.items():
            group.create_task(waiting.request(name, size))
        await until(lambda: len(waiting.read) == 3)
        assert waiting.read == ["first", "second", "small"]
        waiting.end("second")
        await until(lambda: len(waiting.read) == 4)
        assert waiting.read[-1] == "third"
        waiting.end("first")
        await until(lambda: len(waiting.read) == 5)
        for name in sizes:
            waiting.end(name)


@pytest.mark.anyio
async def test_bodies_that_do_not_arrive_take_no_more_room_than_their_bytes() -> None:
    waiting = Waiting()
    slow = [asyncio.create_task(waiting.request(f"slow-{n}", MAX_BODY, sent=LARGE // 2)) for n in range(40)]
    quick = [asyncio.create_task(waiting.request(f"quick-{n}", MAX_BODY)) for n in range(2)]
    await until(lambda: len(waiting.read) == 2)
    for task in (*slow, *quick):
        task.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize(("size", "count"), [(MAX_BODY, ROOM // MAX_BODY), (LARGE, ROOM // LARGE)])
async def test_a_body_that_finds_no_room_in_time_is_told_why(
    monkeypatch: pytest.MonkeyPatch, size: int, count: int
) -> None:
    waiting = Waiting()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(waiting.request(str(number), size))
        await until(lambda: len(waiting.read) == count)
        monkeypatch.setattr(asgi_guard, "BODY_SECONDS", 0.05)
        with pytest.raises(BodyError, match="use all of its space") as error:
            await waiting.request("late", size)
        assert error.value.refusal.status == 503
        monkeypatch.undo()
        waiting.end("0")
        again = group.create_task(waiting.request("again", size))
        await until(lambda: waiting.read[-1] == "again")
        for number in range(count):
            waiting.end(str(number))
        waiting.end("again")
    assert again.done()
