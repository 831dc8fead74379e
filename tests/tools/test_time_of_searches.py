"""Every tool that searches or lists takes a time."""

import pytest

from eras import Call
from vector_memory.server.tools import offered
from vector_memory.settings import Toolset

pytestmark = pytest.mark.anyio


def test_every_search_and_listing_takes_a_time() -> None:
    tools = {tool.name: tool.parameters["properties"] for tool in offered((Toolset.SESSION, Toolset.TAGGED))}
    timed = {name for name, given in tools.items() if {"created_after", "created_before"} <= given.keys()}
    assert timed == {
        name for name in tools if name.startswith("search_") or name in ("list_sessions", "list_recent_memories")
    }


async def test_a_search_of_a_day_finds_what_was_stored_on_it_and_nothing_else(call: Call) -> None:
    stored = (await call("store_report", session_id="s", content="a b")).structured_content or {}
    today = stored["created_at"][:10]
    found = await call("search_reports_specific_chunks", query="a b", created_after=today, created_before=today)
    assert len((found.structured_content or {})["results"]) == 1
    earlier = await call("search_reports_specific_chunks", query="a b", created_before="2020")
    assert (earlier.structured_content or {})["results"] == []


async def test_a_time_in_words_is_refused_with_an_example(call: Call) -> None:
    refused = (await call("list_sessions", created_after="last week")).structured_content or {}
    assert refused["success"] is False
    assert "created_after must be a date or time, such as 2026-10-05" in refused["message"]


async def test_a_list_of_no_sessions_names_the_filters(call: Call) -> None:
    assert (await call("list_sessions")).structured_content["message"] == "No sessions are stored yet."  # type: ignore[index]
    await call("store_report", session_id="s", content="a b")
    none = (await call("list_sessions", created_before="2020")).structured_content or {}
    assert none["message"] == "No sessions match these filters (created_before)."
