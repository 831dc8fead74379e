"""The page on a server for teams: each token opens that of its namespace, with its own rights."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from weakref import WeakSet

import anyio
import httpx2
import pydantic
import pytest
from starlette.requests import Request

from leaving import asked
from over_http.calling import answer_in, post
from over_http.conftest import ALL_TOOLS, Team, serving
from vector_memory.extras.teams.audit import AuditLog
from vector_memory.extras.teams.registry import Quota, Registry
from vector_memory.extras.window import team_page
from vector_memory.extras.window.guard import COOKIE
from vector_memory.extras.window.page import digest
from vector_memory.extras.window.page_state import Checkup, Deletions
from vector_memory.server.turns import Kind, Turn, Turns
from vector_memory.settings import HttpOptions
from vector_memory.storage.cancellation import current_call, require_wanted
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Report, problem
from waiting import eventually

FROM_THE_PAGE = {"x-vector-memory": "page"}
PLAN = "The launch is on Friday."
READING = ALL_TOOLS.model_copy(update={"read_only": True})


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
        Registry(folder).create(name)
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


@pytest.mark.sqlite("a copy of the file")
@pytest.mark.parametrize(
    ("scope", "refused"),
    [
        ("read", {"memories/1/pin", "memories/1/deletion", "deletion?session=s", "backup", "checkup", "space"}),
        ("write", {"deletion?session=s", "backup", "checkup", "space"}),
        ("admin", set()),
    ],
)
def test_the_page_does_what_the_scope_of_the_token_permits(
    enter: Entering, team: Team, scope: str, refused: set[str]
) -> None:
    stored(team, team.token("ada"))
    browser = enter(team, team.token("bob", "red", scope))
    changes = ("memories/1/pin", "memories/1/deletion", "deletion?session=s", "space")
    answers = {path: browser.change(path) for path in changes}
    answers |= {path: browser.ask(path) for path in ("backup", "checkup", "home", "export")}
    assert {path for path, answer in answers.items() if answer.status_code != 200} == refused
    assert all(answers[path].json()["error"] == "AccessDenied" for path in refused)
    assert browser.ask("state").json()["read_only"] == (scope == "read")
    assert browser.ask("home").json()["is_file"] == (scope == "admin")


def test_a_token_that_stores_as_one_agent_imports_nothing(enter: Entering, team: Team) -> None:
    browser = enter(team, team.token("ada", agent_id="ada"))
    assert "stores as agent ada" in browser.change("import", "POST").json()["message"]


def test_requests_count_and_are_recorded_by_the_name_of_the_token_without_content(
    enter: Entering, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not so what the page asks all the time, whether anything has changed."""
    monkeypatch.setattr("vector_memory.extras.teams.registry.QUOTA_SECONDS", 0)
    number = stored(team, team.token("ada"))
    Registry(team.folder).set_quota("red", Quota(calls_per_minute=3))
    browser = enter(team, team.token("bob", "red", "read"))

    def recorded() -> list[dict[str, Any]]:
        return [line for line in AuditLog(team.folder).lines() if line["token"] == "bob"]  # noqa: S105 - a name

    assert {browser.ask("state").status_code for _ in range(9)} == {200}
    browser.ask("search?q=launch&session=s")
    eventually(lambda: len(recorded()) == 1)  # a line is written after the answer
    browser.ask(f"memories/{number}")
    eventually(lambda: len(recorded()) == 2)
    browser.change(f"memories/{number}/pin")
    eventually(lambda: len(recorded()) == 3)
    assert "try again in" in browser.ask("home").json()["message"]
    eventually(lambda: len(recorded()) == 4)
    assert [(line["call"], line["ids"], line["error"]) for line in recorded()] == [
        ("ui/search", {"session_id": ["s"]}, None),
        ("ui/memories", {"memory_id": [number]}, None),
        ("PUT ui/memories/pin", {"memory_id": [number]}, "AccessDeniedError"),
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
    assert "set-cookie" not in browser.client.post(browser.sign_in, data={"token": secret}, headers=headers).headers


def test_only_an_administrator_accepts_what_is_held_back(enter: Entering, team: Team) -> None:
    number = stored(team, team.token("ada"), PLAN)
    for permission, said in (("write", "needs a token with the scope admin"), ("admin", "is not held back")):
        browser = enter(team, team.token(f"bob-{permission}", permission=permission))
        assert said in browser.change(f"memories/{number}/hold", "DELETE").text
        held = browser.change(f"memories/{number}/hold", "POST").status_code == 200
        assert (held, browser.ask("review").json()["may_hold"]) == (permission == "admin", permission == "admin")


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


def test_of_a_form_that_anybody_can_send_only_the_beginning_is_read(enter: Entering, team: Team) -> None:
    """With millions of fields, the server would do nothing else for half a minute."""
    secret = team.token("ada")
    browser = enter(team, secret)
    form = f"{'a=1&' * team_page.LONGEST_FORM}{urlencode({'token': secret})}"
    assert browser.client.post(browser.sign_in, content=form).status_code == 403


@pytest.mark.parametrize(
    "cookies",
    ["{own}; vector-memory={other}", '{own}; a={{"b": 1}}', "a b=c; {own}", 'x="; {own}', "vector-memory2=; {own}"],
)
def test_cookies_of_other_servers_under_the_same_name_change_nothing(enter: Entering, team: Team, cookies: str) -> None:
    """Browsers send the cookie of the longest path first, and nobody else knows that path."""
    browser = enter(team, team.token("ada"))
    own = f"{COOKIE}={browser.client.cookies[COOKIE]}"
    browser.client.cookies.clear()
    sent = cookies.format(own=own, other=team.token("bob", "blue"))
    assert browser.ask("home", cookie=sent).json()["place"] == "red"


def test_the_audit_log_tells_reading_from_changing_however_the_id_is_written(enter: Entering, team: Team) -> None:
    number = stored(team, team.token("ada"))
    browser = enter(team, team.token("bob"))
    assert PLAN in browser.ask(f"memories/%20{number}.0").text
    browser.change(f"memories/{number}/deletion")
    browser.change(f"memories/{number}/deletion", "DELETE")
    audit = AuditLog(team.folder)
    eventually(lambda: len(list(audit.lines())) == 4)
    calls = ("ui/memories", "PUT ui/memories/deletion", "DELETE ui/memories/deletion")
    lines = [(line["call"], line["ids"]["memory_id"]) for line in audit.lines() if "ui/" in line["call"]]
    assert sorted(lines) == sorted((call, [number]) for call in calls)  # each is written by a thread of its own


def test_what_the_page_does_not_have_is_refused_with_the_headers_of_every_answer(enter: Entering, team: Team) -> None:
    browser = enter(team, team.token("ada"))
    for path in ("nothing", "api/nothing", "api/home//", "api/memories/1/deletion"):
        refused = browser.client.get(f"{browser.base}{path}")
        assert (refused.status_code, "content-security-policy" in refused.headers) == (404, True)


@pytest.mark.parametrize("ending", ["", "/"])
def test_the_form_has_its_style_at_any_address(enter: Entering, team: Team, ending: str) -> None:
    browser = enter(team, "")
    form = browser.client.get(f"{browser.sign_in}{ending}")
    style = form.text.partition("<style>")[2].partition("</style>")[0]
    assert f"style-src {digest(style)};" in form.headers["content-security-policy"]


def test_behind_a_proxy_the_page_is_that_of_the_public_address(enter: Entering, tmp_path: Path) -> None:
    for team in served_at(tmp_path, public_url="https://memory.example:8443"):
        secret = team.token("ada")
        browser = enter(team, "")
        for origin, status in (("https://memory.example:8443", 303), ("https://other.example:8443", 403)):
            headers = {"host": "memory.example", "origin": origin}
            signed_in = browser.client.post(browser.sign_in, data={"token": secret}, headers=headers)
            assert signed_in.status_code == status


def test_on_a_server_that_only_reads_the_page_offers_no_changes(enter: Entering, tmp_path: Path) -> None:
    for team in served_at(tmp_path):
        stored(team, team.token("ada"))
    with serving(HttpOptions(http=True, data_dir=tmp_path, ui=True), tmp_path, READING) as url:
        browser = enter(Team(url, tmp_path), Team(url, tmp_path).token("bob"))
        assert browser.ask("state").json()["read_only"]
        assert browser.change("memories/1/deletion").json()["error"] == "AccessDenied"


def test_the_doctor_tells_a_team_nothing_of_the_server_or_of_others(
    enter: Entering, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(team, team.token("ada"))
    parts = {name: [problem(name, f"{name} of {team.folder}")] for name in ("installation", "place")}
    found = Report("", {**parts, "contents": [problem("words", "A word is missing.")]})
    monkeypatch.setattr(team_page, "examine", lambda *_address: found)
    answer = enter(team, team.token("bob")).ask("checkup").json()
    assert [finding["name"] for finding in answer["findings"]] == ["words"]
    assert answer["checks"] == 1


def test_memories_are_examined_one_after_another_and_all_who_wait_get_the_same_report() -> None:
    examined, busy = list[str](), threading.Lock()

    def examine(name: str) -> Report:
        assert busy.acquire(blocking=False)
        examined.append(name)
        busy.release()
        return Report("", {})

    async def ask() -> None:
        request = Request({"type": "http", "query_string": b"again=1", "headers": []})
        checkups = [Checkup(partial(examine, name)) for name in ("red", "blue")]
        await asyncio.gather(*(checkup.report(request) for checkup in checkups for _ in range(3)))

    anyio.run(ask)
    assert sorted(examined) == ["blue", "red"]


def test_the_server_ends_after_the_deletion_that_is_being_made() -> None:
    begun, go_on, deleted = threading.Event(), threading.Event(), list[int]()

    def delete(number: int) -> None:
        begun.set()
        go_on.wait()
        deleted.append(number)

    async def end() -> None:
        deletions = Deletions(delete, seconds=0)
        deletions.schedule(1)
        await asyncio.to_thread(begun.wait)
        asyncio.get_running_loop().call_soon(go_on.set)
        await deletions.finish()
        assert deleted == [1]

    asyncio.run(end())


def test_what_was_kept_for_those_who_have_left_is_forgotten_but_not_their_deletions(
    enter: Entering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = WeakSet[Deletions]()

    def noted(*given: Any) -> Deletions:
        kept.add(made := Deletions(*given, seconds=600))  # a busy machine may take longer than the usual ten
        return made

    monkeypatch.setattr(team_page, "Deletions", noted)
    monkeypatch.setattr(team_page, "MOST_PAGES", 1)
    for team in served_at(tmp_path):
        number = stored(team, team.token("ada"))
        first, *others = [enter(team, team.token(name)) for name in ("bob", "cy", "dee", "eve")]
        first.change(f"memories/{number}/deletion")
        for other in others:
            other.ask("home")

        def few() -> bool:
            gc.collect()
            return len(kept) == 2

        eventually(few)
        assert first.change(f"memories/{number}/deletion", "DELETE").status_code == 200


def test_the_requests_of_the_page_take_turns_with_the_calls_of_others(
    enter: Entering, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, wait = list[str](), Turns.wait

    def noted(turns: Turns, begin: Callable[[], object], kind: Kind, namespace: str) -> Turn:
        taken.append(f"{namespace} {kind.name}")
        return wait(turns, begin, kind, namespace)

    browser = enter(team, team.token("ada"))
    monkeypatch.setattr(Turns, "wait", noted)
    browser.ask("state")
    browser.ask("memories")
    assert taken == ["red page"]


def test_an_import_ends_at_the_quota(enter: Entering, team: Team) -> None:
    secret = team.token("ada")
    for number in range(3):
        stored(team, secret, f"{PLAN} {number}")
    export = enter(team, secret).ask("export").text
    Registry(team.folder).set_quota("blue", Quota(memories=2))
    browser = enter(team, team.token("bob", "blue"))
    answer = browser.client.post(f"{browser.base}api/import", json={"lines": export}, headers=FROM_THE_PAGE)
    assert answer.json()["error"] == "QuotaExceeded"
    assert browser.ask("memories").json()["total"] == 2


@pytest.mark.sqlite("a file that is gone")
def test_no_answer_says_where_the_file_is(enter: Entering, team: Team) -> None:
    secret = team.token("ada")
    stored(team, secret)
    browser = enter(team, secret)
    browser.ask("home")
    Registry(team.folder).address("red").unlink()
    for path in ("home", "backup", "checkup", "export", "report?session=s"):
        answer = browser.ask(path)
        assert answer.json()
        assert str(team.folder) not in answer.text


def test_a_request_is_recorded_even_if_the_browser_has_gone(
    enter: Entering, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def abandoned(_store: SessionMemoryStore) -> None:
        call = current_call.get()
        assert call
        begun.set()
        eventually(lambda: call.cancelled)
        require_wanted()

    monkeypatch.setattr(SessionMemoryStore, "get_memory_stats", abandoned)
    browser = enter(team, team.token("ada"))
    with asked(browser.client.build_request("GET", f"{browser.base}api/home")):
        eventually(begun.is_set)
    audit = AuditLog(team.folder)
    eventually(lambda: [line["call"] for line in audit.lines()] == ["ui/home"])
