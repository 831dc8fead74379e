"""What waits on this machine for the shared memory: in order, within limits, and never lost or stuck."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastmcp.tools import ToolResult

from over_http.calling import called
from over_http.conftest import SETTINGS, Team, running
from over_http.relays import AWAY, NAMES, REPORT, connected, failure, limit, refused, remote_of, stored
from vector_memory.errors import DatabaseError, QuotaExceededError
from vector_memory.results.sessions import Result
from vector_memory.server.hooks import HOOKS
from vector_memory.server.http.gate import answer as answer_plainly
from vector_memory.server.http.outbox import Outbox
from vector_memory.server.http.relay import ATTEMPTS, Relay
from vector_memory.server.http.relaying import outbox_of
from vector_memory.server.http.remote import Remote
from vector_memory.server.http.serving import application
from vector_memory.server.tools.failures import failed_result
from vector_memory.settings import HttpOptions, ServerOptions
from waiting import eventually

pytestmark = pytest.mark.anyio


async def test_what_waits_is_sent_once_and_what_can_never_be_stored_is_set_aside(team: Team, outbox: Outbox) -> None:
    session = next(NAMES)
    for _ in range(2):
        outbox.add("store_report", {**REPORT, "session_id": session})
    outbox.add("store_report", {**REPORT, "content": ""})
    await Relay(remote_of(team), outbox).send_waiting()
    assert outbox.is_empty()
    async with team.client(team.token(next(NAMES))) as client:
        stats = await client.call_tool("get_session_stats", {"session_id": session})
        assert stats.structured_content["total_memories"] == 1
    assert refused(outbox) == [""]


async def test_what_cannot_be_sent_now_waits_in_order(outbox: Outbox) -> None:
    texts = [str(number) for number in range(3)]
    for text in texts:
        outbox.add("store_report", {**REPORT, "content": text})
    relay = Relay(Remote(AWAY, lambda: "vm_x"), outbox)
    for _ in range(ATTEMPTS + 1):
        await relay.send_waiting()
    assert [call.arguments["content"] for call in outbox.waiting()] == texts
    with outbox.sending() as may_send, outbox.sending() as another:
        assert (may_send, another) == (True, False)


async def test_a_full_namespace_keeps_all_that_waits_in_order(team: Team, outbox: Outbox) -> None:
    texts = ["first of all", "second of all"]
    for text in texts:
        outbox.add("store_report", {**REPORT, "content": text})
    outbox.add("hook_prompt", {"session_id": "s", "prompt": "Why does the import fail?"})
    relay = Relay(remote_of(team, namespace=limit(team, "full", memories=0)), outbox)
    for _ in range(ATTEMPTS + 1):
        await relay.send_waiting()
    assert [call.tool for call in outbox.waiting()] == ["store_report", "store_report", "hook_prompt"]
    limit(team, "full")
    await relay.send_waiting()
    assert outbox.is_empty()


async def test_beyond_the_calls_of_a_minute_nothing_overtakes_what_was_refused(outbox: Outbox) -> None:
    calls = []

    class Hurried:
        async def call(self, _tool: str, arguments: dict[str, Any], _speaker: object) -> ToolResult:
            calls.append(arguments["content"])
            return failed_result(Result, QuotaExceededError("Later."))

    for text in ("first", "second"):
        outbox.add("store_report", {"content": text})
    relay = Relay(Hurried(), outbox)  # type: ignore[arg-type]
    for _ in range(ATTEMPTS + 2):
        await relay.send_waiting()
    assert set(calls) == {"first"}
    assert len(list(outbox.waiting())) == 2


async def test_a_hook_that_has_waited_and_fails_inside_the_server_waits_longer(
    team: Team, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_event: object) -> None:
        raise DatabaseError("The disk is full.")

    session, said = next(NAMES), "Why does the import fail at night?"
    outbox.add("hook_prompt", {"session_id": session, "prompt": said})
    relay = Relay(remote_of(team), outbox)
    with monkeypatch.context() as patch:
        patch.setitem(HOOKS, "hook_prompt", ("UserPromptSubmit", fail))
        await relay.send_waiting()
    assert not outbox.is_empty()
    await relay.send_waiting()
    assert outbox.is_empty()
    secret = team.token(next(NAMES))

    def found() -> list[str]:
        results = called(team.url, secret, "search_input_prompts", session_id=session)["results"]
        return [one["content"] for one in results]

    eventually(lambda: found() == [said])


class FailingProxy:
    """A proxy in front of a server that refuses some calls with a status of HTTP."""

    def __init__(self, app: Any, status: int, words: bytes) -> None:
        self._app, self._status, self._words = app, status, words

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        body += message.get("body", b"")
        if self._words in body:
            await answer_plainly(send, self._status, b"No.")
            return
        read = iter([{"type": "http.request", "body": body}])

        async def again() -> Any:
            return next(read, None) or await receive()

        await self._app(scope, again, send)


@pytest.fixture
def behind_proxy(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A memory whose proxy refuses what contains the word poison; its `status` can be changed."""
    app = application(tmp_path / "memory.db", SETTINGS, [], ServerOptions(), HttpOptions(http=True))
    proxy = FailingProxy(app, 502, b"poison")
    with running(proxy) as url:
        yield SimpleNamespace(remote=Remote(url, lambda: "vm_x"), proxy=proxy)


async def test_a_text_that_always_fails_does_not_keep_others_waiting_and_is_not_lost(
    behind_proxy: SimpleNamespace, outbox: Outbox
) -> None:
    for text in ("poison", "fine", "good"):
        outbox.add("store_report", {**REPORT, "content": text})
    relay = Relay(behind_proxy.remote, outbox)
    for _ in range(ATTEMPTS - 1):
        await relay.send_waiting()
    assert len(list(outbox.waiting())) == 3
    await relay.send_waiting()
    assert [call.arguments["content"] for call in outbox.waiting()] == ["poison"]
    behind_proxy.proxy._words = b"nothing of it"
    await relay.send_waiting()
    assert outbox.is_empty()


@pytest.mark.parametrize(("status", "said"), [(413, "send the text in parts"), (403, "does not permit this call")])
async def test_a_text_that_a_proxy_never_accepts_is_set_aside_and_named(
    behind_proxy: SimpleNamespace, outbox: Outbox, status: int, said: str
) -> None:
    behind_proxy.proxy._status = status
    async with connected(behind_proxy.remote, outbox) as client:
        assert said in await failure(client, "store_report", **(REPORT | {"content": "poison"}))
    outbox.add("store_report", {**REPORT, "content": "poison"})
    await Relay(behind_proxy.remote, outbox).send_waiting()
    assert refused(outbox) == ["poison"]


async def test_an_outbox_that_is_full_says_so(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vector_memory.server.http.outbox.MAX_WAITING", 1)
    async with connected(Remote(AWAY, lambda: "vm_x"), outbox) as client:
        await stored(client)
        assert "too many texts wait" in await failure(client, "store_report", **REPORT)
        hooked = await client.call_tool("hook_prompt", {"session_id": "s", "prompt": "Why?"})
        assert (hooked.content[0].text, hooked.is_error) == ("{}", False)
    assert len(list(outbox.waiting())) == 1


async def test_an_outbox_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "outbox").write_text("A file, where the folder should be.")
    async with connected(Remote(AWAY, lambda: "vm_x"), Outbox(tmp_path / "outbox")) as client:
        assert "could not keep the text" in await failure(client, "store_report", **REPORT)


def test_what_is_added_comes_after_what_waits_even_if_the_clock_was_set_back(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([5_000, 4_000, 5_001, 1])
    monkeypatch.setattr("vector_memory.server.http.outbox.time", SimpleNamespace(time_ns=lambda: next(clock)))
    for text in "abcd":
        outbox.add("store_report", {"content": text})
    assert [call.arguments["content"] for call in outbox.waiting()] == list("abcd")


def test_the_outbox_sets_aside_what_is_damaged_and_removes_what_was_never_finished(outbox: Outbox) -> None:
    for number in range(3):
        outbox.add("store_report", {"content": str(number)})
    first, *_ = sorted(outbox._folder.glob("*.json"))
    first.write_bytes(b"{")
    (outbox._folder / "00000000000000000007.new").write_bytes(b"{")
    assert [call.arguments["content"] for call in outbox.waiting()] == ["1", "2"]
    assert len(list((outbox._folder / "refused").iterdir())) == 1
    outbox.sent(next(outbox.waiting()))
    outbox.add("store_report", {"content": "3"})
    assert [call.arguments["content"] for call in outbox.waiting()] == ["2", "3"]
    assert list(outbox._folder.glob("*.new")) == []


def test_each_shared_memory_and_each_file_with_a_token_has_an_outbox_of_its_own(tmp_path: Path) -> None:
    red, blue = tmp_path / "red", tmp_path / "blue"
    places = [("https://a/mcp", red), ("https://b/mcp", red), ("https://a/mcp", blue), ("https://a/mcp", red)]
    assert len({outbox_of(url, token) for url, token in places}) == 3
