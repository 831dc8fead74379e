"""What those who run the server see: liveness, readiness, figures, quotas and the audit log."""

import itertools
import json
import re
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from mcp import MCPError
from mcp_types import PromptReference

from over_http.calling import answer_in, post
from over_http.conftest import SETTINGS, Team, serving
from vector_memory.errors import QuotaExceededError
from vector_memory.settings import HttpOptions, ServerOptions
from vector_memory.tenancy.audit import AuditLog
from vector_memory.tenancy.callers import Caller, Permission
from vector_memory.tenancy.folders import FolderRegistry
from vector_memory.tenancy.namespaces import Namespaces
from vector_memory.tenancy.quotas import Pace, Quota
from vector_memory.tenancy.tokens import token_file
from waiting import eventually

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

    def counted() -> list[int]:
        failures = 'calls_total{tool="get_memory_by_id",error="ValidationError"}'
        calls = 'call_seconds_count{tool="get_memory_by_id"}'
        found = [re.search(f"vector_memory_{re.escape(name)} (.+)", said()) for name in (failures, calls)]
        return [int(figure[1]) if figure else 0 for figure in found]

    before = counted()
    post(team.url, secret, tool="get_memory_by_id", arguments={"memory_id": 987654})
    post(team.url, secret, tool="no_such_tool_of_a_stranger")
    assert counted() == [count + 1 for count in before]
    assert "stranger" not in said()
    assert re.search(r"^vector_memory_open_namespaces [1-9]", said(), re.MULTILINE)
    eventually(lambda: "\nvector_memory_running_calls 0\n" in said())
    assert all(re.fullmatch(r"# (HELP|TYPE) .+|[a-z_]+(\{.+\})? [\d.e+-]+", line) for line in said().splitlines())


def test_a_full_namespace_refuses_to_store_and_still_answers(team: Team) -> None:
    spaces = FolderRegistry(team.folder)
    spaces.create("small")
    spaces.set_quota("small", Quota(memories=1))
    secret = team.token(next(NAMES), "small")
    reports = [{"agent_id": "a", "session_id": "s", "content": f"# {n}\n\nText."} for n in range(2)]
    answers = [post(team.url, secret, tool="store_report", arguments=report) for report in reports]
    errors = [answer_in(answer)["error"] for answer in answers]
    assert errors == [None, "QuotaExceeded"]
    assert answer_in(post(team.url, secret))["total_sessions"] == 1


@pytest.mark.parametrize("namespace", ["../../elsewhere", "gone", "x" * 300])
def test_a_namespace_that_does_not_exist_is_neither_read_nor_made(team: Team, namespace: str) -> None:
    elsewhere = team.folder.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    (elsewhere / "quota.json").write_text("[not a quota")
    answer = answer_in(post(team.url, team.token(next(NAMES), namespace)))
    assert "There is no namespace" in answer["message"]
    assert {path.name for path in elsewhere.iterdir()} == {"quota.json"}


def test_a_namespace_that_is_called_too_often_is_told_when_to_try_again(team: Team) -> None:
    spaces = FolderRegistry(team.folder)
    spaces.create("slow")
    spaces.set_quota("slow", Quota(calls_per_minute=2))
    secret = team.token(next(NAMES), "slow")
    said = [answer_in(post(team.url, secret)) for _ in range(3)]
    assert [body["error"] for body in said] == [None, None, "QuotaExceeded"]
    assert re.search(r"try again in \d+ s", said[2]["message"])


def test_calls_that_store_at_the_same_time_cannot_overfill_a_namespace(tmp_path: Path) -> None:
    registry = FolderRegistry(tmp_path)
    registry.create("small")
    registry.set_quota("small", Quota(memories=2))
    with closing(Namespaces(registry, SETTINGS)) as spaces:
        with spaces.in_use("small") as first, spaces.in_use("small") as second, spaces.in_use("small") as third:
            spaces.open("small")
            spaces.admit("small", first, stores=True)
            spaces.admit("small", second, stores=True)
            with pytest.raises(QuotaExceededError, match="is full"):
                spaces.admit("small", third, stores=True)
        with spaces.in_use("small") as later:  # the others have ended without storing
            spaces.admit("small", later, stores=True)


def test_a_pace_allows_so_many_calls_from_all_threads_together() -> None:
    pace, refused = Pace(), []

    def call() -> None:
        for _ in range(100):
            try:
                pace.count(250)
            except QuotaExceededError:
                refused.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 150


def test_each_call_is_recorded_by_the_name_of_its_token_without_content(team: Team) -> None:
    name = next(NAMES)
    secret = team.token(name)
    report = {"agent_id": "a", "session_id": "audited", "content": "# Plans\n\nThe launch is on Friday."}
    stored = answer_in(post(team.url, secret, tool="store_report", arguments=report))
    post(team.url, secret, tool="get_memory_by_id", arguments={"memory_id": stored["memory_id"]})
    post(team.url, secret, tool="search_reports_specific_chunks", arguments={"query": "when is the launch"})
    log = AuditLog(team.folder)
    lines = [line for line in log.lines() if line["token"] == name]
    assert [line["call"] for line in lines] == ["store_report", "get_memory_by_id", "search_reports_specific_chunks"]
    assert [line["error"] for line in lines] == [None, None, None]
    assert [line["ids"].get("memory_id") for line in lines] == [[stored["memory_id"]], [stored["memory_id"]], None]
    assert not any(re.search("launch|Plans|Friday", json.dumps(line)) for line in lines)
    assert secret not in b"".join(path.read_bytes() for path in log.files()).decode()
    assert log.verify() is None


@pytest.mark.parametrize("value", ["9" * 5_000, [1], {"a": [1]}, "\n", "\u0664", 1.5, True])
def test_a_call_is_recorded_whatever_it_names_as_an_id(team: Team, value: object) -> None:
    name = next(NAMES)
    answer = post(team.url, team.token(name), tool="get_memory_by_id", arguments={"memory_id": value})
    assert answer_in(answer)["error"] == "ValidationError"
    lines = [line for line in AuditLog(team.folder).lines() if line["token"] == name]
    assert [(line["call"], line["ids"], line["error"]) for line in lines] == [
        ("get_memory_by_id", {}, "ValidationError")
    ]


WRITE_LINES = """
import sys
from pathlib import Path
from vector_memory.tenancy.audit import AuditLog
from vector_memory.tenancy.callers import Caller, Permission

log = AuditLog(Path(sys.argv[1]), rotate_bytes=2_000)
caller = Caller(name="ada", namespace="red", permission=Permission.WRITE)
for number in range(int(sys.argv[2])):
    log.record(caller, "get_memory_by_id", ids={"memory_id": [number]})
"""


def writer(folder: Path, count: int) -> subprocess.Popen[bytes]:
    """Start a process that writes so many lines."""
    return subprocess.Popen([sys.executable, "-c", WRITE_LINES, folder, str(count)])


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    assert writer(tmp_path, 40).wait() == 0
    return AuditLog(tmp_path)


def test_the_chain_holds_over_several_files_and_processes(tmp_path: Path) -> None:
    writers = [writer(tmp_path, 30) for _ in range(3)]
    assert [process.wait() for process in writers] == [0, 0, 0]
    log = AuditLog(tmp_path)
    assert len(list(log.lines())) == 90
    assert len(log.files()) > 3
    assert log.verify() is None


@pytest.mark.parametrize(("file", "line"), [*itertools.product([0, 1], [0, 1, 2])])
@pytest.mark.parametrize("change", ["remove", "edit", "repeat", "name twice"])
def test_a_line_that_was_removed_or_changed_shows(log: AuditLog, file: int, line: int, change: str) -> None:
    path = log.files()[file]
    lines = path.read_bytes().splitlines(keepends=True)
    changed = {
        "remove": [],
        "edit": [lines[line].replace(b"ada", b"eve")],
        "repeat": [lines[line]] * 2,
        "name twice": [lines[line].replace(b"{", b'{"token":"eve",', 1)],
    }[change]
    path.write_bytes(b"".join([*lines[:line], *changed, *lines[line + 1 :]]))
    assert log.verify() is not None


def test_a_file_that_was_removed_shows(log: AuditLog) -> None:
    log.files()[1].unlink()
    assert log.verify() is not None


def test_half_a_line_of_a_killed_process_does_not_break_the_chain(log: AuditLog) -> None:
    with log.files()[-1].open("ab") as stream:
        stream.write(b'{"at":"2026')
    log.record(CALLER, "list_sessions", ids={})
    assert log.verify() is None


@pytest.mark.anyio
async def test_resources_and_prompts_are_recorded_with_how_they_ended(team: Team) -> None:
    name = next(NAMES)
    async with team.client(team.token(name)) as client:
        await client.read_resource("memory://sessions")
        with pytest.raises(MCPError):
            await client.read_resource("memory://memories/987654")
        with pytest.raises(MCPError):
            await client.get_prompt("continue_session", {"session_id": "nobody"})
    lines = [line for line in AuditLog(team.folder).lines() if line["token"] == name]
    assert [(line["call"], line["error"] is None) for line in lines] == [
        ("resources/read", True),
        ("resources/read", False),
        ("prompts/get", False),
    ]
    assert lines[1]["ids"] == {"uri": ["memory://memories/987654"]}


@pytest.mark.anyio
async def test_completions_count_and_are_recorded_without_what_was_typed(team: Team) -> None:
    spaces, name = FolderRegistry(team.folder), next(NAMES)
    spaces.create("typing")
    spaces.set_quota("typing", Quota(calls_per_minute=1))
    asked = PromptReference(name="continue_session"), {"name": "session_id", "value": "secret"}
    async with team.client(team.token(name, "typing")) as client:
        await client.complete(*asked)
        with pytest.raises(MCPError, match="try again in"):
            await client.complete(*asked)
    lines = [line for line in AuditLog(team.folder).lines() if line["token"] == name]
    assert [(line["call"], line["error"] is None) for line in lines] == [
        ("completion/complete", True),
        ("completion/complete", False),
    ]
    assert "secret" not in json.dumps(lines)


def test_a_server_that_only_reads_stores_nothing_for_hooks_either(tmp_path: Path) -> None:
    FolderRegistry(tmp_path).create("red")
    secret = token_file(tmp_path).create("ada", "red", Permission.ADMIN)
    options = HttpOptions(http=True, data_dir=tmp_path)
    with serving(options, tmp_path, ServerOptions(read_only=True)) as url:
        arguments = {"session_id": "s", "prompt": "Why does it fail?"}
        assert post(url, secret, tool="hook_prompt", arguments=arguments).status_code == 200
        assert answer_in(post(url, secret))["total_sessions"] == 0
        assert post(url, secret, tool="store_report", arguments={"content": "x"}).json()["result"]["isError"]
    assert not list((tmp_path / "namespaces" / "red").glob("*.db"))
