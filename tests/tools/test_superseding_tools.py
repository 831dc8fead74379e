"""What an agent sends to replace a memory, and what it is told."""

from contextlib import nullcontext

import pytest
from fastmcp import Client, FastMCP

from eras import Call
from vector_memory.server.app import create_server
from vector_memory.settings import ServerOptions
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

SEARCH = "search_reports_specific_chunks"


@pytest.fixture
def server(store: SessionMemoryStore) -> FastMCP:
    """A server with the tools of both families."""
    return create_server(lambda: nullcontext(store), ServerOptions(toolsets="session,tagged"))


@pytest.mark.parametrize("ids", [[1], ["1"], "[1]", [1.0]], ids=repr)
async def test_ids_may_be_numbers_texts_or_json(call: Call, ids: object) -> None:
    await call("store_report", content="Exports are CSV.", session_id="s")
    stored = (
        await call("store_report", content="Exports are Parquet.", session_id="s", supersedes=ids)
    ).structured_content
    assert stored["message"].endswith("It supersedes 1.")
    found = (await call(SEARCH, query="exports")).structured_content
    assert ([one["memory_id"] for one in found["results"]], found["superseded"]) == ([2], 1)


@pytest.mark.parametrize(("ids", "said"), [([9], "There is no memory 9"), ("x", "list"), ([True], ""), (["a"], "")])
async def test_wrong_ids_are_refused_and_nothing_is_stored(call: Call, ids: object, said: str) -> None:
    for tool, place in (("store_report", {"session_id": "s"}), ("store_memory", {})):
        answer = (await call(tool, content="New.", supersedes=ids, **place)).structured_content
        assert answer["success"] is False
        assert said in answer["message"]
    assert (await call("list_sessions")).structured_content["total_sessions"] == 0


@pytest.mark.parametrize("as_of", ["any", 2030, "2030-01"])
async def test_every_tool_that_finds_or_lists_accepts_as_of(
    call: Call, store: SessionMemoryStore, as_of: object
) -> None:
    store.store_memory("report", "Exports are CSV.", session_id="s")
    assert len((await call(SEARCH, query="exports", as_of=as_of)).structured_content["results"]) == 1
    for tool, arguments in {
        "search_reports_section_context": {"query": "x"},
        "search_reports_full_documents": {},
        "search_session_context": {"session_id": "s"},
        "search_changes": {"session_id": "s"},
        "load_session_context_for_task": {"session_id": "s"},
        "list_sessions": {},
        "search_memories": {"query": "x"},
        "list_recent_memories": {},
    }.items():
        assert (await call(tool, **arguments, as_of=as_of)).structured_content["success"], tool
        refused = (await call(tool, **arguments, as_of="long ago")).structured_content
        assert 'as_of must be "any", or a date or time' in refused["message"], tool


async def test_a_lean_answer_counts_what_it_left_out_and_marks_what_was_superseded(
    store: SessionMemoryStore, era: str
) -> None:
    report = store.store_memory("report", "Exports are CSV.", session_id="s").memory_id
    store.store_memory("report_observation", "No.", session_id="s", parent_report_id=report, corrects=True)
    newer = store.store_memory("report", "Exports are Parquet.", session_id="s", supersedes=[report]).memory_id
    options = ServerOptions(answers="lean")
    async with Client(create_server(lambda: nullcontext(store), options), mode=era) as client:
        lean = (await client.call_tool(SEARCH, {"query": "exports"})).structured_content or {}
        assert (lean["superseded"], [one["memory_id"] for one in lean["results"]]) == (1, [newer])
        assert "left out" not in lean.get("message", "")
        lean = (await client.call_tool(SEARCH, {"query": "exports", "as_of": "any"})).structured_content or {}
        marks = {one["memory_id"]: one.get("superseded_by") for one in lean["results"]}
        assert marks == {report: [newer], newer: None}
        notes = {one["memory_id"]: one.get("observations") for one in lean["results"]}
        assert [note["corrects"] for note in notes[report]] == [True]


OLD = "The nightly export of invoices runs on the host gpu-7 at three in the morning."


async def stored(call: Call, *newer: str) -> None:
    await call("store_report", content=OLD, title="Export", session_id="s")
    for text in newer:
        await call("store_report", content=text, session_id="s", supersedes=[1])


@pytest.mark.parametrize("tool", [SEARCH, "search_reports_section_context", "search_reports_full_documents"])
async def test_an_answer_names_its_best_match_if_that_is_superseded_and_how_to_read_it(call: Call, tool: str) -> None:
    await stored(call, "Billing jobs moved to Kubernetes.")
    found = (await call(tool, query="On which host does the nightly export of invoices run?")).structured_content
    assert found["best_superseded"] == {"id": 1, "title": "Export", "superseded_by": [2]}
    assert "memory 1, is superseded by 2: get_memory_by_id reads them, as_of=" in found["message"]
    assert 1 not in [one.get("memory_id", one.get("id")) for one in found["results"]]


@pytest.mark.parametrize(
    ("newer", "more"),
    [
        ("The nightly export of invoices runs on the host gpu-9 at three in the morning. It is faster.", {}),
        ("Billing jobs moved to Kubernetes.", {"query": "Who feeds the office cat?"}),
        ("Billing jobs moved to Kubernetes.", {"as_of": "any"}),
        ("Billing jobs moved to Kubernetes.", {"agent_id": "another"}),
    ],
)
async def test_no_superseded_match_is_named_if_another_is_better_or_it_is_no_match_or_outside(
    call: Call, newer: str, more: dict[str, str]
) -> None:
    await stored(call, newer)
    query = "On which host gpu-9 does the nightly export of invoices run?"
    assert "best_superseded" not in (await call(SEARCH, **{"query": query, **more})).structured_content


async def test_of_several_questions_the_one_whose_best_match_is_superseded_is_told(call: Call) -> None:
    await stored(call, "Billing jobs moved to Kubernetes.")
    queries = ["Where do billing jobs run?", "On which host does the nightly export of invoices run?"]
    found = (await call(SEARCH, queries=queries)).structured_content
    assert found["best_superseded"]["id"] == 1
