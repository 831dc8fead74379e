"""The date of a query that is limited to that time is not searched for."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.test_exact import open_store
from vector_memory.domain import Scope
from vector_memory.search.dates import without_dates

OCTOBER = Scope(created_after="2026-10", created_before="2026-10")


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("What did we decide on October 13, 2026?", "What did we decide ?"),
        ("What did we decide on the 13th of October?", "What did we decide ?"),
        ("decisions in October 2026 about caches", "decisions about caches"),
        ("the outage of 2026-10-05", "the outage"),
        ("releases during 2026", "releases"),
        ("October plans", "plans"),
    ],
)
def test_a_date_in_the_window_is_left_out_with_the_words_before_it(query: str, left: str) -> None:
    assert without_dates(query, OCTOBER) == left


@pytest.mark.parametrize(
    "query",
    [
        "the incident of 2019", "what changed since November", "May I merge this?", "version 2026.1", "issue 1013",
        "#2026", "model-2026",
        "on 45 October 2026 nothing", "October 2026", "2026-10-05",
    ],
)  # fmt: skip
def test_other_dates_and_numbers_and_a_query_of_nothing_else_stay(query: str) -> None:
    assert "45" in without_dates(query, OCTOBER) or without_dates(query, OCTOBER) == query


@given(query=st.text(max_size=80))
def test_without_a_window_every_query_stays_as_it_is(query: str) -> None:
    assert without_dates(query, Scope("report")) == query


@given(query=st.text(st.sampled_from("ab12 ,-October20th"), max_size=60))
def test_any_query_can_be_read_and_something_is_left_of_it(query: str) -> None:
    left = without_dates(query, OCTOBER)
    assert bool(left.strip()) == bool(query.strip())


def test_in_a_window_its_date_does_not_change_the_score(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store:
        for day in (4, 5):
            store.store_memory("report", f"a b {day}", session_id="s", created_at=f"2026-10-0{day}T12:00:00+00:00")
        store.store_memory("report", "October 2026", session_id="s", created_at="2026-10-06T12:00:00+00:00")
        scope = Scope("report", created_after="2026-10", created_before="2026-10")
        plain, dated = (store.search_chunks(query, scope) for query in ("a b", "a b in October 2026"))
        assert [(hit.chunk_id, hit.score) for hit in plain.results] == [
            (hit.chunk_id, hit.score) for hit in dated.results
        ]
