"""Every tool that searches or lists takes a time."""

import pytest

from eras import Call
from tool_calls import good_arguments
from vector_memory.server.tools import offered
from vector_memory.settings import Toolset

pytestmark = pytest.mark.anyio


def test_every_search_and_listing_takes_a_time() -> None:
    tools = {tool.name: tool.parameters["properties"] for tool in offered((Toolset.SESSION, Toolset.TAGGED))}
    assert {name for name, given in tools.items() if {"created_after", "created_before"} <= given.keys()} == {
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


async def test_a_year_may_come_as_a_number_in_every_tool_that_takes_a_time(call: Call) -> None:
    stored = (await call("store_report", session_id="s", content="a b")).structured_content or {}
    year = int(stored["created_at"][:4])
    for tool in offered((Toolset.SESSION,)):
        if "created_after" in tool.parameters["properties"]:
            timed = good_arguments(tool) | {"created_after": year, "created_before": year}
            assert not (await call(tool.name, **timed)).is_error, tool.name
    found = []
    for number in (1970, year, year + 1, 9999):
        answer = await call("search_reports_specific_chunks", query="a b", created_after=number)
        found.append(len((answer.structured_content or {})["results"]))
    assert found == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (1969, "created_after must be a string."),
        (True, "created_after must be a string."),
        (2026.5, "created_after must be a string."),
        (10_000, "created_after must be a date or time, such as 2026-10-05"),
        (1_790_000_000, "created_after must be a date or time, such as 2026-10-05"),
    ],
)
async def test_any_other_number_is_refused(call: Call, number: float, told: str) -> None:
    refused = (await call("list_sessions", created_after=number)).structured_content or {}
    assert refused["message"].startswith(told)


async def test_a_list_of_no_sessions_names_the_filters(call: Call) -> None:
    assert (await call("list_sessions")).structured_content["message"] == "No sessions are stored yet."  # type: ignore[index]
    await call("store_report", session_id="s", content="a b")
    none = (await call("list_sessions", created_before="2020")).structured_content or {}
    assert none["message"] == "No sessions match these filters (created_before)."
