"""The tools that keep a memory in order, which a server has with all toolsets."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from fastmcp import Client, FastMCP

from eras import Call
from vector_memory.server.app import create_server
from vector_memory.settings import ServerOptions
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

TOOLS = {"review_memories", "supersede_memories", "pin_memory", "amend_memory"}


@pytest.fixture
def server(store: SessionMemoryStore) -> FastMCP:
    """A server with all tools."""
    files = SimpleNamespace(settings=store.settings)  # no tool of files is called
    return create_server(lambda: nullcontext(store), ServerOptions(toolsets="all"), lambda: nullcontext(files))


def stored(store: SessionMemoryStore, text: str) -> int:
    return store.store_memory("report", text, session_id="s", agent_id="a").memory_id


@pytest.mark.parametrize(("toolsets", "there"), [("all", TOOLS), ("session,tagged", set())])
async def test_they_are_offered_with_all_toolsets_only(
    store: SessionMemoryStore, toolsets: str, there: set[str]
) -> None:
    server = create_server(lambda: nullcontext(store), ServerOptions(toolsets=toolsets), nullcontext)
    async with Client(server) as client:
        assert TOOLS & {tool.name for tool in await client.list_tools()} == there


async def test_a_server_for_reading_offers_the_review_only(store: SessionMemoryStore) -> None:
    options = ServerOptions(toolsets="all", read_only=True)
    async with Client(create_server(lambda: nullcontext(store), options, nullcontext)) as client:
        assert TOOLS & {tool.name for tool in await client.list_tools()} == {"review_memories"}


async def test_a_stored_memory_supersedes_an_older_one_until_it_is_released(
    call: Call, store: SessionMemoryStore
) -> None:
    older, newer = stored(store, "The port is 8080."), stored(store, "The port is 9090.")
    pair = {"memory_id": newer, "older_ids": [older]}
    assert (await call("supersede_memories", **pair)).structured_content["supersedes"] == [older]
    seen = (await call("get_memory_by_id", memory_id=older)).structured_content
    assert seen["memory"]["superseded_by"] == [newer]
    assert (await call("supersede_memories", **pair, release=True)).structured_content["supersedes"] == []
    refused = (await call("supersede_memories", memory_id=older, older_ids=[newer])).structured_content
    assert (refused["success"], "not stored before" in refused["message"]) == (False, True)


async def test_a_memory_is_pinned_and_amended(call: Call, store: SessionMemoryStore) -> None:
    number = stored(store, "The port is 8080.")
    await call("pin_memory", memory_id=number)
    await call("amend_memory", memory_id=number, title="Port", tags=["net"])
    seen = (await call("get_memory_by_id", memory_id=number)).structured_content["memory"]
    assert (seen["pinned"], seen["title"], seen["tags"]) == (True, "Port", ["net"])


async def test_a_review_of_a_fresh_memory_has_no_lines(call: Call, store: SessionMemoryStore) -> None:
    stored(store, "The port is 8080.")
    answer = (await call("review_memories", session_id="s")).structured_content
    assert (answer["lines"], answer["total"]) == ([], 0)
