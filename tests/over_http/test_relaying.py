"""What a relay answers, in this process: everything of the shared memory, and sentences when that is away."""

import itertools
from pathlib import Path

import pytest
from fastmcp import Client
from mcp import MCPError

from over_http.conftest import Team
from vector_memory.errors import ConfigurationError
from vector_memory.server.http.outbox import Outbox
from vector_memory.server.http.relay import Relay, Remote, create_relay
from vector_memory.server.http.relaying import read_token
from vector_memory.settings import ServerOptions

pytestmark = pytest.mark.anyio

NAMES = map("relay-{}".format, itertools.count())
AWAY = "http://127.0.0.1:9/mcp"
REPORT = {"agent_id": "a", "session_id": "s", "content": "# Found\n\nIt works."}


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "outbox")


async def test_tools_resources_and_prompts_are_those_of_the_shared_memory(team: Team, outbox: Outbox) -> None:
    team_only = team.token(next(NAMES), permission="write")
    async with Client(create_relay(Remote(team.url, team_only), outbox, ServerOptions())) as client:
        names = {tool.name for tool in await client.list_tools()}
        assert "store_report" in names
        assert "cleanup_old_memories" not in names
        stored = await client.call_tool("store_report", {**REPORT, "session_id": next(NAMES)})
        uri = f"memory://memories/{stored.structured_content['memory_id']}"
        assert "It works." in (await client.read_resource(uri))[0].text
        prompt = await client.get_prompt("continue_session", {"session_id": stored.structured_content["session_id"]})
        assert "relay-" in prompt.messages[0].content.text


async def test_without_the_shared_memory_all_tools_are_listed_and_reading_says_why_it_fails(outbox: Outbox) -> None:
    async with Client(create_relay(Remote(AWAY, "vm_x"), outbox, ServerOptions())) as client:
        assert "cleanup_old_memories" in {tool.name for tool in await client.list_tools()}
        failed = await client.call_tool("list_sessions", {}, raise_on_error=False)
        assert f"The shared memory at {AWAY} cannot be reached" in failed.structured_content["message"]
        for reading in (
            client.read_resource("memory://sessions"),
            client.get_prompt("continue_session", {"session_id": "s"}),
        ):
            with pytest.raises(MCPError, match="cannot be reached"):
                await reading
        kept = await client.call_tool("store_report", REPORT)
        assert kept.structured_content["queued"]
        hooked = await client.call_tool("hook_prompt", {"session_id": "s", "prompt": "Why?"})
        assert hooked.content[0].text == "{}"
    assert [call.tool for call in outbox.waiting()] == ["store_report", "hook_prompt"]


async def test_a_refused_token_is_named_as_the_reason(team: Team, outbox: Outbox) -> None:
    async with Client(create_relay(Remote(team.url, "vm_unknown"), outbox, ServerOptions())) as client:
        failed = await client.call_tool("list_sessions", {}, raise_on_error=False)
        assert "refuses the token" in failed.structured_content["message"]


async def test_what_waits_is_sent_once_and_what_can_never_be_stored_is_set_aside(team: Team, outbox: Outbox) -> None:
    relay = Relay(Remote(team.url, team.token(next(NAMES), permission="write")), outbox)
    session = next(NAMES)
    for _ in range(2):
        outbox.add("store_report", {**REPORT, "session_id": session})
    outbox.add("store_report", {**REPORT, "content": ""})
    await relay.send_waiting()
    assert outbox.is_empty()
    async with team.client(team.token(next(NAMES))) as client:
        stats = await client.call_tool("get_session_stats", {"session_id": session})
        assert stats.structured_content["total_memories"] == 1
    assert len(list((outbox._folder / "refused").iterdir())) == 1


async def test_what_cannot_be_sent_now_waits_in_order(team: Team, outbox: Outbox) -> None:
    outbox.add("store_report", REPORT)
    await Relay(Remote(AWAY, "vm_x"), outbox).send_waiting()
    reader = Relay(Remote(team.url, team.token(next(NAMES), namespace="gone", permission="write")), outbox)
    await reader.send_waiting()
    assert [call.arguments for call in outbox.waiting()] in ([REPORT], [])
    with outbox.sending() as may_send, outbox.sending() as another:
        assert (may_send, another) == (True, False)


async def test_an_outbox_that_is_full_says_so(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vector_memory.server.http.outbox.MAX_WAITING", 1)
    async with Client(create_relay(Remote(AWAY, "vm_x"), outbox, ServerOptions())) as client:
        await client.call_tool("store_report", REPORT)
        refused = await client.call_tool("store_report", REPORT, raise_on_error=False)
        assert "Too much waits" in refused.structured_content["message"]


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
