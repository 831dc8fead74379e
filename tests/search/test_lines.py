"""One line for each memory."""

from functools import partial

import numpy as np
import pytest

from paging import pages
from vector_memory.domain import Page, Scope
from vector_memory.embedding.description import Calibration
from vector_memory.errors import ValidationError
from vector_memory.storage.records import NO_LINKS
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.links import SERIES, Subject, evidence, links, subject_of

REPORTS = Scope("report")


@pytest.fixture
def seventy(store: SessionMemoryStore) -> SessionMemoryStore:
    for number in range(70):
        text = f"# Finding {number}\n\n" + f"Pump {number} ran dry during the night shift. " * 20
        store.store_memory("report", text, session_id="s", agent_id="engineer", title=f"Finding {number}")
    return store


def test_seventy_memories_are_seventy_lines_of_at_most_120_characters(seventy: SessionMemoryStore) -> None:
    for query in (None, "a pump", ["a pump", "night shift"]):
        answer = seventy.search_documents(query, REPORTS, Page(limit=70, detail="lines"))
        assert len(answer.lines) == answer.total_results == 70, query
        assert not answer.results, query
        assert max(map(len, answer.lines)) <= 120, query
        assert len(answer.model_dump_json()) < 9_500, query


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


def test_pages_of_lines_lead_to_each_other_however_small(seventy: SessionMemoryStore) -> None:
    read: list[str] = []
    small = partial(Page, limit=30, max_tokens=600, detail="lines")
    for answer in pages(lambda offset: seventy.search_scoped(REPORTS, small(offset=offset))):
        assert len(answer.model_dump_json().encode()) <= 1_800
        read += answer.lines
    assert read == seventy.search_scoped(REPORTS, Page(limit=70, detail="lines")).lines


def test_any_other_detail_is_refused() -> None:
    with pytest.raises(ValidationError, match='detail must be "lines"'):
        Page(detail="words")


RULE = Calibration(strong=0.5, same_subject=0.6, shared_words=0.4, change=0.1)
AXES = np.eye(4, dtype=np.float32)


def text(*passages: str, at: int = 0) -> Subject:
    """Return a text whose passages have the vectors of the axes from a place on."""
    return subject_of(passages, AXES[at : at + len(passages)])


def test_evidence_is_the_cosine_with_common_words_and_more_for_words_of_change() -> None:
    assert evidence(RULE, text("alpha beta"), text("gamma delta")) == 1.0
    assert evidence(RULE, text("alpha beta"), text("gamma delta", at=1)) == 0.0
    assert evidence(RULE, text("alpha beta gamma"), text("alpha delta", at=1)) == pytest.approx(0.2)
    assert evidence(RULE, text("alpha"), text("delta was moved", at=1)) == pytest.approx(0.1)
    assert evidence(RULE, text("alpha was moved"), text("delta", at=1)) == 0.0


def test_of_a_longer_text_what_is_nearest_to_the_shorter_one_counts() -> None:
    long, short = text("alpha", "beta", "gamma"), text("delta", at=2)
    assert evidence(RULE, long, short) == evidence(RULE, short, long) == 1.0
    assert evidence(RULE, long, text("epsilon", "zeta", at=2)) == 0.5


def test_a_memory_is_linked_with_the_best_and_those_hardly_behind_it_from_the_rules_evidence_on() -> None:
    assert links(RULE, {1: 0.59, 2: 0.3}, {1, 2}) == NO_LINKS
    assert links(RULE, {1: 0.8, 2: 0.71, 3: 0.65, 4: 0.2}, range(1, 5)).evidence == {1: 0.8, 2: 0.71}


def test_a_series_is_not_linked_but_for_what_stands_out() -> None:
    series = {number: 0.6 + number / 1_000 for number in range(SERIES)}
    assert links(RULE, series, series) == ({}, [*series], 0.85)
    assert links(RULE, series | {99: 0.9}, [*series, 99]).evidence == {99: 0.9}
    assert links(RULE, dict.fromkeys(range(2 * SERIES), 0.6), {1}).evidence == dict.fromkeys(range(2 * SERIES), 0.6)


def test_a_model_without_the_figure_links_nothing() -> None:
    assert links(Calibration(strong=0.5), {1: 1.0}, {1}) == NO_LINKS
