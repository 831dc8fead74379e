"""Bodies that come slowly, are large, or full of values: they cost their sender alone."""

import asyncio
import json
import socket
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from over_http.calling import called, post
from over_http.conftest import Team
from servers import LEGACY
from vector_memory.server.http import bodies
from vector_memory.server.http.bodies import MAX_STRUCTURE, ROOM, Bodies, BodyError, is_complex
from waiting import until

LARGE = 2**20


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
        for framing in (f"Content-Length: {16 * 2**20}", "Transfer-Encoding: chunked") * 4:
            slow = stack.enter_context(connected(team))
            slow.sendall(head(reader, framing) + b"100000\r\n" + bytes(LARGE))
        report = {"agent_id": "a", "session_id": "s", "content": "# Large\n\n" + "word " * 90_000, "title": "x"}
        assert called(team.url, writer, "store_report", **report, metadata={"padding": "y" * 19_000})["success"]
        padded = post(team.url, writer, headers={"X-Padding": "z"}, arguments={"limit": 1})
        assert padded.status_code == 200


def test_a_large_body_keeps_no_other_waiting_while_its_call_runs(team: Team) -> None:
    """Whoever only reads could hold up all others with calls that wait."""
    reader, writer = team.token("waiting-reader", permission="read"), team.token("other-writer", "blue")
    wait = {"name": "search_changes", "arguments": {"session_id": "s", "since": "now", "wait": 50, "x": "y" * LARGE}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": wait}).encode()
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connected(team)).sendall(head(reader, f"Content-Length: {len(body)}") + body)
        report = {"agent_id": "a", "session_id": "s", "content": "# Large\n\n" + "é" * 400_000}
        assert called(team.url, writer, "store_report", **report)["success"]


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_that_comes_too_slowly_is_answered_and_its_connection_closed(
    team: Team, monkeypatch: pytest.MonkeyPatch, framing: str
) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.5)
    secret = team.token(f"slow-{len(framing)}")
    with connected(team) as slow:
        slow.sendall(head(secret, framing) + b"1\r\n{")
        answer = everything(slow)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b"The body has not arrived in time.\n")


def test_a_body_that_nobody_waits_for_has_no_more_time(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger was answered at once, and could send on for a minute."""
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.5)
    for path in (b"/mcp", b"/healthz"):
        with connected(team) as stranger:
            stranger.sendall(head(None, "Content-Length: 1000000").replace(b"/mcp", path))
            answer = b""
            with suppress(OSError):
                while True:
                    stranger.sendall(b"x")
                    answer += stranger.recv(2**16) if not answer else b""
        assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 200"))


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


@pytest.mark.anyio
async def test_the_bodies_of_one_token_wait_for_each_other_in_their_order() -> None:
    at_work: list[int] = []
    ends = [asyncio.Event() for _ in range(4)]
    all_bodies = Bodies()

    async def request(number: int, size: int) -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": b'"' + bytes(size - 2) + b'"'}

        with ExitStack() as held:
            await all_bodies.read(scope_of(size), receive, held)
            at_work.append(number)
            await ends[number].wait()

    sizes = [ROOM // 2, ROOM // 2, ROOM // 2, 100]
    async with asyncio.TaskGroup() as group:
        for number, size in enumerate(sizes):
            group.create_task(request(number, size))
        await until(lambda: len(at_work) == 2)
        assert at_work == [0, 1]
        ends[1].set()
        await until(lambda: len(at_work) == 3)
        assert at_work == [0, 1, 2]
        ends[0].set()
        await until(lambda: len(at_work) == 4)
        ends[2].set()
        ends[3].set()


@pytest.mark.anyio
async def test_a_body_that_finds_no_room_in_time_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    all_bodies, full = Bodies(), scope_of(ROOM)

    async def receive() -> Any:
        return {"type": "http.request", "body": b'"' + bytes(bodies.MAX_BODY - 2) + b'"'}

    with ExitStack() as held:
        for _ in range(2):
            await all_bodies.read(full, receive, held)
        monkeypatch.setattr(bodies, "BODY_SECONDS", 0.05)
        with pytest.raises(BodyError, match="take all its room") as error, ExitStack() as other:
            await all_bodies.read(full, receive, other)
        assert error.value.status == 503
    monkeypatch.undo()
    with ExitStack() as held:
        await all_bodies.read(full, receive, held)
