"""The server around the tools."""

import asyncio
import json
import re
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from fastmcp import Client, FastMCP

import vector_memory
from eras import Call
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.server.app import LOOKS_AT_FIRST_CALLS, create_server, work_in_background
from vector_memory.server.instructions import INSTRUCTIONS, instructions_for
from vector_memory.server.tools import offered
from vector_memory.settings import Profile, ServerOptions, Settings, Toolset
from vector_memory.store import SessionMemoryStore
from waiting import until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("toolsets", ["session", "tagged", "files", "session,files", "all"])
@pytest.mark.parametrize("read_only", [False, True])
def test_instructions_for_every_choice_of_tools_reach_the_agent_complete(toolsets: str, read_only: bool) -> None:
    """They stay below the 2 KB at which clients cut them, begin with what must not be missed, and lead to handbooks."""
    told = instructions_for(ServerOptions(toolsets=toolsets, read_only=read_only))
    assert len(told.encode()) < 2048
    assert "never as instructions" in told[: 300 if toolsets != "files" else 600]
    assert ("read-only" in told) == read_only
    assert ("memory://guide/0" in told) == (toolsets in {"tagged", "all"})


@pytest.mark.parametrize(
    "offer",
    [ServerOptions(), ServerOptions(profile=Profile.CORE), ServerOptions(toolsets="tagged")],
    ids=["session", "core", "tagged"],
)
def test_instructions_begin_with_when_to_search_and_when_to_store_and_say_when_to_send_dates(
    offer: ServerOptions,
) -> None:
    """An agent that reads one sentence knows the first two."""
    dates = instructions_for(offer).partition("If a question names a time")[2].partition("\n")[0]
    assert "created_after" in dates
    assert "created_before" in dates
    sentence = instructions_for(offer).partition(": ")[0]
    assert re.match("Search th.* before you begin", sentence)
    assert "store what you" in sentence
    assert "when you end" in sentence


def test_instructions_name_only_existing_tools() -> None:
    """Every tool that the instructions name exists."""
    names = {tool.name for tool in offered([Toolset.SESSION])}
    for word in (
        "expand_chunk_context",
        "load_session_context_for_task",
        "list_sessions",
        "search_changes",
        "get_memory_by_id",
    ):
        assert word in names
        assert word in INSTRUCTIONS


async def test_server_says_who_it_is(server: FastMCP) -> None:
    """Name, version and instructions reach the client."""
    async with Client(server, mode="legacy") as client:
        hello = client.initialize_result
    assert (hello.server_info.name, hello.server_info.version) == ("vector-memory", vector_memory.__version__)
    assert hello.instructions == INSTRUCTIONS


async def test_statistics_are_a_resource(client: Client, call: Call) -> None:
    """Search latencies can be read as JSON without a tool call."""
    await call("store_report", agent_id="a", session_id="s", content="x")
    await call("search_reports_specific_chunks", query="x")
    [content] = await client.read_resource("memory://stats/search")
    assert json.loads(content.text)["total_queries"] == 1


async def test_store_lives_as_long_as_the_server(tmp_path: Path) -> None:
    """The store is opened when the server starts and closed when it ends, not before."""
    opened: list[SessionMemoryStore] = []

    def open_store() -> SessionMemoryStore:
        opened.append(SessionMemoryStore(tmp_path / "memory.db", embedder=ToyEngine()))
        return opened[-1]

    server = create_server(open_store)
    assert not opened
    async with Client(server) as client:
        await client.call_tool("list_sessions")
        await client.call_tool("list_sessions")
    [store] = opened
    with pytest.raises(vector_memory.errors.DatabaseError, match="closed"):
        store.list_sessions()


async def test_a_read_only_server_offers_only_tools_that_read(store: SessionMemoryStore) -> None:
    """With --read-only no tool that changes something is listed, nor answers."""
    store.store_memory("report", "A finding.", session_id="s")
    async with Client(create_server(lambda: store, ServerOptions(read_only=True))) as client:
        hints = {tool.name: tool.annotations.read_only_hint for tool in await client.list_tools() if tool.annotations}
        refused = [
            await client.call_tool("delete_memory", {"memory_id": 1}, raise_on_error=False),
            await client.call_tool("store_report", {"content": "Another one."}, raise_on_error=False),
        ]
        found = await client.call_tool("search_reports_specific_chunks", {"query": "finding"})
    assert set(hints.values()) == {True}
    assert {"get_memory_by_id", "search_reports_specific_chunks", "list_sessions"} <= hints.keys()
    assert all(answer.is_error for answer in refused)
    assert found.structured_content["total_results"] == 1


@pytest.mark.parametrize(("answered", "looks"), [(1, 1), (4, 4), (None, LOOKS_AT_FIRST_CALLS)])
async def test_background_work_waits_for_the_first_answers_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, answered: int | None, looks: int
) -> None:
    """It begins as soon as a look finds no request unanswered, or after the last look."""
    monkeypatch.setattr("vector_memory.server.app.SECONDS_UNASKED", 0)
    part, begun = MagicMock(), []

    def is_busy() -> bool:
        begun.append(part.start_background_work.called)
        return len(begun) != answered

    working = asyncio.create_task(work_in_background(lambda: [part], is_busy))
    await until(lambda: part.start_background_work.called)
    working.cancel()
    assert begun == [False] * looks


async def test_an_idle_model_is_unloaded_and_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle server gives the model's memory back, and the next search has it again."""
    monkeypatch.setattr("vector_memory.server.app.SECONDS_UNASKED", 0)
    monkeypatch.setattr("vector_memory.server.app.SECONDS_BETWEEN_LOOKS", 0.01)
    settings = Settings(embedding_model="toy", embedding_idle_seconds=0.2)
    loaded: list[ToyEngine] = []
    model = EmbeddingModel(lambda: loaded.append(ToyEngine()) or loaded[-1])
    store = SessionMemoryStore(tmp_path / "memory.db", settings, model=model)
    async with Client(create_server(lambda: store)) as client:
        await until(lambda: loaded and not model.is_ready)
        found = await client.call_tool("search_reports_specific_chunks", {"query": "x", "search_mode": "vector"})
    assert found.structured_content["success"]
