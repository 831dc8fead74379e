"""One line for each memory."""

from functools import partial

import pytest

from paging import pages
from vector_memory.domain import Page, Scope
from vector_memory.errors import ValidationError
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report")


@pytest.fixture
def store(store: SessionMemoryStore) -> SessionMemoryStore:
    for number in range(70):
        text = f"# Finding {number}\n\n" + f"Pump {number} ran dry during the night shift. " * 20
        store.store_memory("report", text, session_id="s", agent_id="engineer", title=f"Finding {number}")
    return store


@pytest.mark.parametrize("query", [None, "a pump", ["a pump", "night shift"]])
def test_seventy_memories_are_seventy_lines_of_at_most_120_characters(
    store: SessionMemoryStore, query: str | list[str] | None
) -> None:
    answer = store.search_documents(query, REPORTS, Page(limit=70, detail="lines"))
    assert len(answer.lines) == answer.total_results == 70
    assert not answer.results
    assert max(map(len, answer.lines)) <= 120
    assert len(answer.model_dump_json()) < 9_500


def test_a_line_says_which_memory_it_is_and_how_it_begins(store: SessionMemoryStore) -> None:
    stored = store.store_memory(
        "report", "The valve\nleaks.", session_id="s", agent_id="a", title="Valve", created_at="2026-01-02T00:00:00Z"
    )
    lines = store.search_documents("valve leaks", REPORTS, Page(limit=70, detail="lines")).lines
    assert f"{stored.memory_id} 2026-01-02 a: Valve: The valve leaks." in lines


def test_a_line_names_the_corrections_of_what_it_says(store: SessionMemoryStore) -> None:
    report = store.store_memory("report", "Deploys go out on Monday.", session_id="s", agent_id="a")
    correction = store.store_memory(
        "report_observation",
        "Deploys moved to Friday.",
        session_id="s",
        agent_id="b",
        parent_report_id=report.memory_id,
        corrects=True,
    )
    by_a = Scope("report", agent_id="a")
    (line,) = store.search_documents("deploys go out on Monday", by_a, Page(limit=5, detail="lines")).lines
    assert line.endswith(f"Deploys go out on Monday. [corrected: {correction.memory_id}]")


def test_pages_of_lines_lead_to_each_other_however_small(store: SessionMemoryStore) -> None:
    read: list[str] = []
    small = partial(Page, limit=30, max_tokens=600, detail="lines")
    for answer in pages(lambda offset: store.search_scoped(REPORTS, small(offset=offset))):
        assert len(answer.model_dump_json().encode()) <= 1_800
        read += answer.lines
    assert read == store.search_scoped(REPORTS, Page(limit=70, detail="lines")).lines


def test_any_other_detail_is_refused() -> None:
    with pytest.raises(ValidationError, match='detail must be "lines"'):
        Page(detail="words")
