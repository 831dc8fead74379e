"""Who is let in, and what strangers are told."""

import http.server
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from joserfc import jwk

from over_http.calling import answer_in, post
from over_http.conftest import Team, serving
from servers import MODERN
from vector_memory.settings import HttpOptions
from vector_memory.tenancy.callers import Permission
from vector_memory.tenancy.folders import FolderRegistry
from vector_memory.tenancy.tokens import token_file

NAMES = map("door-{}".format, itertools.count())
ISSUER, AUDIENCE = "https://id.example.com", "https://memory.example.com/mcp"


def sessions_of(answer: httpx2.Response) -> list[str]:
    """Return the sessions in the answer to list_sessions."""
    assert answer.status_code == 200, answer.text
    return [one["session_id"] for one in answer_in(answer)["sessions"]]


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
    assert post(team.url, team.token(next(NAMES), expires_at=time.time() - 1)).status_code == 401
    assert post(team.url, team.token(next(NAMES), expires_at=time.time() + 60)).status_code == 200


def test_a_revoked_token_is_refused_at_the_next_call(team: Team) -> None:
    name = next(NAMES)
    secret = team.token(name)
    assert post(team.url, secret).status_code == 200
    team.tokens.revoke(name)
    assert post(team.url, secret).status_code == 401


def test_a_token_of_a_namespace_that_is_gone_opens_nothing(team: Team) -> None:
    answer = post(team.url, team.token(next(NAMES), "gone"))
    assert "There is no namespace gone" in answer_in(answer)["message"]


def test_a_call_beyond_the_scope_of_a_token_is_answered_in_words(team: Team) -> None:
    secret = team.token(next(NAMES), permission="read")
    answer = post(team.url, secret, tool="delete_memory", arguments={"memory_id": 1})
    assert answer.status_code == 200
    assert answer_in(answer)["error"] == "AccessDenied"


def test_a_token_bound_to_an_agent_stores_as_that_agent_only(team: Team) -> None:
    secret = team.token(next(NAMES), agent_id="scout")
    report = {"session_id": "bound", "content": "# Found\n\nIt works."}
    refused = post(team.url, secret, tool="store_report", arguments={**report, "agent_id": "boss"})
    assert "stores as agent scout" in answer_in(refused)["message"]
    stored = post(team.url, secret, tool="store_report", arguments=report)
    assert answer_in(stored)["agent_id"] == "scout"


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


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD"])
def test_only_post_is_served(team: Team, method: str) -> None:
    headers = {"Authorization": f"Bearer {team.token(next(NAMES))}", "MCP-Protocol-Version": MODERN}
    assert httpx2.request(method, team.url, headers=headers).status_code == 405


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/openapi.json", "/metrics", "/sse", "/.well-known/openid-configuration"]
)
def test_nothing_but_liveness_is_served_without_a_token(team: Team, path: str) -> None:
    base = team.url.removesuffix("/mcp")
    assert httpx2.get(base + path).status_code == 404
    alive = httpx2.get(base + "/healthz")
    assert (alive.status_code, alive.text) == (200, "ok\n")


def test_no_answer_opens_or_names_a_session_of_the_protocol(team: Team) -> None:
    stranger = {"Mcp-Session-Id": "0123456789abcdef0123456789abcdef"}
    answer = post(team.url, team.token(next(NAMES)), headers=stranger)
    assert answer.status_code == 200
    assert "mcp-session-id" not in answer.headers


def test_the_largest_text_passes_and_a_larger_body_is_refused(team: Team) -> None:
    secret = team.token(next(NAMES))
    report = {"agent_id": "a", "session_id": "large", "content": "😀" * 500_000}
    assert answer_in(post(team.url, secret, tool="store_report", arguments=report))["success"]
    assert post(team.url, secret, arguments={"limit": "x" * (17 * 2**20)}).status_code == 413


def test_endless_headers_are_cut_off(team: Team) -> None:
    host, port = team.url.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as stranger:
        stranger.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: " + b"y" * 1_000_000)
        assert b"400" in stranger.recv(100)


class Provider(http.server.BaseHTTPRequestHandler):
    """An identity provider: it hands out its keys."""

    keys = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.keys)

    def log_message(self, *_: object) -> None:
        pass


class Signed:
    """A server that accepts the tokens of a provider, and the provider's key."""

    def __init__(self, url: str, key: RSAKeyPair) -> None:
        self.url = url
        self.key = key

    def token(self, **changes: Any) -> str:
        facts = {"issuer": ISSUER, "audience": AUDIENCE, "scopes": ["write"], "subject": "ada", "kid": "1"}
        claims = changes.pop("additional_claims", {"namespace": "red"})
        return self.key.create_token(additional_claims=claims, **facts | changes)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signed]:
    folder = tmp_path_factory.mktemp("signed")
    FolderRegistry(folder).create("red")
    key = RSAKeyPair.generate()
    public = jwk.import_key(key.public_key, "RSA").as_dict(private=False) | {"kid": "1", "alg": "RS256"}
    Provider.keys = json.dumps({"keys": [public]}).encode()
    provider = http.server.HTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    options = HttpOptions(
        http=True,
        data_dir=folder,
        public_url="https://memory.example.com",
        jwt_issuer=ISSUER,
        jwt_audience=AUDIENCE,
        jwt_jwks_url=f"http://127.0.0.1:{provider.server_port}/keys",
    )
    with serving(options, folder) as url:
        yield Signed(url, key)
    provider.shutdown()
    provider.server_close()


def test_a_signed_token_opens_its_namespace(signed: Signed) -> None:
    assert sessions_of(post(signed.url, signed.token())) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"audience": "https://other.example.com/mcp"},
        {"audience": None},
        {"issuer": "https://evil.example"},
        {"expires_in_seconds": -60},
        {"scopes": []},
        {"scopes": ["openid"]},
        {"additional_claims": {}},
        {"additional_claims": {"namespace": ["red"]}},
        {"additional_claims": {"namespace": "red", "exp": None}},
        {"additional_claims": {"namespace": "red", "nbf": 9_999_999_999}},
        {"additional_claims": {"namespace": "red", "nbf": "soon"}},
    ],
    ids=str,
)
def test_a_signed_token_for_anything_else_is_refused(signed: Signed, changes: dict[str, Any]) -> None:
    assert post(signed.url, signed.token(**changes)).status_code == 401


def test_a_call_beyond_the_scope_of_a_signed_token_is_forbidden_and_names_all_scopes_it_needs(signed: Signed) -> None:
    secret = signed.token(scopes=["read"])
    answer = post(signed.url, secret, tool="delete_memory", arguments={"memory_id": 1})
    assert answer.status_code == 403
    assert answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="read write"'


def test_a_token_that_somebody_else_signed_is_refused(signed: Signed) -> None:
    stranger = Signed(signed.url, RSAKeyPair.generate())
    assert post(signed.url, stranger.token()).status_code == 401


def test_while_the_keys_of_the_issuer_are_away_callers_are_told_to_come_back(tmp_path: Path) -> None:
    """They would throw their tokens away at 401."""
    options = HttpOptions(
        http=True,
        data_dir=tmp_path,
        public_url="https://memory.example.com",
        jwt_issuer=ISSUER,
        jwt_audience=AUDIENCE,
        jwt_jwks_url="http://127.0.0.1:9/keys",
    )
    FolderRegistry(tmp_path).create("red")
    own = token_file(tmp_path).create("ada", "red", Permission.READ)
    with serving(options, tmp_path) as url:
        for _ in range(2):  # the second time, nobody has tried to fetch them
            answer = post(url, Signed(url, RSAKeyPair.generate()).token())
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert post(url, own).status_code == 200


def test_a_stranger_is_told_where_to_get_a_token(signed: Signed) -> None:
    challenge = post(signed.url).headers["www-authenticate"]
    where = "https://memory.example.com/.well-known/oauth-protected-resource/mcp"
    assert challenge == f'Bearer scope="read", resource_metadata="{where}"'
    facts = httpx2.get(signed.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource/mcp").json()
    assert facts["resource"] == "https://memory.example.com/mcp"
    assert facts["authorization_servers"] == [f"{ISSUER}/"] or facts["authorization_servers"] == [ISSUER]
    assert facts["scopes_supported"] == ["read", "write", "admin"]


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
