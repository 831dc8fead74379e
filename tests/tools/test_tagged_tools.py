"""The eleven tools of tagged memories as a client sees and calls them, in both protocol eras."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from eras import Call
from inside import storage_of
from vector_memory.server.app import create_server
from vector_memory.server.guide import LEVELS, level_text
from vector_memory.settings import ServerOptions, Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.tagged.tags import CATEGORIES

pytestmark = pytest.mark.anyio

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


@pytest.fixture
def server(store: SessionMemoryStore) -> FastMCP:
    return create_server(lambda: nullcontext(store), ServerOptions(toolsets="tagged"))


async def note(call: Call, content: str = "A note.", **more: object) -> dict[str, Any]:
    return dict((await call("store_memory", content=content, **more)).structured_content)


async def test_the_tools_and_their_parameters_are_those_of_the_specification(client: Client) -> None:
    """Every parameter of the seed is there; what there is more may be left out."""
    seen = {tool.name: tool.input_schema for tool in await client.list_tools()}
    assert list(seen) == list(SEEDS_TOOLS)
    for name, (required, optional) in SEEDS_TOOLS.items():
        assert set(seen[name].get("required", [])) == required
        assert required | optional <= set(seen[name]["properties"])


async def test_a_note_keeps_which_client_stored_it(call: Call, store: SessionMemoryStore) -> None:
    await note(call)
    with storage_of(store).read() as reader:
        assert reader.memories.get(1).came_from == {"by": "tagged", "client": "fastmcp"}


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
    assert [one["fate"] for one in trace["candidates"]] == ["on an earlier page", "on this page", "on a later page"]
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


async def test_the_handbook_can_be_read_level_by_level(client: Client) -> None:
    listed = {str(resource.uri): resource for resource in await client.list_resources()}
    for level in range(len(LEVELS)):
        uri = f"memory://guide/{level}"
        assert listed[uri].mime_type == "text/markdown"
        assert listed[uri].description
        (content,) = await client.read_resource(uri)
        assert content.text == level_text(level)  # type: ignore[union-attr]


async def test_the_prompt_contains_the_five_habits_and_the_task(client: Client) -> None:
    (prompt,) = [prompt for prompt in await client.list_prompts() if prompt.name == "work_with_memory"]
    assert prompt.arguments is not None
    assert [(argument.name, argument.required) for argument in prompt.arguments] == [("task", True)]
    answer = await client.get_prompt("work_with_memory", {"task": "Make the list of users faster."})
    text = answer.messages[0].content.text  # type: ignore[union-attr]
    assert "Make the list of users faster." in text
    assert all(f"\n{number}. " in text for number in range(1, 6))


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
