"""The page on a server for teams: each token opens that of its namespace, with its own rights."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pydantic
import pytest

from over_http.calling import answer_in, post
from over_http.conftest import Team, serving
from vector_memory.server.ui.guard import COOKIE
from vector_memory.settings import HttpOptions
from vector_memory.tenancy.audit import AuditLog
from vector_memory.tenancy.audit_keys import keys_of
from vector_memory.tenancy.quotas import Quota
from vector_memory.tenancy.registry import FolderRegistry

FROM_THE_PAGE = {"x-vector-memory": "page"}
PLAN = "The launch is on Friday."


class Browser:
    """Somebody who signs in at the page of a server."""

    def __init__(self, team: Team, secret: str) -> None:
        self.client = httpx2.Client(timeout=600)
        self.sign_in = team.url.replace("/mcp", "/ui")
        self.answer = self.client.post(self.sign_in, data={"token": secret})
        self.base = str(httpx2.URL(self.sign_in).join(self.answer.headers.get("location", "")))

    def ask(self, path: str, method: str = "GET", **headers: str) -> httpx2.Response:
        return self.client.request(method, f"{self.base}api/{path}", headers=headers)

    def change(self, path: str, method: str = "PUT") -> httpx2.Response:
        return self.ask(path, method, **FROM_THE_PAGE)


Entering = Callable[[Team, str], Browser]


@pytest.fixture
def enter() -> Iterator[Entering]:
    with ExitStack() as opened:

        def entered(team: Team, secret: str) -> Browser:
            browser = Browser(team, secret)
            opened.callback(browser.client.close)
            return browser

        yield entered


def stored(team: Team, secret: str, content: str = PLAN) -> int:
    """Store a report, and return its id."""
    report = {"agent_id": "a", "session_id": "s", "content": content}
    number: int = answer_in(post(team.url, secret, tool="store_report", arguments=report))["memory_id"]
    return number


def served_at(folder: Path, **options: Any) -> Iterator[Team]:
    for name in ("red", "blue"):
        FolderRegistry(folder).create(name)
    with serving(HttpOptions(http=True, data_dir=folder, ui=True, **options), folder) as url:
        yield Team(url, folder)


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A server with the namespaces red and blue, and the page."""
    yield from served_at(tmp_path)


def test_who_signs_in_sees_the_namespace_of_the_token_and_no_other(enter: Entering, team: Team) -> None:
    red, blue = team.token("ada"), team.token("bob", "blue", "read")
    number = stored(team, red)
    seen, other = enter(team, red), enter(team, blue)
    assert "<title>" in seen.client.get(seen.base).text
    assert seen.ask("home").json()["place"] == "red"
    assert PLAN in seen.ask(f"memories/{number}").text
    assert seen.ask("search?q=launch").json()["results"]
    assert (other.ask("home").json()["place"], other.ask("memories").json()["total"]) == ("blue", 0)
    assert PLAN not in other.ask(f"memories/{number}").text + other.ask("search?q=launch").text


def test_the_answer_of_a_tool_is_that_of_the_namespace(enter: Entering, team: Team) -> None:
    secret = team.token("ada")
    stored(team, secret)
    assert PLAN in enter(team, secret).ask("answer?q=launch").json()["text"]


def test_the_cookie_is_for_a_path_that_nobody_can_guess_and_no_script_reads_it(enter: Entering, tmp_path: Path) -> None:
    """A proxy takes the path of the public address away; the browser sees it."""
    for team in served_at(tmp_path, public_url="https://memory.example/team"):
        one, two = (enter(team, secret).answer.headers for secret in [team.token("ada")] * 2)
        assert one["location"] != two["location"]
        assert one["location"].startswith("/team/ui/")
        assert one["set-cookie"].split("; ")[1:] == [
            f"Path={one['location']}",
            "Max-Age=43200",
            "HttpOnly",
            "SameSite=Strict",
            "Secure",
        ]


@pytest.mark.parametrize("cookie", ["", f"{COOKIE}=vm_guessed", f"{COOKIE}=", "=;"])
def test_without_a_valid_token_nothing_is_told(enter: Entering, team: Team, cookie: str) -> None:
    stored(team, team.token("ada"))
    somebody = enter(team, "vm_guessed")
    assert somebody.answer.status_code == 403
    assert "not valid" in somebody.answer.text
    somebody.base = f"{somebody.sign_in}/any/"
    asked = somebody.client.get(somebody.base, headers={"cookie": cookie})
    assert (asked.status_code, asked.headers["location"]) == (303, "/ui")
    for path in ("home", "memories/1", "export", "report", "state", "backup"):
        answer = somebody.ask(path, cookie=cookie)
        assert (answer.json()["error"], PLAN in answer.text) == ("AccessDenied", False)


def test_a_revoked_token_is_refused_at_the_next_request(enter: Entering, team: Team) -> None:
    browser = enter(team, team.token("ada"))
    assert browser.ask("home").status_code == 200
    team.tokens.revoke("ada")
    assert "sign in" in browser.ask("home").json()["message"]


def test_a_token_that_is_limited_to_sessions_opens_no_page(enter: Entering, team: Team) -> None:
    secret = team.token("ada", sessions=("s",))
    browser = enter(team, secret)
    assert (browser.answer.status_code, "limited to sessions" in browser.answer.text) == (403, True)
    browser.base = f"{browser.sign_in}/any/"
    for path in ("home", "state", "memories"):
        assert browser.ask(path, cookie=f"{COOKIE}={secret}").json()["error"] == "AccessDenied"


@pytest.mark.parametrize(
    ("scope", "refused"),
    [
        ("read", {"memories/1/pin", "memories/1/deletion", "deletion?session=s", "backup", "checkup"}),
        ("write", {"deletion?session=s", "backup", "checkup"}),
        ("admin", set()),
    ],
)
def test_the_page_does_what_the_scope_of_the_token_permits(
    enter: Entering, team: Team, scope: str, refused: set[str]
) -> None:
    stored(team, team.token("ada"))
    browser = enter(team, team.token("bob", "red", scope))
    changes = ("memories/1/pin", "memories/1/deletion", "deletion?session=s")
    answers = {path: browser.change(path) for path in changes}
    answers |= {path: browser.ask(path) for path in ("backup", "checkup", "home", "export")}
    assert {path for path, answer in answers.items() if answer.status_code != 200} == refused
    assert all(answers[path].json()["error"] == "AccessDenied" for path in refused)
    assert browser.ask("state").json()["read_only"] == (scope == "read")
    assert browser.ask("home").json()["is_file"] == (scope == "admin")


def test_a_token_that_stores_as_one_agent_imports_nothing(enter: Entering, team: Team) -> None:
    browser = enter(team, team.token("ada", agent_id="ada"))
    assert "stores as agent ada" in browser.change("import", "POST").json()["message"]


def test_requests_count_and_are_recorded_by_the_name_of_the_token_without_content(enter: Entering, team: Team) -> None:
    """Not so what the page asks all the time, whether anything has changed."""
    secret = team.token("ada")
    number = stored(team, secret)
    FolderRegistry(team.folder).set_quota("red", Quota(calls_per_minute=3))
    browser = enter(team, team.token("bob", "red", "read"))
    assert {browser.ask("state").status_code for _ in range(9)} == {200}
    browser.ask("search?q=launch&session=s")
    browser.ask(f"memories/{number}")
    browser.change(f"memories/{number}/pin")
    assert "try again in" in browser.ask("home").json()["message"]
    lines = [line for line in AuditLog(team.folder, keys_of(team.folder)).lines() if line["token"] == "bob"]  # noqa: S105 - a name
    assert [(line["call"], line["ids"], line["error"]) for line in lines] == [
        ("ui/search", {"session_id": ["s"]}, None),
        ("ui/memories", {"memory_id": [number]}, None),
        ("ui/memories", {"memory_id": [number]}, "AccessDeniedError"),
        ("ui/home", {}, "QuotaExceededError"),
    ]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"host": "memory.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_foreign_page_reaches_nothing_even_with_the_cookie(
    enter: Entering, team: Team, headers: dict[str, str]
) -> None:
    secret = team.token("ada")
    stored(team, secret)
    browser = enter(team, secret)
    for path in ("home", "memories/1"):
        answer = browser.ask(path, **headers)
        assert answer.status_code in (403, 421)
        assert PLAN not in answer.text
    for method in ("PUT", "DELETE"):
        assert browser.ask("memories/1/deletion", method).status_code == 403  # a form could send it
    signed_in = browser.client.post(browser.sign_in, data={"token": secret}, headers=headers)
    assert "set-cookie" not in signed_in.headers


def test_a_deletion_can_be_undone_and_is_made_at_the_latest_when_the_server_ends(
    enter: Entering, tmp_path: Path
) -> None:
    secret, undone, kept = "", 0, 0
    for team in served_at(tmp_path):
        secret = team.token("ada")
        undone, deleted, kept = (stored(team, secret, f"{PLAN} {number}") for number in range(3))
        browser, other = enter(team, secret), enter(team, team.token("bob", "red", "write"))
        browser.change(f"memories/{undone}/deletion")
        browser.change(f"memories/{deleted}/deletion")
        assert other.change(f"memories/{undone}/deletion", "DELETE").status_code == 404  # nobody else's
        assert list(browser.change(f"memories/{undone}/deletion", "DELETE").json()["deleting"]) == [str(deleted)]
        assert browser.ask("memories").json()["total"] == 3
    with serving(HttpOptions(http=True, data_dir=tmp_path, ui=True), tmp_path) as url:
        left = enter(Team(url, tmp_path), secret).ask("memories").json()["memories"]
        assert {entry["memory_id"] for entry in left} == {undone, kept}


@pytest.mark.parametrize("options", [{"data_dir": None}, {"workers": 2}])
def test_the_page_needs_tokens_and_one_process(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError, match="ui needs data_dir"):
        HttpOptions(**{"http": True, "ui": True, "data_dir": tmp_path, **options})
