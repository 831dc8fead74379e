"""What a client sees of the tools before it calls one (requirement P1)."""

import json
import os
from pathlib import Path

import pytest
from fastmcp import Client

from tool_calls import ADDED_TOOLS, SESSION_TOOLS, wire_list
from vector_memory.chunking.tokens import find_token_counter, has_cl100k
from vector_memory.server.tools import by_purpose
from vector_memory.settings import Toolset

pytestmark = pytest.mark.anyio

SNAPSHOTS = Path(__file__).parent.parent / "contract" / "snapshots"

MAX_TOKENS = 4_320
MAX_CHARACTERS = 20_400
"""4,320 tokens are about 20,400 characters of these schemas (4.73 a token, measured with cl100k_base)."""

STORE = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
READ = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
DESTROY = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}
HINTS = {
    "write_document_to_file": DESTROY,
    "delete_memory": DESTROY,
    "cleanup_old_memories": DESTROY | {"idempotentHint": False},
}


MAX_ADDED_TOKENS = 400
"""What each tool beyond the contract may cost."""


async def test_each_tool_is_as_in_its_snapshot(client: Client) -> None:
    """Nothing that a client sees of a tool changes unnoticed; after a wanted change run with UPDATE_SNAPSHOTS=1."""
    seen = {
        tool.name: tool.model_dump(by_alias=True, exclude_none=True, exclude={"meta"})
        for tool in await client.list_tools()
    }
    if os.environ.get("UPDATE_SNAPSHOTS"):
        for old in SNAPSHOTS.glob("*.json"):
            old.unlink()
        for name, tool in seen.items():
            (SNAPSHOTS / f"{name}.json").write_text(json.dumps(tool, indent=2, sort_keys=True) + "\n")
    assert seen == {path.stem: json.loads(path.read_text()) for path in SNAPSHOTS.glob("*.json")}


async def test_tools_come_in_the_same_order(client: Client) -> None:
    """The order is that of the toolset, every time and in both eras."""
    names = [tool.name for tool in await client.list_tools()]
    assert names == [tool.name for tools in by_purpose(Toolset.SESSION).values() for tool in tools]
    assert names == [tool.name for tool in await client.list_tools()]


async def test_each_tool_has_a_title_and_hints(client: Client) -> None:
    """Every tool has a title and says truly in all four hints what it does."""
    for tool in await client.list_tools():
        expected = HINTS.get(tool.name, STORE if tool.name.startswith("store_") else READ)
        assert tool.title
        assert tool.annotations is not None
        assert tool.annotations.model_dump(by_alias=True, exclude_none=True) == expected, tool.name


async def test_each_tool_and_parameter_is_described(client: Client) -> None:
    """Every tool has a description under 2 KB, and every parameter has one."""
    for tool in await client.list_tools():
        assert tool.description
        assert len(tool.description.encode()) < 2048
        for name, schema in tool.input_schema["properties"].items():
            assert schema.get("description"), f"{tool.name}.{name}"


async def test_output_schemas_admit_failures(client: Client) -> None:
    """Every output schema is an object of which only `success` must be there, so that a failed body fits it."""
    for tool in await client.list_tools():
        assert tool.output_schema is not None
        assert tool.output_schema["type"] == "object"
        assert tool.output_schema["required"] == ["success"]
        for name in ("message", "error"):
            assert set(tool.output_schema["properties"][name]["type"]) == {"string", "null"}


def test_list_is_short_in_characters() -> None:
    """The list stays short enough for 4,320 tokens, as far as characters can tell."""
    assert len(wire_list()) < MAX_CHARACTERS


@pytest.mark.skipif(not has_cl100k(), reason="cl100k_base is not on disk")
def test_list_is_short_in_tokens() -> None:
    """The list of the contract's tools costs an agent less than 4,320 tokens, and each of ours less than 400."""
    count = find_token_counter(None)
    assert count(wire_list()) < MAX_TOKENS
    for tool in SESSION_TOOLS:
        assert tool.name not in ADDED_TOOLS or count(wire_list([tool])) < MAX_ADDED_TOKENS


@pytest.mark.parametrize("noise", ['"title":"', "anyOf", '"default":null', "additionalProperties", "$ref"])
def test_schemas_contain_no_noise(noise: str) -> None:
    """Input schemas hold nothing that an agent pays for and learns nothing from."""
    assert all(noise not in json.dumps(tool.parameters, separators=(",", ":")) for tool in SESSION_TOOLS)
