"""The search tools explain themselves on request, and only `--profile all` says so."""

import pytest

from eras import Call
from vector_memory.server.tools import offered
from vector_memory.settings import Profile, Toolset

pytestmark = pytest.mark.anyio


def test_only_the_profile_all_names_the_parameter() -> None:
    named = {
        profile: {
            tool.name
            for tool in offered([Toolset.SESSION], profile=profile)
            if "explain" in tool.parameters["properties"]
        }
        for profile in Profile
    }
    assert named[Profile.FULL] == named[Profile.CORE] == set()
    searches = {tool.name for tool in offered([Toolset.SESSION]) if tool.name.startswith("search_")}
    assert named[Profile.ALL] == searches - {"search_changes", "search_session_context", "search_input_prompts"}


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
