"""What a relay answers, in this process: everything of the shared memory, and sentences when that is away."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastmcp.client.elicitation import ElicitResult
from mcp import MCPError
from mcp_types import Implementation, PromptReference

from over_http.conftest import Team
from over_http.relays import AWAY, NAMES, REPORT, calls, connected, failure, limit, remote_of, send_waiting, stored
from vector_memory.errors import ConfigurationError, DatabaseError, ValidationError
from vector_memory.outbox import Outbox
from vector_memory.server.http import remote as remote_module
from vector_memory.server.http.relay import Relay, read_token
from vector_memory.server.http.remote import NOBODY, Remote, call_of
from vector_memory.settings import Redact
from waiting import until

pytestmark = pytest.mark.anyio

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
