"""What those who run the server see: liveness, readiness, figures, quotas and the audit log."""

import itertools
import re
import time
from functools import partial
from pathlib import Path

import httpx2
import pytest

from over_http.calling import answer_in, post
from over_http.conftest import SETTINGS, Team, serving
from vector_memory.errors import QuotaExceededError
from vector_memory.settings import HttpOptions, ServerOptions
from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy.quotas import MINUTE, Paces, Quota
from vector_memory.tenancy.registry import Registry
from vector_memory.tenancy.tokens import Caller, Permission
from waiting import at_once, eventually

NAMES = map("operator-{}".format, itertools.count())
CALLER = Caller(name="ada", namespace="red", permission=Permission.WRITE)


@pytest.mark.parametrize("path", ["/readyz", "/metrics"])
def test_readiness_and_figures_need_a_token_of_an_admin(team: Team, path: str) -> None:
    url = team.url.replace("/mcp", path)
    assert httpx2.get(url).status_code == 404
    for permission, status in (("read", 404), ("write", 404), ("admin", 200)):
        secret = team.token(next(NAMES), permission=permission)
        assert httpx2.get(url, headers={"Authorization": f"Bearer {secret}"}).status_code == status
    limited = team.token(next(NAMES), permission="admin", sessions=("mine",))
    assert httpx2.get(url, headers={"Authorization": f"Bearer {limited}"}).status_code == 404


def test_figures_count_calls_by_tool_and_error(team: Team) -> None:
    secret = team.token(next(NAMES))

    def said() -> str:
        return httpx2.get(team.url.replace("/mcp", "/metrics"), headers={"Authorization": f"Bearer {secret}"}).text

    def counted() -> list[float]:
        failures = 'calls_total{error="ValidationError",tool="get_memory_by_id"}'
        calls = 'call_seconds_count{tool="get_memory_by_id"}'
        found = [re.search(f"vector_memory_{re.escape(name)} (.+)", said()) for name in (failures, calls)]
        return [float(figure[1]) if figure else 0.0 for figure in found]

    before = counted()
    post(team.url, secret, tool="get_memory_by_id", arguments={"memory_id": 987654})
    post(team.url, secret, tool="no_such_tool_of_a_stranger")
    assert counted() == [count + 1 for count in before]
    assert "stranger" not in said()
    assert re.search(r"^vector_memory_open_namespaces [1-9]", said(), re.MULTILINE)
    eventually(lambda: "\nvector_memory_running_calls 0.0\n" in said())
    assert all(re.fullmatch(r"# (HELP|TYPE) .+|[a-z_]+(\{.+\})? [\d.e+-]+", line) for line in said().splitlines())


def test_a_full_namespace_refuses_to_store_and_still_answers(team: Team) -> None:
    spaces = Registry(team.folder)
    spaces.create("small")
    spaces.set_quota("small", Quota(memories=1))
    secret = team.token(next(NAMES), "small")
    reports = [{"agent_id": "a", "session_id": "s", "content": f"# {n}\n\nText."} for n in range(2)]
    answers = [post(team.url, secret, tool="store_report", arguments=report) for report in reports]
    assert [answer_in(answer)["error"] for answer in answers] == [None, "QuotaExceeded"]
    assert answer_in(post(team.url, secret))["total_sessions"] == 1


@pytest.mark.parametrize("namespace", ["../../elsewhere", "gone", "x" * 300])
def test_a_namespace_that_does_not_exist_is_neither_read_nor_made(team: Team, namespace: str) -> None:
    elsewhere = team.folder.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    assert "There is no namespace" in answer_in(post(team.url, team.token(next(NAMES), namespace)))["message"]
    assert not list(elsewhere.iterdir())


def test_a_namespace_that_is_called_too_often_is_told_when_to_try_again(team: Team) -> None:
    spaces = Registry(team.folder)
    spaces.create("slow")
    spaces.set_quota("slow", Quota(calls_per_minute=2))
    secret = team.token(next(NAMES), "slow")
    said = [answer_in(post(team.url, secret)) for _ in range(3)]
    assert [body["error"] for body in said] == [None, None, "QuotaExceeded"]
    assert re.search(r"try again in \d+ s", said[2]["message"])


def test_stores_of_several_processes_at_the_same_time_cannot_overfill_a_namespace(tmp_path: Path) -> None:
    stores = [SessionMemoryStore(tmp_path / "memory.db", SETTINGS) for _ in range(2)]
    views = [*stores, *(store.limited_to([f"s{number}"]) for number, store in enumerate(stores, 2))]
    refused: list[str] = []

    def fill(view: SessionMemoryStore, session: str) -> None:
        for number in range(5):
            try:
                view.store_memory("report", f"{session} {number}", session_id=session)
            except QuotaExceededError as error:
                refused.append(str(error))

    for store in stores:
        store.limit(5)
    at_once(*(partial(fill, view, f"s{number}") for number, view in enumerate(views)))
    assert stores[0].count_memories() == 5
    assert len(refused) == 15
    assert "is full" in refused[0]
    for store in stores:
        store.close()


def test_only_calls_of_the_last_minute_count_over_all_threads_and_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []

    def call(paces: Paces) -> None:
        for _ in range(100):
            try:
                paces.count("red", 250)
            except QuotaExceededError:
                refused.append(1)

    at_once(*(partial(call, Paces(tmp_path)) for _ in range(4)))
    assert len(refused) == 150
    Paces(tmp_path).count("blue", 250)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + MINUTE)
    Paces(tmp_path).count("red", 250)


def test_a_server_that_only_reads_stores_nothing_for_hooks_either(tmp_path: Path) -> None:
    Registry(tmp_path).create("red")
    secret = Registry(tmp_path).tokens.create("ada", "red", Permission.ADMIN)
    with serving(HttpOptions(http=True, data_dir=tmp_path), tmp_path, ServerOptions(read_only=True)) as url:
        arguments = {"session_id": "s", "prompt": "Why does it fail?"}
        assert post(url, secret, tool="hook_prompt", arguments=arguments).status_code == 200
        assert answer_in(post(url, secret))["total_sessions"] == 0
        assert post(url, secret, tool="store_report", arguments={"content": "x"}).json()["result"]["isError"]
    assert not list((tmp_path / "namespaces" / "red").glob("*.db"))
