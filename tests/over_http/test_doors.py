"""Which requests a server for a team accepts: tokens, headers, addresses and bodies."""

import asyncio
import itertools
import json
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from over_http.calling import answer_in, called, post
from over_http.conftest import Team, serving
from servers import LEGACY, MODERN
from vector_memory.domain.callers import Permission
from vector_memory.extras.teams.registry import Registry
from vector_memory.server.http import asgi_guard
from vector_memory.server.http.asgi_guard import BYTES_OF_VALUE, MAX_BODIES, MAX_BODY, Gate
from vector_memory.settings import HttpOptions
from waiting import eventually, until

NAMES = map("door-{}".format, itertools.count())


def connected(team: Team) -> socket.socket:
    host, port = team.url.split("/")[2].split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def test_a_caller_without_a_token_is_told_the_scope_and_nothing_else(team: Team) -> None:
    answer = post(team.url)
    assert (answer.status_code, answer.text) == (401, "")
    assert answer.headers["www-authenticate"] == 'Bearer scope="read"'


@pytest.mark.parametrize("secret", ["x", "vm_", "vm_" + "A" * 43, "é", "vm_" + "A" * 10_000])
def test_an_unknown_token_is_refused(team: Team, secret: str) -> None:
    answer = post(team.url, headers={"Authorization": f"Bearer {secret}".encode()})
    assert answer.status_code == 401
    assert "vm_A" not in answer.text + str(answer.headers)


def test_a_token_in_the_address_opens_nothing(team: Team) -> None:
    secret = team.token(next(NAMES))
    assert post(f"{team.url}?token={secret}&access_token={secret}").status_code == 401


def test_an_expired_token_is_refused(team: Team) -> None:
    expired = team.token(next(NAMES), expires_at=time.time() - 1)
    assert team.tokens.find(expired) is None
    assert post(team.url, expired).status_code == 401
    assert post(team.url, team.token(next(NAMES), expires_at=time.time() + 60)).status_code == 200


def test_a_revoked_token_is_refused_at_the_next_call(team: Team) -> None:
    name = next(NAMES)
    secret = team.token(name)
    assert post(team.url, secret).status_code == 200
    team.tokens.revoke(name)
    assert post(team.url, secret).status_code == 401


def test_a_token_of_a_namespace_that_is_gone_opens_nothing(team: Team) -> None:
    assert "There is no namespace gone" in answer_in(post(team.url, team.token(next(NAMES), "gone")))["message"]


def test_last_is_the_session_before_that_of_the_day_for_callers_that_name_none(team: Team) -> None:
    secret = team.token("today", "zoo")
    called(team.url, secret, "store_session_context", session_id="zoo-2026-01-01", content="The plan.")
    for text in ("one", "two"):
        assert called(team.url, secret, "store_report", content=text)["session_id"] != "zoo-2026-01-01"
        assert called(team.url, secret, "get_session_stats", session_id="last")["session_id"] == "zoo-2026-01-01"


def test_a_token_bound_to_an_agent_stores_as_that_agent_only(team: Team) -> None:
    secret = team.token(next(NAMES), agent_id="scout")
    report = {"session_id": "bound", "content": "# Found\n\nIt works."}
    refused = post(team.url, secret, tool="store_report", arguments={**report, "agent_id": "boss"})
    assert "stores as agent scout" in answer_in(refused)["message"]
    assert answer_in(post(team.url, secret, tool="store_report", arguments=report))["agent_id"] == "scout"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:8765"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Mcp-Name": "delete_memory"}, 400),
        ({"Mcp-Method": "tools/list"}, 400),
        ({"MCP-Protocol-Version": "2099-01-01"}, 400),
        ({"Accept": "text/html"}, 406),
    ],
)
def test_a_request_with_wrong_headers_is_refused(team: Team, headers: dict[str, str], status: int) -> None:
    assert post(team.url, team.token(next(NAMES)), headers=headers).status_code == status


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Origin: http://localhost", "Origin: https://evil.example"], 403),
        (["Origin: http://[::1].evil.com"], 403),
        (["Origin: http://localhost@evil.com"], 403),
        (["Origin: ftp://localhost"], 403),
        (["Origin: http://localhost http://evil.example"], 403),
        (["Host: [::1].evil.com"], 421),
        (["Host: localhost:x"], 421),
        (["Host: evil@localhost"], 421),
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/mcp", "/healthz"])
def test_headers_that_can_be_understood_in_two_ways_are_refused_everywhere(
    team: Team, path: str, lines: list[str], status: int
) -> None:
    places = [] if any(line.startswith("Host:") for line in lines) else ["Host: localhost"]
    with connected(team) as client:
        client.sendall("\r\n".join([f"POST {path} HTTP/1.1", *places, *lines, "", ""]).encode())
        assert client.recv(2**16).startswith(b"HTTP/1.1 %d " % status)


def test_a_slash_at_the_end_of_the_address_leads_to_the_same_place_and_not_elsewhere(team: Team) -> None:
    secret = team.token(next(NAMES))
    for behind_proxy in ({}, {"X-Forwarded-Proto": "https", "Forwarded": "proto=https"}):
        answer = post(f"{team.url}/", secret, headers=behind_proxy)
        assert (answer.status_code, answer_in(answer)["success"]) == (200, True)
        assert post(f"{team.url}//", secret, headers=behind_proxy).status_code == 404


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD"])
def test_only_post_is_served(team: Team, method: str) -> None:
    headers = {"Authorization": f"Bearer {team.token(next(NAMES))}", "MCP-Protocol-Version": MODERN}
    assert httpx2.request(method, team.url, headers=headers).status_code == 405


def test_the_largest_text_passes_and_a_larger_body_is_refused(team: Team) -> None:
    secret = team.token(next(NAMES))
    report = {"agent_id": "a", "session_id": "large", "content": "😀" * 500_000}
    assert answer_in(post(team.url, secret, tool="store_report", arguments=report))["success"]
    assert post(team.url, secret, arguments={"limit": "x" * (17 * 2**20)}).status_code == 413


@pytest.mark.parametrize("damage", [None, b"", b"no database" * 1_000], ids=["removed", "empty", "damaged"])
def test_a_damaged_list_of_tokens_tells_clients_to_come_back_and_is_not_served(
    tmp_path: Path, damage: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would throw their tokens away at 401."""
    monkeypatch.setattr("vector_memory.extras.teams.registry.QUOTA_SECONDS", 0)
    registry, path = Registry(tmp_path), tmp_path / "teams.db"
    registry.create("red")
    operator = registry.tokens.create("other", "red", Permission.ADMIN)
    with serving(HttpOptions(http=True, data_dir=tmp_path), tmp_path) as url:
        sound = path.read_bytes()
        path.unlink() if damage is None else path.write_bytes(damage)
        refused = [post(url, operator) for _ in range(2)]  # the second time, the file is opened again
        assert [(one.status_code, one.headers.get("retry-after")) for one in refused] == [(503, "5")] * 2
        path.write_bytes(sound)
        assert post(url, operator).status_code == 200
        path.write_bytes(b"no database" * 1_000)
        assert "restore teams.db" in answer_in(post(url, operator))["message"]


def test_endless_headers_are_cut_off(team: Team) -> None:
    with connected(team) as stranger:
        stranger.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: " + b"y" * 1_000_000)
        assert b"400" in stranger.recv(100)


def test_a_server_that_others_can_reach_needs_tokens_and_a_name(tmp_path: Path) -> None:
    for options in ({}, {"data_dir": tmp_path}, {"public_url": "https://memory.example.com"}):
        with pytest.raises(ValueError, match="can be reached from other machines"):
            HttpOptions(http=True, host="0.0.0.0", **options)  # noqa: S104
    HttpOptions(http=True, host="0.0.0.0", data_dir=tmp_path, public_url="https://memory.example.com")  # noqa: S104


@pytest.mark.parametrize("url", ["memory.example.com", "ftp://memory.example.com", "https://", "https://a b"])
def test_the_public_url_must_be_one(url: str) -> None:
    with pytest.raises(ValueError, match="public_url"):
        HttpOptions(http=True, public_url=url)


@pytest.mark.parametrize(
    ("host", "address"), [("::1", "http://[::1]:80/mcp"), ("127.0.0.1", "http://127.0.0.1:80/mcp")]
)
def test_the_address_that_a_server_names_is_a_url(host: str, address: str) -> None:
    assert HttpOptions(http=True, host=host).address(80) == address


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
