"""What a client sees of the tools before it calls one, whatever family they are of (requirement P1)."""

import json
import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from fastmcp import Client
from mcp_types import Tool

from tool_calls import ADDED_TOOLS, SESSION_TOOLS, wire_list
from vector_memory.chunking.tokens import find_token_counter, has_cl100k
from vector_memory.server.app import create_server
from vector_memory.server.tools import offered
from vector_memory.settings import ServerOptions, Toolset
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

SNAPSHOTS = Path(__file__).parent.parent / "contract" / "tools"

MAX_TOKENS = {Toolset.SESSION: 4_500, Toolset.TAGGED: 1_500}
CHARACTERS_PER_TOKEN = {Toolset.SESSION: 4.72, Toolset.TAGGED: 4.66}
"""Measured with cl100k_base on these schemas."""

MAX_ADDED_TOKENS = 400
"""What each tool beyond the contract may cost."""

READ = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
STORE = READ | {"readOnlyHint": False}
DESTROY = STORE | {"destructiveHint": True}
HINTS = {
    "write_document_to_file": DESTROY,
    "delete_memory": DESTROY,
    "delete_by_memory_id": DESTROY,
    "cleanup_old_memories": DESTROY | {"idempotentHint": False},
    "clear_old_memories": DESTROY | {"idempotentHint": False},
    "memory_write": STORE | {"idempotentHint": False},
}

every_family = pytest.mark.parametrize("family", Toolset)


async def tools_of(store: SessionMemoryStore, family: Toolset, era: str = "legacy", **options: object) -> list[Tool]:
    server = create_server(lambda: nullcontext(store), ServerOptions(toolsets=family, **options), nullcontext)
    async with Client(server, mode=era) as client:
        listed = await client.list_tools()
        assert await client.list_tools() == listed
        return listed


@every_family
async def test_each_tool_is_as_in_its_snapshot(store: SessionMemoryStore, family: Toolset, era: str) -> None:
    """Nothing that a client sees of a tool changes unnoticed; after a wanted change run with UPDATE_SNAPSHOTS=1."""
    seen = {
        tool.name: tool.model_dump(by_alias=True, exclude_none=True, exclude={"meta"})
        for tool in await tools_of(store, family, era)
    }
    assert list(seen) == [tool.name for tool in offered([family])]
    if os.environ.get("UPDATE_SNAPSHOTS"):
        for old in (SNAPSHOTS / family).glob("*.json"):
            old.unlink()
        for name, tool in seen.items():
            (SNAPSHOTS / family / f"{name}.json").write_text(json.dumps(tool, indent=2, sort_keys=True) + "\n")
    assert seen == {path.stem: json.loads(path.read_text()) for path in (SNAPSHOTS / family).glob("*.json")}


@every_family
async def test_each_tool_and_parameter_is_described_and_the_hints_say_what_it_does(
    store: SessionMemoryStore, family: Toolset
) -> None:
    for tool in await tools_of(store, family):
        assert tool.title
        assert len(tool.description.encode()) in range(1, 200 if family == Toolset.FILES else 2048)
        assert all(schema.get("description") for schema in tool.input_schema["properties"].values()), tool.name
        expected = HINTS.get(tool.name, STORE if tool.name.startswith("store_") else READ)
        assert tool.annotations.model_dump(by_alias=True, exclude_none=True) == expected, tool.name


@every_family
async def test_output_schemas_admit_failures(store: SessionMemoryStore, family: Toolset) -> None:
    """Every output schema is an object of which only `success` must be there, so that a failed body fits it."""
    for tool in await tools_of(store, family):
        assert (tool.output_schema["type"], tool.output_schema["required"]) == ("object", ["success"])
        for name in ("message", "error"):
            assert set(tool.output_schema["properties"][name]["type"]) == {"string", "null"}


@every_family
async def test_a_read_only_server_lists_the_tools_that_change_nothing(
    store: SessionMemoryStore, family: Toolset
) -> None:
    readable = [tool.name for tool in await tools_of(store, family) if tool.annotations.read_only_hint]
    assert [tool.name for tool in await tools_of(store, family, read_only=True)] == readable


@pytest.mark.parametrize("family", MAX_TOKENS)
def test_the_list_is_short_and_holds_nothing_that_an_agent_pays_for_and_learns_nothing_from(family: Toolset) -> None:
    listed = wire_list() if family == Toolset.SESSION else wire_list(offered([family]))
    assert len(listed) < MAX_TOKENS[family] * CHARACTERS_PER_TOKEN[family]
    parameters = json.dumps([tool.parameters for tool in offered([family])], separators=(",", ":"))
    assert all(noise not in parameters for noise in ("anyOf", '"default":null', "additionalProperties", "$ref"))
    assert '"title":"' not in parameters


@pytest.mark.skipif(not has_cl100k(), reason="cl100k_base is not on disk")
def test_list_is_short_in_tokens() -> None:
    """The list of the contract's tools costs an agent less than 4,500 tokens, and each of ours less than 400."""
    count = find_token_counter(None)
    assert count(wire_list()) < MAX_TOKENS[Toolset.SESSION]
    for tool in SESSION_TOOLS:
        assert tool.name not in ADDED_TOOLS or count(wire_list([tool])) < MAX_ADDED_TOKENS
