"""A correction of a report is named wherever the report is returned."""

from typing import Any

import pytest

from eras import Call
from vector_memory.answers.mapping import with_notes
from vector_memory.answers.models import FoundChunk, ObservationNote
from vector_memory.search import judge
from vector_memory.search.judge import weighed
from vector_memory.search.question import Question
from vector_memory.search.rank import Hit, SearchHits
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.anyio

CORRECTION = "The pool has 20 connections, not 10. " + "It was measured again. " * 20

RETURNING: dict[str, dict[str, Any]] = {
    "search_reports_specific_chunks": {"query": "pool"},
    "search_reports_section_context": {"query": "pool"},
    "search_reports_full_documents": {},
    "expand_chunk_context": {"chunk_id": 1},
    "reconstruct_document": {"memory_id": 1},
    "get_memory_by_id": {"memory_id": 1},
    "load_session_context_for_task": {"session_id": "s", "session_iter": 1},
    "search_changes": {"session_id": "s"},
}


@pytest.fixture
def corrected(store: SessionMemoryStore) -> SessionMemoryStore:
    """Report 1 with a correction, and report 3 without any."""
    store.store_memory("report", "# Pool\n\nThe pool has 10 connections.", session_id="s", agent_id="a")
    store.store_memory("report_observation", CORRECTION, session_id="t", agent_id="b", parent_report_id=1)
    store.store_memory("report", "# Cache\n\nThe cache has 5 entries.", session_id="u", agent_id="a")
    store.store_memory("report_observation", "About nothing.", session_id="s", agent_id="b")
    return store


@pytest.mark.usefixtures("corrected")
@pytest.mark.parametrize(("tool", "arguments"), RETURNING.items(), ids=RETURNING)
@pytest.mark.parametrize("era", ["2026-07-28"])
async def test_a_correction_is_named_with_its_report(call: Call, tool: str, arguments: dict[str, Any]) -> None:
    answer = (await call(tool, **arguments)).structured_content
    inside = next((result for result in answer.get("results", ()) if "observations" in result), answer)
    assert ("observations" in answer) == (inside is answer)
    (named,) = inside["observations"]
    assert (named["id"], named["report_id"], named["agent_id"]) == (2, 1, "b")
    assert CORRECTION.startswith(named["beginning"])
    assert "not 10" in named["beginning"]
    assert len(named["beginning"]) < len(CORRECTION)


@pytest.mark.usefixtures("corrected")
async def test_a_report_that_nobody_corrected_has_no_such_key(call: Call) -> None:
    for tool, arguments in (
        ("get_memory_by_id", {"memory_id": 3}),
        ("search_reports_full_documents", {"session_id": "u"}),
        ("search_working_memory_full_documents", {}),
    ):
        assert "observations" not in (await call(tool, **arguments)).structured_content


@pytest.mark.parametrize("era", ["2026-07-28"])
async def test_an_observation_stands_in_a_strong_result_only(
    call: Call, corrected: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One on a report that hardly matches would say something that nobody asked for."""

    def levels(found: SearchHits, question: Question) -> list[Hit]:
        return [hit._replace(match="strong" if hit.memory_id == 3 else "related") for hit in weighed(found, question)]

    corrected.store_memory("report_observation", "Now 6 entries.", session_id="t", parent_report_id=3, corrects=True)
    monkeypatch.setattr(judge, "weighed", levels)
    for grain in ("specific_chunks", "section_context", "full_documents"):
        answer = (await call(f"search_reports_{grain}", query="how many connections or entries")).structured_content
        named = {result.get("memory_id", result.get("id")): result.get("observations") for result in answer["results"]}
        assert "observations" not in answer
        assert (named[1], [one["report_id"] for one in named[3]]) == (None, [3])


def test_of_the_parts_of_a_report_the_strong_ones_have_its_observations() -> None:
    parts = [FoundChunk.model_construct(memory_id=3, match=level) for level in ("strong", "related", "weak", None)]
    noted = with_notes(parts, [ObservationNote.model_construct(report_id=3)])
    assert [bool(part.observations) for part in noted] == [True, False, False, True]


@pytest.mark.usefixtures("corrected")
async def test_an_observation_in_a_list_names_its_report(call: Call) -> None:
    (change,) = (await call("search_changes", session_id="t")).structured_content["results"]
    context = (await call("load_session_context_for_task", session_id="t", session_iter=1)).structured_content
    assert change["report_id"] == context["recent_observations"][0]["report_id"] == 1


def test_of_many_corrections_the_last_are_named(store: SessionMemoryStore) -> None:
    store.store_memory("report", "text", session_id="s")
    for number in range(25):
        store.store_memory("report_observation", f"Note {number}.", session_id="s", parent_report_id=1)
    named = store.get_memory_by_id(1).observations
    assert [one.beginning for one in named] == [f"Note {number}." for number in range(5, 25)]


def test_a_receipt_says_what_an_observation_corrects(store: SessionMemoryStore) -> None:
    store.store_memory("report", "The pool has 10 connections.", session_id="s")
    for corrects in (True, False):
        receipt = store.store_memory(
            "report_observation", f"About the pool: {corrects}.", parent_report_id=1, corrects=corrects, session_id="s"
        )
        assert ("It corrects report 1." in (receipt.message or "")) == corrects
