"""What a relay answers, in this process: everything of the shared memory, and sentences when that is away."""

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from mcp import MCPError
from mcp_types import Implementation, PromptReference

from over_http.conftest import SETTINGS, Team, running
from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.server.http import remote as remote_module
from vector_memory.server.http.gate import answer as answer_plainly
from vector_memory.server.http.outbox import Outbox
from vector_memory.server.http.relay import ATTEMPTS, Relay, create_relay
from vector_memory.server.http.relaying import outbox_of, read_token
from vector_memory.server.http.remote import Remote
from vector_memory.server.http.serving import application
from vector_memory.settings import HttpOptions, ServerOptions
from vector_memory.tenancy.namespaces import Namespaces
from vector_memory.tenancy.quotas import Quota

pytestmark = pytest.mark.anyio

NAMES = map("relay-{}".format, itertools.count())
AWAY = "http://127.0.0.1:9/mcp"
REPORT = {"agent_id": "a", "session_id": "s", "content": "# Found\n\nIt works."}
AGREES = ElicitResult(action="accept", content={"confirm": True})
DECLINES = ElicitResult(action="decline")
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "outbox")


def remote_of(team: Team, permission: str = "write", **limits: object) -> Remote:
    """Return the shared memory, with a token of its own."""
    secret = team.token(next(NAMES), permission=permission, **limits)
    return Remote(team.url, lambda: secret)


@asynccontextmanager
async def connected(remote: Remote, outbox: Outbox, era: str = "auto", **options: Any) -> AsyncIterator[Client]:
    """Connect a client to a relay."""
    async with Client(create_relay(remote, outbox, ServerOptions()), mode=era, **options) as client:
        yield client


async def stored(client: Client, **facts: str) -> dict[str, Any]:
    """Store a report in a session of its own."""
    answer = await client.call_tool("store_report", {**REPORT, "session_id": next(NAMES), **facts})
    return dict(answer.structured_content)


async def failure(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that fails, and return its message."""
    answer = await client.call_tool(tool, arguments, raise_on_error=False)
    assert answer.is_error
    return str(answer.structured_content["message"])


def limit(team: Team, name: str, **quota: int) -> str:
    """Limit a namespace, which is made if there is none, and return its name."""
    namespaces = Namespaces(team.folder)
    if name not in namespaces.names():
        namespaces.create(name)
    namespaces.set_quota(name, Quota(**quota))
    return name


def refused(outbox: Outbox) -> list[str]:
    """Return the texts that were set aside."""
    files = sorted((outbox._folder / "refused").glob("*"))
    return [json.loads(file.read_bytes())["arguments"]["content"] for file in files]


async def test_tools_resources_prompts_and_completions_are_those_of_the_shared_memory(
    team: Team, outbox: Outbox
) -> None:
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
    assert [call.tool for call in outbox.waiting()] == ["store_report", "hook_prompt"]


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
        deleted = await client.call_tool("delete_memory", {"memory_id": memory_id})
        assert deleted.structured_content["success"]
        assert "There is no memory" in await failure(client, "get_memory_by_id", memory_id=memory_id)
    assert len(questions) == 2
    assert all(f"Permanently delete report {memory_id}" in question for question in questions)


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
    relay = Relay(remote_of(team), outbox)
    await relay.send_waiting()
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


async def test_a_text_that_no_message_can_carry_is_refused_and_not_kept(team: Team, outbox: Outbox) -> None:
    relay = Relay(remote_of(team), outbox)
    for content in ("\ud800", float("nan")):
        message = SimpleNamespace(name="store_report", arguments={**REPORT, "content": content})
        context = SimpleNamespace(message=message, fastmcp_context=None)
        answer = await relay.on_call_tool(context, None)  # type: ignore[arg-type]
        assert "lone surrogate" in answer.structured_content["message"]
    assert outbox.is_empty()


async def test_after_a_slow_failure_calls_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_module, "SLOW", -1.0)
    remote = Remote(AWAY, lambda: "vm_x")
    with pytest.raises(DatabaseError, match="cannot be reached"):
        await remote.call("list_sessions", {})
    monkeypatch.setattr(remote_module, "Client", None)
    with pytest.raises(DatabaseError, match="cannot be reached"):
        await remote.call("list_sessions", {})


async def test_an_outbox_that_is_full_says_so(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vector_memory.server.http.outbox.MAX_WAITING", 1)
    async with connected(Remote(AWAY, lambda: "vm_x"), outbox) as client:
        await stored(client)
        assert "Too much waits" in await failure(client, "store_report", **REPORT)
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


def test_a_token_file_must_exist_and_be_private(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_token(token)
    token.write_text(" vm_x\n")
    token.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_token(token)
    token.chmod(0o600)
    assert read_token(token) == "vm_x"
