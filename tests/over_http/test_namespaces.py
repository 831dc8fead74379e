"""Namespaces are opened, closed, counted and limited while others use the server."""

import asyncio
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import apsw
import httpx2
import pytest

from engines import execute
from over_http.calling import answer_in, post
from over_http.conftest import SETTINGS, Team, serving
from vector_memory.domain import Scope, Trust
from vector_memory.domain.callers import Caller, Permission
from vector_memory.errors import ClosedMemoryError, NotFoundError, QuotaExceededError
from vector_memory.extras.teams import namespaces
from vector_memory.extras.teams.namespaces import Namespaces
from vector_memory.extras.teams.registry import MINUTE, Paces, Quota, Registry
from vector_memory.server.app import work_in_background
from vector_memory.settings import HttpOptions, ServerOptions
from vector_memory.storage.opening import open_storage
from vector_memory.storage.sqlite.connecting import wait_for_locks
from vector_memory.storage.sqlite.team_tables import create
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.holding import Holding
from vector_memory.writing.outbox import outbox_of_memory
from waiting import at_once, eventually

NAMES = ("blue", "green", "red")


def memory(spaces: Namespaces, name: str) -> SessionMemoryStore:
    """Return the memory of a namespace that is in use."""
    return spaces.store_of(Caller(name="ada", namespace=name, permission=Permission.WRITE))


def store(spaces: Namespaces, name: str, text: str = "Text.") -> None:
    """Store a note during one call."""
    with spaces.in_use(name):
        spaces.open(name)
        memory(spaces, name).store_memory("working_memory", text, session_id="s")


def count(spaces: Namespaces, name: str) -> int:
    """Count the memories during one call."""
    with spaces.in_use(name):
        spaces.open(name)
        return memory(spaces, name).count_memories()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        Registry(tmp_path).create(name)
    return tmp_path


Opening = Callable[..., Namespaces]


@pytest.fixture
def opening(folder: Path) -> Iterator[Opening]:
    """Opens the namespaces; they count as idle at once."""
    with ExitStack() as opened:
        yield lambda **limits: opened.enter_context(
            closing(Namespaces(Registry(folder), SETTINGS, **{"idle_seconds": 0, **limits}))
        )


@pytest.fixture
def spaces(opening: Opening) -> Namespaces:
    """Namespaces two of which may be open."""
    return opening(most_open=2)


def test_an_idle_namespace_is_closed_and_opened_again_at_its_next_use(spaces: Namespaces) -> None:
    store(spaces, "red")
    assert spaces.is_open("red")
    spaces.unload_idle()
    assert not spaces.is_open("red")
    assert count(spaces, "red") == 1


def test_a_namespace_that_was_just_used_stays_open(opening: Opening) -> None:
    spaces = opening(idle_seconds=namespaces.IDLE_SECONDS)
    store(spaces, "red")
    spaces.unload_idle()
    assert spaces.is_open("red")


def test_waiting_texts_of_a_namespace_are_stored_without_a_call(opening: Opening) -> None:
    spaces = opening(idle_seconds=namespaces.IDLE_SECONDS)
    outbox = outbox_of_memory(spaces.registry.address("red"))
    outbox.add({"memory_type": "input_prompt", "content": "Why?", "session_id": "s"})
    spaces.unload_idle()
    assert not spaces.is_open("red")  # which nobody serves yet
    spaces.start_background_work()
    spaces.unload_idle()
    assert [spaces.is_open(name) for name in NAMES] == [False, False, True]
    eventually(outbox.is_empty)
    assert count(spaces, "red") == 1


def test_what_has_expired_in_a_namespace_that_nobody_uses_is_erased(spaces: Namespaces) -> None:
    store(spaces, "red")
    with spaces.in_use("red"):
        spaces.open("red")
        memory(spaces, "red").store_memory("working_memory", "Gone.", session_id="s", ttl_days=1)
        sql = "update memory_lifecycle set expires_at = '2020-01-01T00:00:00.000000+00:00'"
        execute(memory(spaces, "red"), sql)
    spaces.unload_idle()
    spaces.start_background_work()
    spaces.unload_idle()
    assert not any(map(spaces.is_open, NAMES))
    with SessionMemoryStore(spaces.registry.address("red"), SETTINGS, read_only=True) as red:
        assert execute(red, "select content from session_memories") == [("Text.",)]


def test_a_namespace_is_not_closed_while_a_call_runs_in_it(spaces: Namespaces) -> None:
    with spaces.in_use("red"):
        spaces.open("red")
        spaces.unload_idle()
        store(spaces, "blue")
        store(spaces, "green")
        memory(spaces, "red").store_memory("working_memory", "Text.", session_id="s")
    spaces.unload_idle()
    assert not spaces.is_open("red")


def test_a_namespace_is_not_closed_before_its_vectors_are_computed(
    spaces: Namespaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(spaces, "red")
    monkeypatch.setattr("vector_memory.writing.background.BackgroundVectors.is_busy", True)
    spaces.unload_idle()
    assert spaces.is_open("red")
    monkeypatch.undo()
    spaces.unload_idle()
    assert not spaces.is_open("red")


def test_the_namespace_not_used_for_the_longest_is_closed_when_too_many_are_open(spaces: Namespaces) -> None:
    for name in ("red", "blue", "red", "green"):
        store(spaces, name, f"Text {threading.get_native_id()} {name} {spaces.is_open(name)}")
    assert [name for name in NAMES if spaces.is_open(name)] == ["green", "red"]


def test_more_are_open_if_all_of_them_are_in_use(spaces: Namespaces) -> None:
    with spaces.in_use("red"), spaces.in_use("blue"):
        spaces.open("red")
        spaces.open("blue")
        store(spaces, "green")
        assert [name for name in NAMES if spaces.is_open(name)] == ["blue", "green", "red"]
    store(spaces, "green", "More.")
    assert sum(map(spaces.is_open, NAMES)) == 2


def test_a_namespace_that_opens_slowly_delays_no_other(spaces: Namespaces, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slowly(path: Path, *arguments: object, **named: object) -> SessionMemoryStore:
        assert path.parent.name != "red" or gate.wait(60)
        return SessionMemoryStore(path, *arguments, **named)

    monkeypatch.setattr(namespaces, "SessionMemoryStore", slowly)
    upgrading = [threading.Thread(target=store, args=(spaces, "red", f"Text {number}")) for number in range(3)]
    for thread in upgrading:
        thread.start()
    store(spaces, "blue")
    assert not spaces.is_open("red")
    gate.set()
    for thread in upgrading:
        thread.join()
    assert count(spaces, "red") == 3


def test_nothing_is_lost_while_namespaces_are_opened_and_closed_all_the_time(opening: Opening) -> None:
    spaces, stopping = opening(most_open=1), threading.Event()

    def work(number: int) -> None:
        for turn in range(10):
            store(spaces, NAMES[(number + turn) % 3], f"{number} {turn}")

    def close() -> None:
        while not stopping.is_set():
            spaces.unload_idle()

    closer, threads = threading.Thread(target=close), [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in (closer, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stopping.set()
    closer.join()
    assert sum(count(spaces, name) for name in NAMES) == 40


def test_a_namespace_that_fails_to_close_harms_no_call_of_another(
    opening: Opening, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spaces = opening(most_open=1)
    with monkeypatch.context() as patched:
        patched.setattr(SessionMemoryStore, "close", lambda _store: 1 / 0)
        store(spaces, "red")
        store(spaces, "blue")
        spaces.unload_idle()
    assert "ZeroDivisionError" in caplog.text
    assert count(spaces, "red") == 1


def test_of_a_namespace_that_does_not_exist_nothing_is_kept(spaces: Namespaces) -> None:
    with pytest.raises(NotFoundError), spaces.in_use("gone"):
        spaces.open("gone")
    with pytest.raises(KeyError):  # as of what nobody ever used
        spaces.open("gone")


def test_nothing_can_be_opened_after_the_end(spaces: Namespaces) -> None:
    store(spaces, "red")
    spaces.close()
    spaces.unload_idle()
    with pytest.raises(ClosedMemoryError):
        store(spaces, "blue")


def test_the_server_closes_what_is_idle_by_itself(spaces: Namespaces) -> None:
    store(spaces, "red")

    async def run() -> None:
        working = asyncio.create_task(work_in_background(lambda: [spaces]))
        await asyncio.to_thread(eventually, lambda: not spaces.is_open("red"))
        working.cancel()

    asyncio.run(run())


def test_a_server_that_meets_a_new_folder_waits_for_another_that_writes_there(tmp_path: Path) -> None:
    first, writer, last = (apsw.Connection(str(tmp_path / "teams.db")) for _ in range(3))
    wait_for_locks(last)
    create(first)
    writer.execute("begin immediate")
    threading.Timer(0.2, writer.execute, ["commit"]).start()
    create(last)


TOKENS = map("operator-{}".format, itertools.count())


@pytest.mark.parametrize("path", ["/readyz", "/metrics"])
def test_readiness_and_figures_need_a_token_of_an_admin(team: Team, path: str) -> None:
    url = team.url.replace("/mcp", path)
    assert httpx2.get(url).status_code == 404
    for permission, status in (("read", 404), ("write", 404), ("admin", 200)):
        secret = team.token(next(TOKENS), permission=permission)
        assert httpx2.get(url, headers={"Authorization": f"Bearer {secret}"}).status_code == status
    limited = team.token(next(TOKENS), permission="admin", sessions=("mine",))
    assert httpx2.get(url, headers={"Authorization": f"Bearer {limited}"}).status_code == 404


def test_figures_count_calls_by_tool_and_error(team: Team) -> None:
    secret = team.token(next(TOKENS))

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
    secret = team.token(next(TOKENS), "small")
    reports = [{"agent_id": "a", "session_id": "s", "content": f"# {n}\n\nText."} for n in range(2)]
    answers = [post(team.url, secret, tool="store_report", arguments=report) for report in reports]
    assert [answer_in(answer)["error"] for answer in answers] == [None, "QuotaExceeded"]
    assert answer_in(post(team.url, secret))["total_sessions"] == 1


@pytest.mark.parametrize("namespace", ["../../elsewhere", "gone", "x" * 300])
def test_a_namespace_that_does_not_exist_is_neither_read_nor_made(team: Team, namespace: str) -> None:
    elsewhere = team.folder.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    assert "There is no namespace" in answer_in(post(team.url, team.token(next(TOKENS), namespace)))["message"]
    assert not list(elsewhere.iterdir())


def test_a_namespace_that_is_called_too_often_is_told_when_to_try_again(team: Team) -> None:
    spaces = Registry(team.folder)
    spaces.create("slow")
    spaces.set_quota("slow", Quota(calls_per_minute=2))
    secret = team.token(next(TOKENS), "slow")
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


def test_a_prompt_that_a_hook_sends_over_http_has_the_token_it_came_with_and_is_taken_out_by_it(tmp_path: Path) -> None:
    Registry(tmp_path).create("red")
    secret = Registry(tmp_path).tokens.create("ada", "red", Permission.WRITE)
    with serving(HttpOptions(http=True, data_dir=tmp_path), tmp_path, ServerOptions()) as url:
        arguments = {"session_id": "s", "prompt": "Why does it fail?"}
        assert post(url, secret, tool="hook_prompt", arguments=arguments).status_code == 200
        eventually(lambda: answer_in(post(url, secret))["total_sessions"])
    (path,) = (tmp_path / "namespaces" / "red").glob("*.db")
    with closing(open_storage(path, dimensions=SETTINGS.embedding_dim)) as storage:
        with storage.read() as reader:
            (memory,) = reader.memories.get_all(reader.memories.ids(Scope("input_prompt"))).values()
        assert memory.came_from["by"] == "hook"
        assert Holding(storage).touched(token=memory.came_from["token"]) == [memory.id]
    assert (memory.came_from["token"], memory.trust) == ("ada", Trust.HIGH.level)
