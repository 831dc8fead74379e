"""What waits on this machine for the shared memory: in order, within limits, and never lost or stuck."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastmcp.tools import ToolResult

from over_http.calling import called
from over_http.conftest import SETTINGS, Team, running
from over_http.relays import (
    AWAY,
    NAMES,
    REPORT,
    add,
    calls,
    connected,
    failure,
    limit,
    refused,
    remote_of,
    send_waiting,
    stored,
)
from vector_memory.errors import DatabaseError, QuotaExceededError
from vector_memory.outbox import Outbox
from vector_memory.outbox.delivery import ATTEMPTS
from vector_memory.results.sessions import Result
from vector_memory.server.hooks import capture
from vector_memory.server.http.asgi_guard import answer as answer_plainly
from vector_memory.server.http.relay import Relay, outbox_of
from vector_memory.server.http.remote import Remote
from vector_memory.server.http.serving import application
from vector_memory.server.tools.failures import failed_result
from vector_memory.settings import HttpOptions, ServerOptions
from waiting import eventually

pytestmark = pytest.mark.anyio


async def test_what_waits_is_sent_once_and_what_can_never_be_stored_is_set_aside(team: Team, outbox: Outbox) -> None:
    session = next(NAMES)
    for _ in range(2):
        add(outbox, "store_report", **{**REPORT, "session_id": session})
    add(outbox, "store_report", **{**REPORT, "content": ""})
    await send_waiting(Relay(remote_of(team), outbox))
    assert outbox.is_empty()
    async with team.client(team.token(next(NAMES))) as client:
        stats = await client.call_tool("get_session_stats", {"session_id": session})
        assert stats.structured_content["total_memories"] == 1
    assert refused(outbox) == [""]


async def test_what_cannot_be_sent_now_waits_in_order(outbox: Outbox) -> None:
    texts = [str(number) for number in range(3)]
    for text in texts:
        add(outbox, "store_report", **{**REPORT, "content": text})
    relay = Relay(Remote(AWAY, lambda: "vm_x"), outbox)
    for _ in range(ATTEMPTS + 1):
        await send_waiting(relay)
    assert [call["arguments"]["content"] for call in calls(outbox)] == texts


async def test_a_full_namespace_keeps_all_that_waits_in_order(team: Team, outbox: Outbox) -> None:
    for text in ["first of all", "second of all"]:
        add(outbox, "store_report", **{**REPORT, "content": text})
    add(outbox, "hook_prompt", session_id="s", prompt="Why does the import fail?")
    relay = Relay(remote_of(team, namespace=limit(team, "full", memories=0)), outbox)
    for _ in range(ATTEMPTS + 1):
        await send_waiting(relay)
    assert [call["tool"] for call in calls(outbox)] == ["store_report", "store_report", "hook_prompt"]
    limit(team, "full")
    while not outbox.is_empty():  # the limit is read again within two seconds
        await send_waiting(relay)


async def test_beyond_the_calls_of_a_minute_nothing_overtakes_what_was_refused(outbox: Outbox) -> None:
    tried = []

    class Hurried:
        async def call(self, _tool: str, arguments: dict[str, Any], _speaker: object) -> ToolResult:
            tried.append(arguments["content"])
            return failed_result(Result, QuotaExceededError("Later."))

    for text in ("first", "second"):
        add(outbox, "store_report", content=text)
    relay = Relay(Hurried(), outbox)  # type: ignore[arg-type]
    for _ in range(ATTEMPTS + 2):
        await send_waiting(relay)
    assert set(tried) == {"first"}
    assert len(calls(outbox)) == 2


async def test_a_hook_that_has_waited_and_fails_inside_the_server_waits_longer(
    team: Team, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_event: object) -> None:
        raise DatabaseError("The disk is full.")

    session, said = next(NAMES), "Why does the import fail at night?"
    add(outbox, "hook_prompt", session_id=session, prompt=said)
    relay = Relay(remote_of(team), outbox)
    with monkeypatch.context() as patch:
        patch.setattr(capture, "hear_prompt", fail)
        await send_waiting(relay)
    assert not outbox.is_empty()
    await send_waiting(relay)
    assert outbox.is_empty()
    secret = team.token(next(NAMES))

    def found() -> list[str]:
        results = called(team.url, secret, "search_input_prompts", session_id=session)["results"]
        return [one["content"] for one in results]

    eventually(lambda: found() == [said])


class FailingProxy:
    """A proxy in front of a server that refuses some calls with a status of HTTP."""

    def __init__(self, app: Any, status: int, words: bytes) -> None:
        self._app, self.status, self.words = app, status, words

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        body += message.get("body", b"")
        if self.words in body:
            await answer_plainly(send, self.status, b"No.")
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
        add(outbox, "store_report", **{**REPORT, "content": text})
    relay = Relay(behind_proxy.remote, outbox)
    for _ in range(ATTEMPTS - 1):
        await send_waiting(relay)
    assert len(calls(outbox)) == 3
    await send_waiting(relay)
    assert [call["arguments"]["content"] for call in calls(outbox)] == ["poison"]
    behind_proxy.proxy.words = b"nothing of it"
    await send_waiting(relay)
    assert outbox.is_empty()


@pytest.mark.parametrize("status", [302, 429, 503])
async def test_a_proxy_that_answers_instead_of_the_server_is_told_with_its_status(
    behind_proxy: SimpleNamespace, outbox: Outbox, status: int
) -> None:
    behind_proxy.proxy.status, behind_proxy.proxy.words = status, b""
    add(outbox, "store_report", **REPORT)
    await send_waiting(Relay(behind_proxy.remote, outbox))
    assert f"cannot be reached (HTTP status {status})" in outbox.contents().problem
    assert len(calls(outbox)) == 1


@pytest.mark.parametrize(("status", "said"), [(413, "send the text in parts"), (403, "does not permit this call")])
async def test_a_text_that_a_proxy_never_accepts_is_set_aside_and_named(
    behind_proxy: SimpleNamespace, outbox: Outbox, status: int, said: str
) -> None:
    behind_proxy.proxy.status = status
    async with connected(behind_proxy.remote, outbox) as client:
        assert said in await failure(client, "store_report", **(REPORT | {"content": "poison"}))
    add(outbox, "store_report", **{**REPORT, "content": "poison"})
    await send_waiting(Relay(behind_proxy.remote, outbox))
    assert refused(outbox) == ["poison"]


async def test_an_outbox_that_is_full_says_so(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vector_memory.outbox.folder.MAX_WAITING", 1)
    async with connected(Remote(AWAY, lambda: "vm_x"), outbox) as client:
        await stored(client)
        assert "Too many texts wait" in await failure(client, "store_report", **REPORT)
        hooked = await client.call_tool("hook_prompt", {"session_id": "s", "prompt": "Why?"})
        assert (hooked.content[0].text, hooked.is_error) == ("{}", False)
    assert len(calls(outbox)) == 1


async def test_an_outbox_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "outbox").write_text("A file, where the folder should be.")
    async with connected(Remote(AWAY, lambda: "vm_x"), Outbox(tmp_path / "outbox")) as client:
        assert "could not keep the text" in await failure(client, "store_report", **REPORT)


def test_each_shared_memory_and_each_file_with_a_token_has_an_outbox_of_its_own(tmp_path: Path) -> None:
    red, blue = tmp_path / "red", tmp_path / "blue"
    places = [("https://a/mcp", red), ("https://b/mcp", red), ("https://a/mcp", blue), ("https://a/mcp", red)]
    assert len({outbox_of(url, token).folder for url, token in places}) == 3
