"""Whatever is stored and requested, no answer exceeds its limit of bytes; cut text is marked."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from fastmcp import Client
from mcp import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from engines import execute
from tool_calls import good_arguments
from tools.test_answers import client, indexed
from vector_memory.answers.budget import BYTES_PER_TOKEN, value_size
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.files import FileMemory
from vector_memory.server.tools import offered
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import Settings, Toolset
from vector_memory.store import SessionMemoryStore

__all__ = ["client"]

pytestmark = pytest.mark.anyio

CONTROLS = "\1" * 198
FRAME: dict[str, Any] = {
    "task_code": "t" + CONTROLS,
    "description": "d" + "\1" * 4_999,
    "tags": [f"{number:03}" + "\1" * 97 for number in range(20)],
    "metadata": {f"k{number}": ["\1" * 20] * 5 for number in range(27)},
}
DOCUMENT = "# Databases\n\nWords about databases.\n\n" + ("## Part\n\nWords about databases.\n\n" * 40)
HEADING = "# " + "databases " * 7_000
LEAST, MOST = 500, 15_000
BUDGETS = (200, 257, 333, 500, 4_999, MOST)
FIXED_WORDS = 3_000
"""Characters of a prompt that are its own."""


@pytest.fixture(scope="module", params=[LEAST, MOST])
def parts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SessionMemoryStore, FileMemory]]:
    """Give a memory in which everything is as long as tools, or an import of an earlier release, could make it."""
    folder = tmp_path_factory.mktemp("caps")
    settings = Settings(embedding_model="toy", max_response_tokens=request.param, warm_start_embedding_model=False)
    (folder / "notes").mkdir()
    (folder / "notes" / "MEMORY.md").write_text("Words about databases. " + "\x01" * 100_000 + "\n" * 1000)
    with ExitStack() as stack:
        store = stack.enter_context(SessionMemoryStore(folder / "memory.db", settings, embedder=ToyEngine()))
        fill(store)
        yield store, stack.enter_context(indexed(folder / "notes", settings))


def fill(store: SessionMemoryStore) -> None:
    """Store memories with long values in every field."""
    for kind in ("report", "working_memory", "system_memory", "session_context", "input_prompt", "report_observation"):
        for number in range(2):
            agent = f"{number}{CONTROLS}"
            store.store_memory(
                kind, f"{DOCUMENT}{number}", session_id="s", agent_id=agent, title="\1" * 499 + "t", **FRAME
            )
    without_task = {name: value for name, value in FRAME.items() if name != "task_code"}
    store.store_memory("knowledge_base", DOCUMENT, agent_id="a" + CONTROLS, title="T", **without_task)
    for number in range(25):
        store.store_memory(
            "input_prompt", f"Words about databases {number}.", session_id="s", agent_id=f"{number}{CONTROLS}"
        )
        store.store_memory("system_memory", "x", session_id=f"{number}{CONTROLS}")
        store.tagged.store(
            f"{number} databases " + "\x01" * 9_000, tags=[f"{number} {'t' * 90} {tag}" for tag in range(9)]
        )
    # as an import of an earlier release could leave it
    execute(store, "update memory_chunks set section_hierarchy = ?", json.dumps([HEADING]))
    execute(store, "update session_memories set title = ? where mod(id, 2) = 1", HEADING)


@pytest.fixture
def limit(parts: tuple[SessionMemoryStore, FileMemory]) -> int:
    return parts[0].settings.max_response_tokens * BYTES_PER_TOKEN


def calls(tool: MemoryTool) -> Iterator[dict[str, Any]]:
    """Yield arguments with which a tool answers as much as it can, and some with which it refuses."""
    parameters = tool.parameters["properties"]
    most = {"limit": 50, "order": "relevance", "surrounding_chunks": 50, "overwrite": True, "days_old": 30_000}
    arguments = good_arguments(tool) | {name: value for name, value in most.items() if name in parameters}
    if "order" in arguments:
        arguments["query"] = "databases"
    if tool.name.startswith("store_"):
        long = {"agent_id": "a" + CONTROLS, "session_id": "s" + CONTROLS, **FRAME}
        arguments |= {name: value for name, value in long.items() if name in parameters}
        arguments["content"] = f"{tool.name} of its own"
    yield from (
        [arguments | {"max_tokens": budget} for budget in BUDGETS] if "max_tokens" in parameters else [arguments]
    )
    if "query" in parameters:
        yield arguments | {"query": "databases " + "\1" * 9_000}
    yield arguments | {"no_such_parameter" * 10_000: 1}


@pytest.mark.parametrize("tool", offered(tuple(Toolset)), ids=lambda tool: tool.name)
async def test_no_answer_of_a_tool_is_longer_than_it_may_be(client: Client, limit: int, tool: MemoryTool) -> None:
    for arguments in calls(tool):
        answer = await client.call_tool(tool.name, arguments, raise_on_error=False)
        allowed = min(limit, arguments.get("max_tokens", MOST) * BYTES_PER_TOKEN)
        assert value_size(answer.structured_content) <= allowed
        assert sum(len(part.text.encode()) for part in answer.content) <= allowed
        body = answer.structured_content
        assert body["success"] or body["error"] == "ValidationError"
        if "…" in answer.content[0].text:
            assert "Shortened to fit" in body["message"] or body["message"].endswith("…")


async def test_no_resource_is_longer_than_it_may_be(client: Client, limit: int) -> None:
    uris = ["memory://sessions", "memory://sessions/s", "memory://stats/search"]
    for uri in [*uris, *(f"memory://memories/{number}" for number in (2, 3, 13))]:
        (read,) = await client.read_resource(uri)
        assert len(read.text.encode()) <= limit
    with pytest.raises(MCPError) as refused:
        await client.read_resource("memory://nowhere/" + "x" * 100_000)
    assert refused.value.error.code


@pytest.mark.parametrize("name", ["continue_session", "hand_over", "start_session", "write_report"])
async def test_no_prompt_is_longer_than_it_may_be(client: Client, limit: int, name: str) -> None:
    prompt = next(prompt for prompt in await client.list_prompts() if prompt.name == name)
    given = {"session_id": "s", "agent_id": "a", "task": "x", "subject": "x", "session_iter": "1", "task_code": "t"}
    wanted = {one.name for one in prompt.arguments or ()}
    got = await client.get_prompt(name, {key: value for key, value in given.items() if key in wanted})
    assert sum(prompt_bytes(message.content) for message in got.messages) <= limit + FIXED_WORDS
    for long in wanted & {"task", "subject"}:
        with pytest.raises(MCPError, match="too long"):
            await client.get_prompt(name, {**{key: given[key] for key in wanted}, long: "x" * (limit // 2 + 1)})


def prompt_bytes(content: Any) -> int:
    """Return the bytes of a part of a prompt."""
    return len((content.text if content.type == "text" else content.resource.text).encode())


async def test_completions_are_not_longer_than_an_answer(client: Client, limit: int) -> None:
    for argument in ("session_id", "agent_id", "task_code"):
        for reference in (
            PromptReference(name="hand_over"),
            ResourceTemplateReference(uri="memory://sessions/{session_id}"),
        ):
            assert value_size((await client.complete(reference, {"name": argument, "value": ""})).values) <= limit
