"""What a relay answers, and what waits on this machine for the shared memory: in order, never lost or stuck."""

import json
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastmcp.client.elicitation import ElicitResult
from fastmcp.tools import ToolResult
from mcp import MCPError
from mcp_types import Implementation, PromptReference

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
from vector_memory.answers.models import Result
from vector_memory.errors import ConfigurationError, DatabaseError, QuotaExceededError, ValidationError
from vector_memory.server.hooks import capture
from vector_memory.server.http import remote as remote_module
from vector_memory.server.http.asgi_guard import answer as answer_plainly
from vector_memory.server.http.relay import Relay, outbox_of, read_token
from vector_memory.server.http.remote import NOBODY, Remote, call_of
from vector_memory.server.http.serving import application
from vector_memory.server.tools.failures import failed_result
from vector_memory.settings import HttpOptions, Redact, ServerOptions
from vector_memory.writing.outbox import ATTEMPTS, Outbox
from waiting import eventually, until

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
        patch.setattr(capture, "hook_prompt", fail)
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
    monkeypatch.setattr("vector_memory.writing.outbox.MAX_WAITING", 1)
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


AGREES = ElicitResult(action="accept", content={"confirm": True})
DECLINES = ElicitResult(action="decline")
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])


async def test_tools_resources_prompts_and_completions_come_from_the_shared_memory(team: Team, outbox: Outbox) -> None:
    async with connected(remote_of(team), outbox) as client:
        names = {tool.name for tool in await client.list_tools()}
        assert "store_report" in names
        assert "cleanup_old_memories" not in names
        report = await stored(client)
        assert "It works." in (await client.read_resource(f"memory://memories/{report['memory_id']}"))[0].text
        prompt = await client.get_prompt("continue_session", {"session_id": report["session_id"]})
        assert "relay-" in prompt.messages[0].content.text
        reference = PromptReference(name="continue_session")
        found = await client.complete(reference, {"name": "session_id", "value": report["session_id"]})
        assert found.values == [report["session_id"]]


async def test_without_the_shared_memory_all_tools_are_listed_and_reading_says_why_it_fails(outbox: Outbox) -> None:
    async with connected(Remote(AWAY, lambda: "vm_x"), outbox) as client:
        assert "cleanup_old_memories" in {tool.name for tool in await client.list_tools()}
        assert f"The shared memory at {AWAY} cannot be reached" in await failure(client, "list_sessions")
        for reading in (
            client.read_resource("memory://sessions"),
            client.get_prompt("continue_session", {"session_id": "s"}),
        ):
            with pytest.raises(MCPError, match="cannot be reached"):
                await reading
        completed = await client.complete(PromptReference(name="continue_session"), {"name": "session_id", "value": ""})
        assert completed.values == []
        assert (await stored(client))["queued"]
        hooked = await client.call_tool("hook_prompt", {"session_id": "s", "prompt": "Why?"})
        assert hooked.content[0].text == "{}"
    assert [call["tool"] for call in calls(outbox)] == ["store_report", "hook_prompt"]


@ERAS
async def test_a_question_of_the_shared_memory_reaches_the_user_and_the_answer_counts(
    team: Team, outbox: Outbox, era: str
) -> None:
    answers, questions = iter([DECLINES, AGREES]), []

    async def ask(question: str, *_others: object) -> ElicitResult:
        questions.append(question)
        return next(answers)

    async with connected(remote_of(team), outbox, era, elicitation_handler=ask) as client:
        memory_id = (await stored(client))["memory_id"]
        assert "declined" in await failure(client, "delete_memory", memory_id=memory_id)
        assert (await client.call_tool("delete_memory", {"memory_id": memory_id})).structured_content["success"]
        assert await failure(client, "get_memory_by_id", memory_id=memory_id)
    assert len(questions) == 2
    assert all(f"Delete report {memory_id}" in question for question in questions)


async def test_a_user_who_cannot_be_asked_has_not_agreed(team: Team, outbox: Outbox) -> None:
    async def break_down(*_question: object) -> ElicitResult:
        raise RuntimeError

    async with connected(remote_of(team), outbox, "legacy", elicitation_handler=break_down) as client:
        memory_id = (await stored(client))["memory_id"]
        assert "could not be asked" in await failure(client, "delete_memory", memory_id=memory_id)
        assert (await client.call_tool("get_memory_by_id", {"memory_id": memory_id})).structured_content["success"]


@ERAS
async def test_progress_of_the_shared_memory_reaches_the_client(team: Team, outbox: Outbox, era: str) -> None:
    told = []

    async def listen(progress: float, total: float | None, _message: str | None) -> None:
        told.append((progress, total))

    long = "\n\n".join(f"# Part {number}\n\n{'A sentence of it. ' * 60}" for number in range(80))
    report = {**REPORT, "session_id": next(NAMES), "content": long}
    async with connected(remote_of(team), outbox, era) as client:
        await client.call_tool("store_report", report, progress_handler=listen)
    assert told
    assert told[-1][0] == told[-1][1]


async def test_a_store_that_leaves_out_names_is_of_the_client_and_of_the_session_that_its_hooks_named(
    team: Team, outbox: Outbox
) -> None:
    session, who = next(NAMES), Implementation(name="some-client", version="1")
    report = {"content": f"# Own\n\n{session}"}
    async with connected(remote_of(team), outbox, client_info=who) as client:
        await client.call_tool("hook_prompt", {"session_id": session, "prompt": "Why does the import fail at night?"})
        at_once = (await client.call_tool("store_report", report)).structured_content
    async with connected(Remote(AWAY, lambda: "vm_x"), outbox, client_info=who) as client:
        await client.call_tool("hook_prompt", {"session_id": session, "prompt": "And why not at noon, of all times?"})
        await client.call_tool("store_report", {"content": "# Later\n\nIt was the disk."})
    await send_waiting(Relay(remote_of(team), outbox))
    assert outbox.is_empty()
    assert (at_once["session_id"], at_once["agent_id"]) == (session, "some-client")
    async with team.client(team.token(next(NAMES))) as client:
        found = await client.call_tool("search_changes", {"session_id": session, "memory_type": "report"})
    names = [(one["title"], one["agent_id"]) for one in found.structured_content["results"]]
    assert names == [("Own", "some-client"), ("Later", "some-client")]


async def test_a_refused_token_is_named_as_the_reason_and_a_renewed_one_is_used(team: Team, outbox: Outbox) -> None:
    secrets = ["vm_unknown"]
    async with connected(Remote(team.url, lambda: secrets[-1]), outbox) as client:
        assert "refuses the token" in await failure(client, "list_sessions")
        secrets.append(team.token(next(NAMES)))
        assert (await client.call_tool("list_sessions", {})).structured_content["success"]


async def test_a_token_file_that_has_gone_is_named_as_the_reason(team: Team, outbox: Outbox, tmp_path: Path) -> None:
    async with connected(Remote(team.url, lambda: read_token(tmp_path / "gone")), outbox) as client:
        assert "cannot be read" in await failure(client, "list_sessions")


async def test_a_hook_that_the_shared_memory_refuses_shows_no_error(team: Team, outbox: Outbox) -> None:
    remote = remote_of(team, namespace=limit(team, "slow", calls_per_minute=1))
    async with connected(remote, outbox) as client:
        for _ in range(3):
            answer = await client.call_tool("hook_prompt", {"session_id": "s", "prompt": "Why?"})
            assert (answer.content[0].text, answer.is_error) == ("{}", False)


async def test_what_a_token_does_not_permit_a_hook_to_store_is_set_aside_with_the_reason(
    team: Team, outbox: Outbox
) -> None:
    async with connected(remote_of(team, sessions=("mine",)), outbox) as client:
        for session in ("mine", "yours"):
            await client.call_tool("hook_prompt", {"session_id": session, "prompt": f"Why does it fail in {session}?"})
        await until(outbox.is_empty)
    [(path, reason)] = outbox.refused()
    assert json.loads(path.read_bytes())["arguments"]["session_id"] == "yours"
    assert "AccessDenied" in reason
    async with team.client(team.token(next(NAMES))) as client:
        stats = (await client.call_tool("get_session_stats", {"session_id": "yours"})).structured_content
    assert stats["total_memories"] == 0


@pytest.mark.parametrize("redacts", Redact)
def test_what_is_written_to_the_disk_is_redacted_like_what_is_stored(redacts: Redact) -> None:
    private = "<private>hunter2</private>"
    hook = call_of("hook_prompt", {"session_id": "s", "prompt": private}, NOBODY, redacts)["arguments"]
    tool = call_of("store_report", {"session_id": "s", "content": private, "tags": [private]}, NOBODY, redacts)
    named = call_of("hook_prompt", {"session_id": private, "prompt": "Hello."}, NOBODY, redacts)["arguments"]
    assert named["session_id"] == (private if redacts is Redact.OFF else "[redacted: private]")
    with pytest.raises(ValidationError, match="session_id") if redacts is Redact.ALL else nullcontext():
        call_of("store_report", {"session_id": private, "content": "Hello."}, NOBODY, redacts)
    assert (hook["prompt"] == private) == (redacts is Redact.OFF)
    assert ("hunter2" in json.dumps(tool)) == (redacts is not Redact.ALL)


async def test_a_text_that_no_message_can_carry_is_refused_and_not_kept(team: Team, outbox: Outbox) -> None:
    relay = Relay(remote_of(team), outbox)
    for content in ("\ud800", float("nan")):
        message = SimpleNamespace(name="store_report", arguments={**REPORT, "content": content})
        context = SimpleNamespace(message=message, fastmcp_context=None)
        assert "lone surrogate" in (await relay.on_call_tool(context, None)).structured_content["message"]
    assert outbox.is_empty()


async def test_after_a_slow_failure_calls_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_module, "SLOW", -1.0)
    remote = Remote(AWAY, lambda: "vm_x")
    with pytest.raises(DatabaseError, match="cannot be reached"):
        await remote.call("list_sessions", {})
    monkeypatch.setattr(remote_module, "Client", None)
    with pytest.raises(DatabaseError, match="cannot be reached"):
        await remote.call("list_sessions", {})


def test_a_token_file_must_exist_and_be_private(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_token(token)
    os.mkfifo(token, 0o600)
    with pytest.raises(ConfigurationError, match="cannot be read: it is a named pipe"):
        read_token(token)
    token.unlink()
    token.write_text(" vm_x\n")
    token.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_token(token)
    token.chmod(0o600)
    assert read_token(token) == "vm_x"
