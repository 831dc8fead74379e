"""The tool search_changes, as a client calls it."""

import pytest

from eras import Call

pytestmark = pytest.mark.anyio


async def test_an_agent_catches_up_with_the_cursor_of_its_last_answer(call: Call) -> None:
    await call("store_report", agent_id="researcher", session_id="s", content="Found out.")
    first = (await call("search_changes", session_id="s", own_agent_id="writer")).structured_content
    assert [found["agent_id"] for found in first["results"]] == ["researcher"]
    await call("store_working_memory", agent_id="writer", session_id="s", content="Writing.")
    await call("store_report_observation", agent_id="reviewer", session_id="s", content="It is so.")
    second = await call("search_changes", session_id="s", since=first["cursor"], own_agent_id="writer")
    assert [found["content"] for found in second.structured_content["results"]] == ["It is so."]
    assert (second.structured_content["has_more"], second.structured_content["error"]) == (False, None)


async def test_a_cursor_may_come_as_a_number(call: Call) -> None:
    await call("store_report", agent_id="a", session_id="s", content="x")
    cursor = (await call("search_changes", session_id="s")).structured_content["cursor"]
    assert (await call("search_changes", session_id="s", since=int(cursor))).structured_content["results"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"since": "17"}, "since is not a cursor of this memory"),
        ({"since": "last week"}, "since must be the cursor of an earlier answer"),
        ({"memory_type": "letter"}, "memory_type must be one of"),
        ({"limit": 0}, "limit must be"),
        ({"own_agent_id": " "}, "own_agent_id must not be empty"),
        ({"query": ""}, "query must not be empty"),
    ],
)
async def test_invalid_arguments_are_answered_with_what_to_send(
    call: Call, arguments: dict[str, object], said: str
) -> None:
    answer = await call("search_changes", session_id="s", **arguments)
    assert answer.is_error
    assert answer.structured_content["error"] == "ValidationError"
    assert said in answer.structured_content["message"]
