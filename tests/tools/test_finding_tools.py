"""What clients are told to find tools by: hints, descriptions, and a profile of few tools."""

import json
import re
from contextlib import nullcontext

import pydantic
import pytest
from fastmcp import Client

from tool_calls import wire_list
from vector_memory.server.app import create_server
from vector_memory.server.tools import offered
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import Profile, ServerOptions, Toolset
from vector_memory.store import SessionMemoryStore
from vector_memory.texts.tokens import find_token_counter, has_cl100k

pytestmark = pytest.mark.anyio

ALL = tuple(Toolset)
WISHES = (
    "remember this",
    "save memory",
    "what did we do last time",
    "search memory",
    "continue where we left off",
    "recall",
)
STORE_OR_FIND = re.compile(r"store_|search_|load_|list_|memory_search|memory_write")
DELETE = re.compile("delete_|clean|clear")
CORE_TOKENS = 1_350
CORE_CHARACTERS = 6_280
"""1,350 tokens are about 6,280 characters of these schemas (4.65 a token, measured with cl100k_base)."""


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def matching(wish: str, tool: MemoryTool) -> int:
    """Return how many words of a wish a client's search finds in what it knows of a tool."""
    known = words(f"{tool.name} {tool.description} {(tool.meta or {}).get('anthropic/searchHint', '')}")
    return len(set(words(wish)) & set(known))


@pytest.mark.parametrize("toolsets", [ALL, *((one,) for one in Toolset)], ids="+".join)
@pytest.mark.parametrize("wish", WISHES)
def test_a_wish_finds_a_tool_that_stores_or_finds_first(wish: str, toolsets: tuple[Toolset, ...]) -> None:
    found = {tool.name: matching(wish, tool) for tool in offered(toolsets)}
    best = {name for name, count in found.items() if count and count == max(found.values())}
    assert best or toolsets == (Toolset.FILES,)
    assert any(STORE_OR_FIND.match(name) for name in best) or not best
    assert not any(DELETE.match(name) for name in best)


def test_every_tool_asks_the_client_to_hand_on_long_answers_whole() -> None:
    assert {(tool.meta or {}).get("anthropic/maxResultSizeChars") for tool in offered(ALL)} == {200_000}


async def test_a_client_receives_the_hints(store: SessionMemoryStore) -> None:
    async with Client(create_server(lambda: nullcontext(store))) as client:
        told = {tool.name: tool.meta or {} for tool in await client.list_tools()}
    assert told["store_report"]["anthropic/alwaysLoad"] is True
    assert "remember" in told["store_report"]["anthropic/searchHint"]
    assert "anthropic/searchHint" not in told["delete_memory"]


def test_few_tools_are_always_loaded_and_they_store_find_and_continue() -> None:
    assert {
        toolset: {tool.name for tool in offered([toolset]) if (tool.meta or {}).get("anthropic/alwaysLoad")}
        for toolset in Toolset
    } == {
        Toolset.SESSION: {"store_report", "search_reports_specific_chunks", "load_session_context_for_task"},
        Toolset.TAGGED: {"store_memory", "search_memories"},
        Toolset.FILES: {"memory_search"},
    }


def test_descriptions_begin_with_what_tells_one_family_from_another() -> None:
    for toolset, beginning in ((Toolset.TAGGED, "Tagged note"), (Toolset.FILES, "Memory file")):
        assert all((tool.description or "").startswith(beginning) for tool in offered([toolset]))
    session = {tool.name: tool.description or "" for tool in offered([Toolset.SESSION])}
    assert session["delete_memory"].startswith("Session memory:")
    assert session["get_memory_by_id"].startswith("Session memory:")


def test_the_core_profile_is_small_and_stores_finds_at_every_grain_continues_and_catches_up() -> None:
    tools = offered([Toolset.SESSION], profile=Profile.CORE)
    names = {tool.name for tool in tools}
    assert len(names) <= 8
    assert names >= {
        "store_report",
        "search_reports_specific_chunks",
        "search_reports_section_context",
        "search_reports_full_documents",
        "search_changes",
        "load_session_context_for_task",
    }
    assert all((tool.meta or {})["anthropic/alwaysLoad"] for tool in tools)
    assert len(wire_list(tools)) < CORE_CHARACTERS
    if has_cl100k():
        assert find_token_counter(None)(wire_list(tools)) < CORE_TOKENS


def test_the_full_list_is_the_default() -> None:
    assert len(offered([Toolset.SESSION])) == 29
    assert ServerOptions().profile is Profile.FULL


async def test_a_core_server_works_and_names_no_tool_that_it_does_not_offer(store: SessionMemoryStore) -> None:
    server = create_server(lambda: nullcontext(store), ServerOptions(profile=Profile.CORE))
    async with Client(server, mode="legacy") as client:
        tools = await client.list_tools()
        told = " ".join([client.initialize_result.instructions or "", *(tool.description or "" for tool in tools)])
        stored = await client.call_tool(
            "store_report", {"agent_id": "a", "session_id": "s", "content": "Findings.", "tags": ["accepted"]}
        )
        found = await client.call_tool("search_reports_specific_chunks", {"query": "findings"})
        assert not await client.list_prompts()
    named = {tool.name for tool in offered(ALL) if re.search(rf"\b{tool.name}\b", told)}
    assert named <= {tool.name for tool in tools}
    assert store.get_memory_by_id(stored.structured_content["memory_id"]).memory.tags == ["accepted"]
    assert found.structured_content["results"][0]["memory_id"] == stored.structured_content["memory_id"]
    assert "metadata" not in json.dumps([tool.input_schema for tool in tools])


def test_the_core_profile_is_one_of_session_tools() -> None:
    with pytest.raises(pydantic.ValidationError, match="omit --toolsets"):
        ServerOptions(profile=Profile.CORE, toolsets="all")
    assert len(offered([Toolset.SESSION], profile=Profile.CORE, read_only=True)) == 6
