"""The date of a query that is limited to that time is not searched for."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.test_exact import open_store
from vector_memory.domain import Scope
from vector_memory.search.question import without_dates

OCTOBER = Scope(created_after="2026-10", created_before="2026-10")


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("What did we decide on October 13, 2026?", "What did we decide ?"),
        ("What did we decide on the 13th of October?", "What did we decide ?"),
        ("decisions in October 2026 about caches", "decisions about caches"),
        ("the outage of 2026-10-05", "the outage"),
        ("releases during 2026", "releases"),
        ("releases of 2026-10", "releases"),
        ("October plans", "plans"),
        ("the outage of Oct. 3, 2026", "the outage"),
        ("standups of October 3-5", "standups"),
        ("standups on 3rd to 5th October", "standups"),
    ],
)
def test_a_date_in_the_window_is_left_out_with_the_words_before_it(query: str, left: str) -> None:
    assert without_dates(query, OCTOBER) == left


@pytest.mark.parametrize(
    "query",
    [
        "the incident of 2019", "what changed since November", "May I merge this?", "version 2026.1", "issue 1013",
        "#2026", "model-2026",
        "on 45 October 2026 nothing", "October 2026", "2026-10-05", "2026-10-05T14:30 in the log", "port 2026 refused",
        "error 2026", "RFC 2026", "$2026 in all", "from 2026-10-01..2026-10-07", "built on 10/05/2026",
        "am 5. Oktober 2026", "le 5 octobre 2026", "October's plan", "October/November plans", "2026's plan",
        "October 45 plans", "PR 2026-10", "release 2026-10 notes", "API version 2026-10-05", "api-version=2026-10-05",
        "between October 3 and October 7", "from October 3 to October 7",
    ],
)  # fmt: skip
def test_other_dates_and_numbers_and_a_query_of_nothing_else_stay(query: str) -> None:
    assert "45" in without_dates(query, OCTOBER) or without_dates(query, OCTOBER) == query


@pytest.mark.parametrize("name", ["March", "April", "May", "June", "August"])
@pytest.mark.parametrize("query", ["{} Jones said so", "the cake of {}", "{}'s cake", "{} of the penguins"])
def test_a_month_that_may_be_a_word_or_a_name_stays(name: str, query: str) -> None:
    year = Scope(created_after="2026", created_before="2026")
    assert without_dates(query.format(name), year) == query.format(name)
    assert without_dates(f"the cake in {name}", year) == without_dates(f"the cake on {name} 5", year) == "the cake"


def test_a_month_without_a_year_may_be_in_the_year_after_the_window_begins() -> None:
    assert without_dates("plans for the trip in February", Scope(created_after="2026-11")) == "plans for the trip"
    assert without_dates("plans for the trip in November", Scope(created_before="2026-02")) == "plans for the trip"


@given(query=st.text(max_size=80))
def test_without_a_window_every_query_stays_as_it_is(query: str) -> None:
    assert without_dates(query, Scope("report")) == query


@given(query=st.text(st.sampled_from("ab12 ,-.'/OctoberMayin20th"), max_size=60))
def test_any_query_can_be_read_and_something_is_left_of_it(query: str) -> None:
    assert bool(without_dates(query, OCTOBER).strip()) == bool(query.strip())


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
