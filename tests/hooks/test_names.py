"""Names that a caller may leave out."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from hook_texts import PROMPT, REPORT
from hooks.conftest import OWN
from vector_memory.server.conversation import Conversation

pytestmark = pytest.mark.anyio

STORES = [
    ("store_report", {}),
    ("store_working_memory", {}),
    ("store_system_memory", {}),
    ("store_report_observation", {}),
    ("store_session_context", {}),
    ("store_input_prompt", {}),
    ("store_knowledge_base", {"title": "Locks"}),
]


@pytest.mark.parametrize(("tool", "others"), STORES, ids=[tool for tool, _ in STORES])
async def test_a_text_alone_is_enough(talk: Any, tool: str, others: dict[str, str]) -> None:
    stored = await talk.call(tool, content=REPORT, **others)
    is_of_main_agent = tool in {"store_session_context", "store_input_prompt"}
    assert stored["agent_id"] == ("main-orchestrator" if is_of_main_agent else "fastmcp")
    day = datetime.fromisoformat(stored["created_at"]).astimezone().date()
    assert stored["session_id"] == (None if tool == "store_knowledge_base" else f"shop-{day}")


async def test_the_session_that_a_hook_named_is_the_default(talk: Any) -> None:
    await talk.prompt("one", PROMPT)
    assert (await talk.call("store_report", content=REPORT))["session_id"] == "one"
    await talk.prompt("two", PROMPT)
    assert (await talk.call("store_report", content=REPORT))["session_id"] == "two"
    assert (await talk.call("store_report", content=REPORT, session_id="mine"))["session_id"] == "mine"


async def test_a_search_without_a_session_still_searches_all(talk: Any) -> None:
    await talk.call("store_report", content=REPORT, session_id="other", agent_id="a")
    await talk.prompt("one", PROMPT)
    assert (await talk.call("search_reports_specific_chunks", query="migration lock"))["results"]


async def test_last_is_the_session_before_this_one(talk: Any) -> None:
    await talk.call("store_report", content=REPORT, session_id="one", agent_id="a", session_iter=3)
    await talk.prompt("two", PROMPT)
    assert (await talk.call("get_session_stats", session_id="last"))["session_id"] == "one"
    found = await talk.call("search_reports_full_documents", session_id="last")
    assert [one["session_id"] for one in found["results"]] == ["one"]
    assert [
        one["id"] for one in (await talk.call("load_session_context_for_task", session_id="last"))["recent_reports"]
    ]
    assert (await talk.call("store_working_memory", content=REPORT, session_id="last"))["session_id"] == "one"


async def test_last_is_the_session_before_this_one_also_without_hooks(talk: Any) -> None:
    async def last() -> str:
        return (await talk.call("get_session_stats", session_id="last"))["session_id"]

    talk.store.store_memory("session_context", "The plan.", session_id="shop-2026-01-01")
    assert await last() == "shop-2026-01-01"
    today = (await talk.call("store_report", content=REPORT))["session_id"]
    assert await last() == "shop-2026-01-01"
    for session, before in (("mine", today), ("another", "mine")):
        await talk.call("store_report", content=REPORT, session_id=session)
        assert await last() == before
    assert (await talk.call("store_report", content="x", session_id="last"))["session_id"] == "mine"
    await talk.call("store_report", content="", session_id="refused")
    assert await last() == "mine"


@pytest.mark.parametrize(("zone", "day"), [("America/Los_Angeles", 22), ("UTC", 23), ("Asia/Tokyo", 23)])
def test_the_session_of_a_day_is_that_of_the_local_day_on_which_the_conversation_began(
    monkeypatch: pytest.MonkeyPatch, zone: str, day: int
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        time.tzset()
        began = Conversation(OWN, may_store=True, is_over_http=False, started="2026-11-23T02:00:00.000000+00:00")
        assert began.session() == f"shop-2026-11-{day}"
    time.tzset()


async def test_the_first_session_has_none_before_it(talk: Any) -> None:
    await talk.prompt("one", PROMPT)
    assert (await talk.call("search_changes", session_id="last"))["results"] == []
    assert (await talk.call("store_report", content=REPORT, session_id="last"))["session_id"] == "one"


async def test_a_session_that_is_called_last_is_found(talk: Any) -> None:
    talk.store.store_memory("report", REPORT, agent_id="a", session_id="last")
    talk.store.store_memory("report", f"{REPORT} And more.", agent_id="a", session_id="later")
    assert (await talk.call("get_session_stats", session_id="last"))["session_id"] == "last"
    assert (await talk.call("store_report", content="x", session_id="last"))["session_id"] == "last"


async def test_a_context_without_an_iteration_is_the_latest_ones(talking: Callable[..., Any]) -> None:
    async with talking() as talk:
        for number, state in ((1, "The plan."), (2, "The work.")):
            await talk.call("store_session_context", content=state, session_id="s", session_iter=number)
        found = await talk.call("load_session_context_for_task", session_id="s")
        assert found["session_context"]["content"] == "The work."


@pytest.mark.parametrize(
    ("store", "search"),
    [("store_input_prompt", "search_input_prompts"), ("store_session_context", "search_session_context")],
)
async def test_prompts_and_states_of_the_last_session_are_found_by_a_query(talk: Any, store: str, search: str) -> None:
    """Without one they are listed, the newest first."""
    for content in (PROMPT, "Write down the release notes."):
        await talk.call(store, session_id="one", content=content)
    await talk.call(store, session_id="zero", content="The orders table, elsewhere.")
    await talk.prompt("one", "Thank you.")
    await talk.prompt("two", "Go on.")
    found = await talk.call(search, session_id="last", query="orders table")
    assert found["query"] == "orders table"
    assert found["results"][0]["content"] == PROMPT
    assert {result["session_id"] for result in found["results"]} == {"one"}
    assert (await talk.call(search, session_id="last"))["results"][-1]["content"] == PROMPT
