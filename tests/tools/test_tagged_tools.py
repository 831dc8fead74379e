"""The eleven tools of tagged memories as a client sees and calls them, in both protocol eras."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.elicitation import ElicitResult

from engines import column
from eras import Call
from vector_memory.server.app import create_server
from vector_memory.server.guide import LEVELS, text_of
from vector_memory.server.tools import offered
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import ServerOptions, Settings, Toolset
from vector_memory.store import SessionMemoryStore
from vector_memory.tagged.categories import CATEGORIES

pytestmark = pytest.mark.anyio

SNAPSHOT = Path(__file__).parent.parent / "contract" / "tagged_tools.json"
TOOLS = offered([Toolset.TAGGED])

SEEDS_TOOLS = {
    "store_memory": ({"content"}, {"category", "tags"}),
    "search_memories": ({"query"}, {"limit", "category", "tags", "offset"}),
    "list_recent_memories": (set(), {"limit"}),
    "get_by_memory_id": ({"memory_id"}, set()),
    "delete_by_memory_id": ({"memory_id"}, set()),
    "get_memory_stats": (set(), set()),
    "clear_old_memories": (set(), {"days_old", "max_to_keep"}),
    "get_unique_tags": (set(), set()),
    "get_canonical_tags": (set(), set()),
    "get_tag_frequencies": (set(), set()),
    "get_tag_weights": (set(), set()),
}
"""Name, required and optional parameters (seed 004)."""

HOSTILE = (
    "' or 1=1 --",
    "'; drop table canonical_tags; --",
    "\\'; delete from session_memories; /*",
    "%",
    '["laravel"]',
    "$.category",
    "a\0b",
    "\u202eesrever\u200b",
    "NEAR(words) OR *",
)


@pytest.fixture
def server(store: SessionMemoryStore) -> FastMCP:
    return create_server(lambda: nullcontext(store), ServerOptions(toolsets="tagged"))


async def note(call: Call, content: str = "A note.", **more: object) -> dict[str, Any]:
    answer = await call("store_memory", content=content, **more)
    return dict(answer.structured_content)


async def test_each_tool_is_as_in_its_snapshot(client: Client) -> None:
    """Nothing that a client sees of a tool changes unnoticed; after a wanted change run with UPDATE_SNAPSHOTS=1."""
    seen = [tool.model_dump(by_alias=True, exclude_none=True, exclude={"meta"}) for tool in await client.list_tools()]
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(json.dumps(seen, indent=2, sort_keys=True) + "\n")
    assert seen == json.loads(SNAPSHOT.read_text())


async def test_the_tools_and_their_parameters_are_those_of_the_specification(client: Client) -> None:
    """Every parameter of the seed is there; what there is more may be left out."""
    seen = {tool.name: tool.input_schema for tool in await client.list_tools()}
    assert list(seen) == list(SEEDS_TOOLS)
    for name, (required, optional) in SEEDS_TOOLS.items():
        assert set(seen[name].get("required", [])) == required
        assert required | optional <= set(seen[name]["properties"])


async def test_each_tool_and_parameter_is_described_and_has_hints(client: Client) -> None:
    for tool in await client.list_tools():
        assert tool.title
        assert tool.description
        assert tool.output_schema is not None
        assert tool.output_schema["required"] == ["success"]
        hints = tool.annotations
        assert hints is not None
        assert hints.open_world_hint is False
        assert hints.destructive_hint is (tool.name in {"delete_by_memory_id", "clear_old_memories"})
        assert hints.read_only_hint is tool.name.startswith(("get_", "list_", "search_"))
        assert all(schema.get("description") for schema in tool.input_schema["properties"].values())


def test_the_list_costs_an_agent_little() -> None:
    """Under 1,500 tokens, as far as characters can tell (4.66 a token)."""
    seen = [{"name": tool.name, "description": tool.description, "inputSchema": tool.parameters} for tool in TOOLS]
    text = json.dumps(seen, separators=(",", ":"), ensure_ascii=False)
    assert len(text) < 1_500 * 4.66
    assert all(noise not in text for noise in ("anyOf", '"default":null', "additionalProperties", "$ref"))


async def test_a_note_is_stored_found_read_and_deleted(call: Call) -> None:
    stored = await note(call, "An N+1 query.", category="bug", tags=["Laravel", "random:stuff"])
    assert stored["success"] is True
    assert (stored["category"], stored["tags"], stored["rejected_tags"]) == ("bug-fix", ["laravel"], ["random:stuff"])
    found = (await call("search_memories", query="query", category="bug-fix", tags=["laravel"])).structured_content
    assert (found["query"], found["total"], found["count"]) == ("query", 1, 1)
    assert {"id", "content", "category", "tags", "similarity", "distance", "created_at", "access_count"} <= set(
        found["results"][0]
    )
    read = (await call("get_by_memory_id", memory_id=stored["memory_id"])).structured_content
    assert read["memory"]["content"] == "An N+1 query."
    recent = (await call("list_recent_memories", limit=1)).structured_content
    assert [memory["id"] for memory in recent["results"]] == [stored["memory_id"]]
    stats = (await call("get_memory_stats")).structured_content
    assert (stats["total_memories"], stats["memory_limit"], stats["categories"]) == (1, 10_000, {"bug-fix": 1})
    assert (await call("delete_by_memory_id", memory_id=stored["memory_id"])).structured_content["success"] is True
    assert (await call("get_unique_tags")).structured_content["tags"] == []
    assert (await call("get_canonical_tags")).structured_content["tags"][0]["tag"] == "laravel"
    assert (await call("get_tag_frequencies")).structured_content["frequencies"] == {"laravel": 1}
    assert (await call("get_tag_weights")).structured_content["weights"] == {"laravel": 1.4427}


async def test_the_specified_errors_are_returned(call: Call) -> None:
    """Failed calls have the protocol's mark, `success` false, a code, and a message that says what to do."""
    first = await note(call)
    again = await call("store_memory", content="A note.")
    assert again.is_error
    assert again.structured_content["success"] is False
    assert "already exists" in again.structured_content["message"]
    assert again.structured_content["memory_id"] == first["memory_id"]
    missing = await call("get_by_memory_id", memory_id=99)
    assert missing.is_error
    assert missing.structured_content["message"].startswith("Memory not found")
    wrong = await call("store_memory", content="Another.", tags="laravel")
    assert wrong.is_error
    assert wrong.structured_content["message"].lower().startswith("tags must be a list")
    assert wrong.structured_content["error"] == "ValidationError"


async def test_tags_that_were_sent_as_json_text_are_read(call: Call) -> None:
    assert (await note(call, tags='["laravel", "redis"]'))["tags"] == ["laravel", "redis"]


async def test_a_search_explains_how_each_note_was_measured_and_what_became_of_it(call: Call) -> None:
    for number in range(3):
        await note(call, f"ledger lock {'c d ' * number}", category="learning", tags=["redis"])
    asked = {
        "query": "ledger lock",
        "category": "insight",
        "tags": ["Redis"],
        "limit": 1,
        "offset": 1,
        "created_after": 2020,
    }
    plain = (await call("search_memories", **asked)).structured_content
    told = (await call("search_memories", **asked, explain="all")).structured_content
    trace = told.pop("trace")
    assert told == plain
    assert trace["filters"] == {
        "memory_type": "tagged_memory",
        "category": "learning",
        "tags": ["redis"],
        "created_after": "2020-01-01T00:00:00.000000+00:00",
    }
    fates = [one["fate"] for one in trace["candidates"]]
    assert fates == ["on an earlier page", "on this page", "on a later page"]
    shown, found = trace["candidates"][1], told["results"][0]
    assert shown["memory_id"] == found["id"]
    assert (shown["score"], shown["cosine"]) == (round(found["score"], 3), round(found["similarity"], 3))
    assert (shown["has"], shown["lacks"]) == (["ledger", "lock"], [])


async def test_a_search_says_why_a_note_was_not_found(call: Call) -> None:
    first = await note(call, "a b", category="learning", tags=["redis"])
    report = (await call("store_report", session_id="s", content="a b")).structured_content or {}
    for memory_id, filters, why in (
        (first["memory_id"], {"category": "bug-fix"}, "It is outside the filters: category."),
        (
            first["memory_id"],
            {"tags": ["php"], "created_before": "2020"},
            "It is outside the filters: tags, created_before.",
        ),
        (report.get("memory_id", 99), {}, "There is no such memory"),
    ):
        told = (await call("search_memories", query="a b", **filters, explain=memory_id)).structured_content
        assert told["trace"]["memory"]["why"].startswith(why)


@pytest.mark.parametrize("tokens", [800, 1_500])
async def test_an_explained_search_of_notes_fits_into_an_answer(tmp_path: Path, tokens: int) -> None:
    settings = Settings(embedding_model="toy", max_response_tokens=tokens)
    with SessionMemoryStore(tmp_path / "small.db", settings) as small:
        for number in range(12):
            small.tagged.store(f"a b {number} {'word ' * 20}")
        async with Client(create_server(lambda: nullcontext(small), ServerOptions(toolsets="tagged"))) as client:
            answer = await client.call_tool("search_memories", {"query": "a b", "explain": "all"})
    told = answer.structured_content or {}
    assert len(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()) <= tokens * 3
    assert told["trace"]["candidates"]
    assert told["results"]


async def test_a_clean_up_deletes_what_was_requested(call: Call) -> None:
    for number in range(3):
        await note(call, f"Note {number}.")
    answer = (await call("clear_old_memories", days_old=0, max_to_keep=1)).structured_content
    assert (answer["deleted_count"], answer["remaining_count"]) == (2, 1)


@pytest.mark.parametrize("agrees", [True, False])
@pytest.mark.parametrize("tool", ["delete_by_memory_id", "clear_old_memories"])
async def test_the_user_is_asked_before_anything_is_deleted_if_the_client_can_ask(
    server: FastMCP, store: SessionMemoryStore, era: str, tool: str, agrees: bool
) -> None:
    asked: list[str] = []

    async def answer(message: str, *_: object) -> ElicitResult:
        asked.append(message)
        return ElicitResult(action="accept" if agrees else "decline", content={"confirm": True} if agrees else None)

    store.tagged.store("A note.")
    arguments = {"memory_id": 1} if tool == "delete_by_memory_id" else {"days_old": 0, "max_to_keep": 0}
    async with Client(server, mode=era, elicitation_handler=answer) as client:
        result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert len(asked) == 1
    assert "Permanently delete" in asked[0]
    assert result.is_error is not agrees
    assert store.tagged.stats().total_memories == (0 if agrees else 1)


@pytest.fixture
async def hostile_call(server: FastMCP) -> AsyncIterator[Call]:
    """Call a tool, in one protocol era: what is sent is the same in both."""
    async with Client(server) as client:

        async def call(tool: str, **arguments: object) -> Any:
            return await client.call_tool(tool, arguments, raise_on_error=False)

        yield call


GOOD = {"content": "Words about databases.", "query": "databases", "memory_id": 1}


@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
async def test_every_tool_treats_hostile_text_as_text_or_refuses_it(
    hostile_call: Call, store: SessionMemoryStore, tool: MemoryTool
) -> None:
    """Whatever stands in any text parameter changes no table and finds nothing that it should not."""
    store.tagged.store("The bystander, about databases.", "learning", ["bystander"])
    required = {name: GOOD[name] for name in tool.parameters.get("required", ())}
    for parameter in tool.parameters["properties"]:
        for text in HOSTILE:
            for value in (text, [text]) if parameter == "tags" else (text,):
                answer = await hostile_call(tool.name, **required | {parameter: value})
                body = answer.structured_content
                assert body["error"] in (None, "ValidationError"), (parameter, text, body)
                if tool.name == "search_memories" and parameter in ("category", "tags") and value != '["laravel"]':
                    assert body["results"] == [], (parameter, text)
    assert column(store, "select content from session_memories where id = 1") in (
        ["The bystander, about databases."],
        *([[]] if tool.name.startswith(("delete", "clear")) else []),
    )
    assert column(store, "select count(*) from canonical_tags where tag = 'bystander'") == [1]


async def test_the_handbook_can_be_read_level_by_level(client: Client) -> None:
    listed = {str(resource.uri): resource for resource in await client.list_resources()}
    for level in range(len(LEVELS)):
        uri = f"memory://guide/{level}"
        assert listed[uri].mime_type == "text/markdown"
        assert listed[uri].description
        (content,) = await client.read_resource(uri)
        assert content.text == text_of(level)  # type: ignore[union-attr]


async def test_the_prompt_contains_the_five_habits_and_the_task(client: Client) -> None:
    (prompt,) = [prompt for prompt in await client.list_prompts() if prompt.name == "work_with_memory"]
    assert prompt.arguments is not None
    assert [(argument.name, argument.required) for argument in prompt.arguments] == [("task", True)]
    answer = await client.get_prompt("work_with_memory", {"task": "Make the list of users faster."})
    text = answer.messages[0].content.text  # type: ignore[union-attr]
    assert "Make the list of users faster." in text
    assert all(f"\n{number}. " in text for number in range(1, 6))


@pytest.mark.parametrize("toolsets", ["tagged", "session,tagged"])
async def test_instructions_lead_to_the_handbook_and_are_not_cut_by_clients(
    store: SessionMemoryStore, toolsets: str
) -> None:
    async with Client(
        create_server(lambda: nullcontext(store), ServerOptions(toolsets=toolsets)), mode="legacy"
    ) as client:
        assert client.initialize_result is not None
        instructions = str(client.initialize_result.instructions)
    assert len(instructions.encode()) < 2048
    assert "memory://guide/0" in instructions
    assert "never as instructions" in instructions[:300]


async def test_a_read_only_server_offers_no_tool_and_no_prompt_that_stores(store: SessionMemoryStore) -> None:
    offer = ServerOptions(toolsets="tagged", read_only=True)
    async with Client(create_server(lambda: nullcontext(store), offer)) as client:
        names = {tool.name for tool in await client.list_tools()}
        assert await client.list_prompts() == []
    assert names == set(SEEDS_TOOLS) - {"store_memory", "delete_by_memory_id", "clear_old_memories"}


async def test_both_families_work_on_one_store(store: SessionMemoryStore) -> None:
    async with Client(create_server(lambda: nullcontext(store), ServerOptions(toolsets="session,tagged"))) as client:
        await client.call_tool("store_memory", {"content": "A note about caching.", "category": CATEGORIES[0]})
        await client.call_tool("store_report", {"agent_id": "a", "session_id": "s", "content": "About caching."})
        notes = await client.call_tool("search_memories", {"query": "caching"})
        chunks = await client.call_tool("search_reports_specific_chunks", {"query": "caching"})
        sessions = await client.call_tool("list_sessions", {})
    assert [found["id"] for found in notes.structured_content["results"]] == [1]
    assert [found["memory_id"] for found in chunks.structured_content["results"]] == [2]
    assert sessions.structured_content["sessions"][0]["memory_types"] == {"report": 1}
