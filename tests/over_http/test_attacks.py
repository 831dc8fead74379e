"""Attacks that other servers of the protocol fell to, named by their CVE, and strangers who use up connections."""

import asyncio
import itertools
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from over_http.calling import called, message_of, post, send
from over_http.conftest import ALL_TOOLS, SETTINGS, Team, running
from over_http.processes import Running, established
from servers import CLIENT, ENVELOPE, LEGACY, MODERN
from tool_calls import good_arguments
from vector_memory.server.http import asgi_guard, serving
from vector_memory.server.tools import offered
from vector_memory.settings import HttpOptions
from waiting import eventually

NAMES = map("attacker-{}".format, itertools.count())
WRITING = [
    tool
    for tool in offered(ALL_TOOLS.chosen(), on_this_machine=False)
    if not (tool.annotations and tool.annotations.read_only_hint) and tool.name != "write_document_to_file"
]
MANY = 10_000
FEW_FILES = 1_024
"""How many files a process may open on most systems, unless it asks for more."""


def stored(team: Team, namespace: str, content: str, **facts: str) -> int:
    """Store a report and return its id."""
    secret = team.token(next(NAMES), namespace)
    report = {"agent_id": "a", "session_id": "attacked", "content": content, **facts}
    return int(called(team.url, secret, "store_report", **report)["memory_id"])


def test_no_client_can_join_a_protocol_session_because_there_are_none(team: Team) -> None:
    """CVE-2026-52869: whoever knew the id of a session could send messages into it."""
    stored(team, "blue", "# Blue\n\nFor blue only.", session_id="secret-session")
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}
    opened = send(team.url, team.token(next(NAMES), "blue"), "initialize", hello)
    assert opened.status_code == 200
    assert "mcp-session-id" not in opened.headers
    listing: dict[str, Any] = {"name": "list_sessions", "arguments": {}}
    for session in ("0123456789abcdef0123456789abcdef", "", "../blue"):
        stolen = {"Mcp-Session-Id": session, "Last-Event-ID": "1"}
        assert send(team.url, None, "tools/call", listing, **stolen).status_code == 401
        joined = send(team.url, team.token(next(NAMES), "red"), "tools/call", listing, **stolen)
        assert joined.status_code == 200
        assert "secret-session" not in joined.text


@pytest.mark.parametrize("method", ["tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update"])
@pytest.mark.parametrize("envelope", [{}, {"_meta": ENVELOPE}], ids=[LEGACY, MODERN])
def test_there_are_no_tasks_to_take_from_others(team: Team, method: str, envelope: dict[str, Any]) -> None:
    """CVE-2026-52870: a task could be read and cancelled by anybody who named its id."""
    answer = send(team.url, team.token(next(NAMES)), method, {"taskId": "1", **envelope})
    assert message_of(answer)["error"]["code"] in (-32601, -32602)


def test_a_web_page_reaches_no_memory_on_ones_own_machine(tmp_path: Path) -> None:
    """CVE-2026-42559: a page whose name was bound to 127.0.0.1 could call every tool of a server without tokens."""
    app = serving.application(tmp_path / "memory.db", SETTINGS, [], ALL_TOOLS, HttpOptions(http=True))
    with running(app) as url:
        port = url.split("/")[2].partition(":")[2]
        assert post(url).status_code == 200
        for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "127.0.0.1@evil", ""):
            assert post(url, headers={"Host": host}).status_code in (400, 421), host
        for origin in ("http://evil.example", f"http://evil.example:{port}", "null", "file://", "http://127.0.0.1.e"):
            assert post(url, headers={"Origin": origin}).status_code == 403, origin
        preflight = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
        asked = httpx2.request("OPTIONS", url, headers=preflight)
        simple = post(url, headers={"Origin": "http://localhost:3000", "Content-Type": "text/plain"})
        assert (asked.status_code, simple.status_code) == (405, 400)
        assert not [name for name in (*asked.headers, *simple.headers) if name.startswith("access-control")]
        two_hosts = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", int(port))) as stranger:
            stranger.sendall(two_hosts)
            assert b" 400 " in stranger.recv(100)


@pytest.mark.anyio
async def test_every_client_gets_its_own_answers_and_no_other(team: Team) -> None:
    """CVE-2026-25536: answers went to another client that had sent a request with the same id."""
    secrets = {name: team.token(next(NAMES), name) for name in ("red", "blue")}
    owners = [(name, number) for name in secrets for number in range(12)]
    for name, number in owners:
        called(
            team.url, secrets[name], "store_report", agent_id="a", session_id=f"{name}-{number}", content="# A\n\nB."
        )

    async def ask(client: httpx2.AsyncClient, owner: tuple[str, int], turn: int) -> None:
        name, number = owner
        envelope = {"_meta": ENVELOPE} if turn % 2 else {}
        session = f"{name}-{number}"
        params = {"name": "search_reports_full_documents", "arguments": {"session_id": session}, **envelope}
        headers = {"Authorization": f"Bearer {secrets[name]}", "Accept": "application/json, text/event-stream"}
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": params["name"]} if envelope else {}
        headers |= {"MCP-Protocol-Version": MODERN if envelope else LEGACY}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = message_of(await client.post(team.url, json=body, headers=headers))
        assert [one["session_id"] for one in answer["result"]["structuredContent"]["results"]] == [session]

    async with httpx2.AsyncClient(timeout=120) as client:
        await asyncio.gather(*(ask(client, owner, turn) for turn in range(6) for owner in owners))


def test_no_route_but_liveness_answers_without_a_token(team: Team) -> None:
    """CVE-2026-29787 and CVE-2026-50027: a health page told of the machine; the routes of documents needed no token."""
    base = team.url.removesuffix("/mcp")
    app = serving.application(
        team.folder / "x.db", SETTINGS, [], ALL_TOOLS, HttpOptions(http=True, data_dir=team.folder)
    )
    routes = {str(getattr(route, "path", "")) for route in getattr(app, "routes")}  # noqa: B009 - an App has no routes
    assert {"/mcp", "/metrics"} <= routes
    guessed = {"/health", "/api/health/detailed", "/api/documents/upload", "/api/documents/search", "/mcp/", "//mcp"}
    for path, method in itertools.product(routes | guessed | {"/healthz/", "/%2e%2e/mcp"}, ("GET", "POST", "DELETE")):
        answer = httpx2.request(method, base + path, follow_redirects=True)
        assert answer.status_code in (401, 404, 405) or answer.text == "ok\n", (method, path, answer.status_code)
        assert not answer.text or len(answer.text) < 30, (path, answer.text)
    assert httpx2.get(base + "/healthz?detailed=1").text == "ok\n"


@pytest.mark.parametrize("tool", WRITING, ids=lambda tool: tool.name)
def test_a_token_that_reads_writes_by_no_way(team: Team, tool: Any) -> None:
    """CVE-2026-49291: a token that could only read could call the tools that write."""
    reader = team.token(next(NAMES), permission="read")
    before = called(team.url, reader, "get_session_stats")
    call = {"name": tool.name, "arguments": good_arguments(tool)}
    legacy = message_of(send(team.url, reader, "tools/call", call))
    assert legacy["result"]["structuredContent"]["error"] == "AccessDenied"
    disguised = send(team.url, reader, "tools/call", {**call, "_meta": ENVELOPE}, **{"Mcp-Name": "list_sessions"})
    assert disguised.status_code == 400
    for name in (tool.name.upper(), f" {tool.name}", f"{tool.name}\0"):
        spelt = message_of(send(team.url, reader, "tools/call", {**call, "name": name}, **{"Mcp-Name": "x"}))
        assert spelt["result"]["isError"]
    many = [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}] * 2
    headers = {"Authorization": f"Bearer {reader}", "Accept": "application/json, text/event-stream"}
    assert httpx2.post(team.url, json=many, headers=headers).status_code == 400
    assert called(team.url, reader, "get_session_stats") == before


def test_a_cursor_of_another_namespace_shows_nothing_of_it(team: Team) -> None:
    for number in range(20):  # more than blue had before
        stored(team, "red", f"# Apple {number}\n\nRound.", session_id="fruit")
    for number in range(50):
        stored(team, "blue", f"# Zebra {number}\n\nStriped.", session_id="fruit")
    changes = {"tool": "search_changes", "session_id": "fruit", "full": True}
    red, blue = (team.token(next(NAMES), name) for name in ("red", "blue"))
    early = called(team.url, blue, **changes, limit=1)["cursor"]
    late = called(team.url, blue, **changes, since="now")["cursor"]
    answers = [called(team.url, red, **changes, since=cursor) for cursor in (early, late, "0", "-1", "9" * 18)]
    assert "Apple" in json.dumps(answers)
    assert "Zebra" not in json.dumps(answers)
    assert [answer["error"] for answer in answers if not answer["success"]] == ["ValidationError"] * 3


WITH_FEW_FILES = f"""
import resource
from vector_memory.cli.main import main

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, ({FEW_FILES}, most))
main()
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("process"), start=["-c", WITH_FEW_FILES])
    yield server
    server.process.terminate()
    assert server.process.wait(60) == 0


@contextmanager
def open_files(count: int) -> Iterator[int]:
    """Limit the files that this process may open, or raise the limit as far as possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield count
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_web_page_cannot_open_a_web_socket(process: Running) -> None:
    """CVE-2026-59950: web sockets were accepted from any page."""
    for path in ("/mcp", "/ws", "/"):
        with socket.create_connection(process.address) as page:
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\nConnection: Upgrade\r\n"
            key = (
                "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            page.sendall((head + key).encode())
            assert page.recv(100).startswith((b"HTTP/1.1 403", b"HTTP/1.1 404", b"HTTP/1.1 401"))


def test_ten_thousand_idle_connections_lock_no_client_out(process: Running) -> None:
    with open_files(MANY + FEW_FILES) as limit, ExitStack() as stack:
        for _ in range(min(MANY, limit - FEW_FILES // 2)):
            stack.enter_context(socket.create_connection(process.address))
        assert process.call("list_sessions")["success"]
    assert process.call("list_sessions")["success"]


def test_clients_that_send_their_headers_slowly_are_cut_off(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_guard, "SECONDS_TO_SEND", 0.5)
    host, port = team.url.split("/")[2].split(":")
    secret = team.token(next(NAMES))
    with (
        socket.create_connection((host, int(port))) as idle,
        socket.create_connection((host, int(port))) as slow,
        socket.create_connection((host, int(port))) as second,
    ):
        slow.sendall(b"POST /mcp HTTP/1.1\r\n")
        second.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert second.recv(1000).startswith(b"HTTP/1.1 200")
        second.sendall(b"GET /heal")
        drip = threading.Thread(target=dripping, args=(slow,), daemon=True)
        drip.start()
        assert called(team.url, secret, "list_sessions")["success"]
        for stranger in (idle, slow, second):
            assert is_cut_off(stranger)
        drip.join()
        # A call that takes longer than its headers may is not cut off.
        started = called(team.url, secret, "search_changes", session_id="s", since="now")["cursor"]
        answer = called(team.url, secret, "search_changes", session_id="s", since=started, wait=1)
        assert answer["success"], answer


def dripping(stranger: socket.socket) -> None:
    """Send a header byte by byte, until the connection is gone."""
    try:
        while True:
            stranger.sendall(b"x")
            time.sleep(0.05)
    except OSError:
        return


def is_cut_off(stranger: socket.socket) -> bool:
    stranger.settimeout(30)
    try:
        while data := stranger.recv(1000):
            assert not data.startswith(b"HTTP/1.1 2"), data
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such setting")
def test_a_client_that_never_reads_its_answer_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_guard, "UNREAD_SECONDS", 1.0)
    app = serving.application(tmp_path / "memory.db", SETTINGS, [], ALL_TOOLS, HttpOptions(http=True))
    with running(app) as url:
        host, port = url.split("/")[2].split(":")
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
        head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        head += f"\r\nMCP-Protocol-Version: {LEGACY}\r\nAccept: application/json, text/event-stream\r\n\r\n"
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            stranger.connect((host, int(port)))
            stranger.sendall((head.encode() + body) * 100)
            eventually(lambda: established((host, int(port))) > 0)
            assert post(url).status_code == 200
            eventually(lambda: established((host, int(port))) == 0)
