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
from vector_memory.server.http.asgi_guard import MAX_BODY, MAX_STRUCTURE, Gate, is_complex
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


@pytest.mark.anyio
async def test_bodies_in_memory_have_one_limit_and_one_beyond_it_is_told_to_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They count until their calls are answered, and no longer if they are refused."""
    monkeypatch.setattr(asgi_guard, "MAX_BODIES", 3 * MAX_BODY)
    running: list[int] = []
    go_on = asyncio.Event()

    async def app(scope: Any, receive: Any, _send: Any) -> None:
        if (await receive())["type"] == "http.request":
            running.append(scope["number"])
            if len(running) <= 3:
                await go_on.wait()

    async def request(number: int) -> list[Any]:
        pieces, sent = [b'"' + bytes(MAX_BODY - 2) + b'"', b""], []

        async def receive() -> Any:
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

        async def send(message: Any) -> None:
            sent.append(message)

        await gate({"type": "http", "path": "/", "headers": [], "number": number}, receive, send)
        return sent

    gate = Gate(app)
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(request(number))
        await until(lambda: len(running) == 3)
        for _ in range(2):
            start, body = await request(3)
            assert (start["status"], (b"retry-after", b"5") in start["headers"]) == (503, True)
            assert body["body"] == b"Too many large requests at the same time: try again later.\n"
        go_on.set()
    assert await request(4) == []
    assert running == [0, 1, 2, 4]


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
