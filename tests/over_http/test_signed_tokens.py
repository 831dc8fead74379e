"""Who is let in with a token that an identity provider has signed."""

import itertools
import json
import time
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from fastmcp.server.auth.providers import jwt

from over_http.calling import answer_in, post
from over_http.conftest import serving
from over_http.signed import ISSUER, Provider, options, trusting, unsigned
from vector_memory.domain.callers import Permission
from vector_memory.extras.teams import auth
from vector_memory.extras.teams.audit import AuditLog
from vector_memory.extras.teams.registry import Registry
from vector_memory.server.http.asgi_guard import RETRY_SECONDS

HTML = b"<!doctype html><title>Sign in</title>"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.close()


@pytest.fixture(scope="module")
def url(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose provider answers."""
    with trusting(provider, tmp_path_factory.mktemp("signed")) as address:
        yield address


@pytest.fixture
def unsteady() -> Iterator[Provider]:
    """A provider that a test may spoil."""
    made = Provider()
    yield made
    made.close()


def test_a_signed_token_opens_its_namespace(url: str, provider: Provider) -> None:
    assert answer_in(post(url, provider.token()))["sessions"] == []


@pytest.mark.parametrize(
    "changes",
    [
        *({"aud": wrong} for wrong in ("https://other.example.com/mcp", None)),
        *({"iss": wrong} for wrong in ("https://evil.example", None)),
        *({"scope": wrong} for wrong in (None, "openid", 7)),
        *({"namespace": wrong} for wrong in (None, ["red"])),
        *({"exp": wrong} for wrong in (None, 1, "never", inf, nan, True)),
        *({"nbf": wrong} for wrong in (9_999_999_999, "soon", nan, inf)),
        *({"iat": wrong} for wrong in (9_999_999_999, nan, [])),
        *({"sub": wrong} for wrong in (None, 7, "x" * 256, "half \ud83d", "two\nlines")),
        {"header": {"crit": ["b64"], "b64": False}},
        *({"claims": wrong} for wrong in ("[" * 40_000, "7")),
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_a_signed_token_for_anything_else_is_refused(url: str, provider: Provider, changes: dict[str, Any]) -> None:
    assert post(url, provider.token(**changes)).status_code == 401


@pytest.mark.parametrize("times", [{"exp": 10**400}, {"exp": 1e300}, {"exp": 4e9, "nbf": 0.5}, {"nbf": -(10**400)}])
def test_a_time_may_be_any_number(url: str, provider: Provider, times: dict[str, Any]) -> None:
    assert post(url, provider.token(**times)).status_code == 200


@pytest.mark.parametrize(
    "header",
    ["[" * 40_000, "{}", "7", '{"alg":"none"}', '{"alg":"HS256","kid":"1"}', '{"alg":"RS256","kid":["1"]}', "\ud83d"],
)
def test_what_only_looks_like_a_token_is_refused(url: str, header: str) -> None:
    assert post(url, unsigned(header.encode(errors="replace").decode())).status_code == 401


def test_a_call_beyond_the_scope_of_a_signed_token_is_forbidden_and_names_all_scopes_it_needs(
    url: str, provider: Provider
) -> None:
    answer = post(url, provider.token(scope="read"), tool="delete_memory", arguments={"memory_id": 1})
    assert answer.status_code == 403
    assert answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="read write"'


def test_a_token_that_somebody_else_signed_is_refused(url: str, unsteady: Provider) -> None:
    assert post(url, unsteady.token()).status_code == 401


def test_a_stranger_is_told_where_to_get_a_token(url: str) -> None:
    challenge = post(url).headers["www-authenticate"]
    where = "https://memory.example.com/.well-known/oauth-protected-resource/mcp"
    assert challenge == f'Bearer scope="read", resource_metadata="{where}"'
    facts = httpx2.get(url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource/mcp").json()
    assert facts["resource"] == "https://memory.example.com/mcp"
    assert [where.rstrip("/") for where in facts["authorization_servers"]] == [ISSUER]
    assert facts["scopes_supported"] == ["read", "write", "admin"]


def test_the_audit_tells_a_signed_token_from_one_of_the_server_with_the_same_name(
    unsteady: Provider, tmp_path: Path
) -> None:
    with trusting(unsteady, tmp_path) as url:
        own = Registry(tmp_path).tokens.create("ada", "red", Permission.READ)
        assert [post(url, secret).status_code for secret in (own, unsteady.token(sub="ada"))] == [200, 200]
    assert [line["token"] for line in AuditLog(tmp_path).lines()] == ["ada", "jwt:ada"]


def endless() -> Iterator[bytes]:
    """Return an answer of which more than fits comes while somebody reads it."""
    return itertools.repeat(b" " * 2**16, 2**14)


def slow() -> Iterator[bytes]:
    """Return an answer that comes byte by byte."""
    while True:
        yield b" "
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, HTML),
        (200, b"{}"),
        (200, b"[" * 100_000),
        (200, b'{"keys": []}'),
        (200, b'{"keys": [7, {"kty": "RSA"}]}'),
        (302, b""),
        (500, b"{}"),
        (200, endless),
        (200, slow),
    ],
    ids=["page", "no keys", "nested", "empty", "unusable", "moved", "error", "endless", "slow"],
)
def test_while_the_keys_cannot_be_fetched_callers_are_told_to_come_back(
    unsteady: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, answer: Any
) -> None:
    """They would throw their tokens away at 401."""
    monkeypatch.setattr(auth, "SECONDS_TO_FETCH", 0.5 if answer is slow else 60.0)
    sound, sent = unsteady.answer, []
    unsteady.status, unsteady.answer = status, counted(answer(), sent) if callable(answer) else answer
    with trusting(unsteady, tmp_path) as url:
        own = Registry(tmp_path).tokens.create("ada", "red", Permission.READ)
        for _ in range(2):  # the second time, nobody has tried to fetch them
            refused = post(url, unsteady.token())
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert post(url, own).status_code == 200
        assert unsteady.asked == 1
        assert sum(sent) < 2**26, "the answer was read to its end"
        unsteady.status, unsteady.answer = 200, sound
        wait(monkeypatch)
        assert post(url, unsteady.token()).status_code == 200


def wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server fetch keys again, as if it had waited for as long as it lets others wait."""
    ahead = SimpleNamespace(monotonic=lambda: time.monotonic() + RETRY_SECONDS, time=time.time)
    monkeypatch.setattr(jwt, "time", ahead)


def counted(pieces: Iterator[bytes], sent: list[int]) -> Iterator[bytes]:
    """Yield pieces, and note how long each was that could be sent."""
    for piece in pieces:
        yield piece
        sent.append(len(piece))


@pytest.mark.parametrize("answer", [HTML, b'{"keys": []}', b'{"keys": 7}', b'{"keys": [{"kty": "EC"}]}'])
def test_an_unknown_key_does_not_affect_other_tokens(
    unsteady: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    stranger = {"header": {"kid": "unknown"}}
    with trusting(unsteady, tmp_path) as url:
        assert post(url, unsteady.token()).status_code == 200
        unsteady.answer = answer
        wait(monkeypatch)
        assert post(url, unsteady.token(**stranger)).status_code == 503
        assert post(url, unsteady.token()).status_code == 200
        assert post(url, unsteady.token(exp=1)).status_code == 401
        assert post(url, unsteady.token(aud="other")).status_code == 401


def test_unknown_keys_are_asked_for_once_and_a_new_one_is_found(
    unsteady: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trusting(unsteady, tmp_path) as url:
        for number in range(5):
            assert post(url, unsteady.token(header={"kid": f"unknown-{number}"})).status_code == 401
        assert unsteady.asked == 1
        unsteady.answer = json.dumps({"keys": [unsteady.public("1"), unsteady.public("2")]}).encode()
        wait(monkeypatch)
        assert post(url, unsteady.token(header={"kid": "2"})).status_code == 200


def test_below_the_path_of_the_public_url_everything_is_served(provider: Provider, tmp_path: Path) -> None:
    """Whether or not a proxy removes the path."""
    at_path = options(provider, tmp_path).model_copy(update={"public_url": "https://memory.example.com/team"})
    Registry(tmp_path).create("red")
    with serving(at_path, tmp_path) as url:
        for address in (url, url.replace("/mcp", "/team/mcp"), url.replace("/mcp", "/team/mcp/")):
            assert post(address, provider.token()).status_code == 200
        where = "/.well-known/oauth-protected-resource/team/mcp"
        assert f"https://memory.example.com{where}" in post(url).headers["www-authenticate"]
        origin = url.removesuffix("/mcp")
        for path in (where, f"/team{where}"):
            assert httpx2.get(origin + path).json()["resource"] == "https://memory.example.com/team/mcp"
        assert {httpx2.get(f"{origin}{path}").status_code for path in ("/healthz", "/team/healthz")} == {200}
        assert post(url.replace("/mcp", "/teams/mcp"), provider.token()).status_code == 404
