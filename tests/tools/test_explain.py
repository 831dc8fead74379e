"""The search tools explain themselves on request, and only `--profile all` says so."""

import json
from pathlib import Path

import pytest

from eras import Call
from search.test_exact import open_store
from vector_memory.answers.budget import BYTES_PER_TOKEN, size
from vector_memory.domain import Page, Scope
from vector_memory.server.tools import offered
from vector_memory.server.tools.searching import NO_ROOM, traced
from vector_memory.settings import Profile, Toolset

pytestmark = pytest.mark.anyio


def test_only_the_profile_all_names_the_parameter() -> None:
    named = {
        profile: {
            tool.name for tool in offered(list(Toolset), profile=profile) if "explain" in tool.parameters["properties"]
        }
        for profile in Profile
    }
    assert named[Profile.FULL] == named[Profile.CORE] == set()
    searches = {tool.name for tool in offered(list(Toolset)) if "search" in tool.name}
    assert named[Profile.ALL] == searches - {"search_changes"}


async def test_an_answer_has_a_trace_on_request_in_every_profile(call: Call) -> None:
    stored = (await call("store_report", session_id="s", content="a b c")).structured_content or {}
    await call("store_system_memory", session_id="s", content="a b c")
    for tool in ("search_reports_specific_chunks", "search_reports_section_context", "search_reports_full_documents"):
        plain = (await call(tool, query="a b")).structured_content or {}
        assert "trace" not in plain
        told = (await call(tool, query="a b", explain="all")).structured_content or {}
        assert [one["memory_id"] for one in told["trace"]["candidates"]] == [stored["memory_id"]]
        assert [one["score"] for one in told["results"]] == [one["score"] for one in plain["results"]]
    why = (await call("search_system_memory", query="a b", explain=stored["memory_id"])).structured_content or {}
    assert why["trace"]["memory"]["why"] == "It is outside the filters: memory_type."


async def test_prompts_and_session_states_are_explained_with_a_query_and_without(call: Call) -> None:
    for kind, search in (("input_prompt", "search_input_prompts"), ("session_context", "search_session_context")):
        stored = (await call(f"store_{kind}", session_id="s", content="a b c")).structured_content or {}
        told = (await call(search, session_id="s", query="a b", explain="all")).structured_content or {}
        assert [one["memory_id"] for one in told["trace"]["candidates"]] == [stored["memory_id"]]
        listed = (await call(search, session_id="other", explain=stored["memory_id"])).structured_content or {}
        assert listed["trace"]["memory"]["why"] == "It is outside the filters: session_id."


async def test_a_trace_takes_no_result_from_the_pages(call: Call) -> None:
    """However small the answer may be: what does not fit beside the trace comes on the next page."""
    for number in range(12):
        await call("store_report", session_id="s", content=f"a b c {number} {'word ' * number}")
    for tokens in (600, 1_000, 2_000):
        found: list[int] = []
        offset: int | None = 0
        while offset is not None:
            answer = await call(
                "search_reports_specific_chunks", query="a b", explain="all", max_tokens=tokens, limit=5, offset=offset
            )
            told = answer.structured_content or {}
            assert len(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()) <= tokens * 3
            assert told["trace"]["candidates"]
            found += [one["memory_id"] for one in told["results"]]
            assert (told.get("next_offset") or 99) > offset
            offset = told.get("next_offset")
        assert sorted(found) == list(range(1, 13))
    told = (await call("search_reports_specific_chunks", query="a", explain="all", max_tokens=200)).structured_content
    assert "trace" not in (told or {})
    assert "The trace did not fit: send a larger max_tokens." in (told or {})["message"]


def test_a_note_on_a_missing_trace_makes_no_answer_too_long(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store:
        scope, page, limit = Scope("input_prompt"), Page(max_tokens=200), 200 * BYTES_PER_TOKEN
        answer = store.search_memories("a", scope, page)
        room = limit - size(answer)
        for padding, has_note in ((room // 2, True), (room - 10, False)):
            padded = answer.model_copy(update={"message": (answer.message or "") + "." * padding})
            told = traced(store, lambda _, padded=padded: padded, "a", scope, page, "all")
            assert size(told) <= limit
            assert (NO_ROOM in (told.message or "")) == has_note


async def test_a_list_of_the_newest_says_that_nothing_was_compared(call: Call) -> None:
    stored = (await call("store_report", session_id="s", content="a b c")).structured_content or {}
    for query in ({}, {"query": "a b", "order": "recent"}):
        said = await call("search_reports_full_documents", **query, explain=stored["memory_id"], created_before="2020")
        trace = (said.structured_content or {})["trace"]
        assert trace["compared"] == "nothing: they are listed by time"
        assert trace["memory"]["why"] == "It is outside the filters: created_before."
    said = await call("search_reports_full_documents", explain=99)
    assert (said.structured_content or {})["trace"]["memory"]["why"].startswith("There is no such memory")


@pytest.mark.parametrize("wrong", ["", "ALL", "1.5", -1])
async def test_what_is_no_id_is_refused_by_the_name_of_the_parameter(call: Call, wrong: str | int) -> None:
    refused = (await call("search_system_memory", query="a", explain=wrong)).structured_content or {}
    assert refused["message"] == 'explain must be "all" or the id of a memory, for example 42.'
