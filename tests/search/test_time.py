"""Searches of a time: what bounds mean, what is said of other times, and that the query's date is not searched for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from search.test_exact import open_store
from vector_memory.domain import Scope
from vector_memory.errors import ValidationError
from vector_memory.search.question import without_dates
from vector_memory.store import SessionMemoryStore

MOMENTS = st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds"))


@pytest.mark.parametrize(
    ("given", "first", "last"),
    [
        ("2024", "2024-01-01T00:00:00.000000", "2024-12-31T23:59:59.999999"),
        ("2024-02", "2024-02-01T00:00:00.000000", "2024-02-29T23:59:59.999999"),
        ("2026-10-05", "2026-10-05T00:00:00.000000", "2026-10-05T23:59:59.999999"),
        ("2026-10-05 14", "2026-10-05T14:00:00.000000", "2026-10-05T14:59:59.999999"),
        ("2026-10-05T14:30Z", "2026-10-05T14:30:00.000000", "2026-10-05T14:30:59.999999"),
        ("2026-10-05T14:30:15+02:00", "2026-10-05T12:30:15.000000", "2026-10-05T12:30:15.999999"),
        ("2026-10-05T14:30:15+0200", "2026-10-05T12:30:15.000000", "2026-10-05T12:30:15.999999"),
        ("2026-10-05T14:30-05", "2026-10-05T19:30:00.000000", "2026-10-05T19:30:59.999999"),
        ("2026-10-05t14:30:15.25z", "2026-10-05T14:30:15.250000", "2026-10-05T14:30:15.259999"),
        ("9999", "9999-01-01T00:00:00.000000", "9999-12-31T23:59:59.999999"),
    ],
)
def test_a_bound_stands_for_its_whole_year_month_day_or_second(given: str, first: str, last: str) -> None:
    scope = Scope(created_after=given, created_before=given)
    assert (scope.created_after, scope.created_before) == (f"{first}+00:00", f"{last}+00:00")


@given(moment=MOMENTS, digits=st.sampled_from([4, 7, 10, 13, 16, 19, 26]))
@example(moment="2024-02-29T00:00:00.000000", digits=7)
def test_a_moment_is_within_every_period_that_its_beginning_names(moment: str, digits: int) -> None:
    scope = Scope(created_after=moment[:digits], created_before=moment[:digits])
    assert scope.created_after is not None
    assert scope.created_before is not None
    assert scope.created_after <= f"{moment}+00:00" <= scope.created_before
    assert scope == Scope(created_after=scope.created_after, created_before=scope.created_before)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "yesterday",
        "2026-13",
        "2026-02-30",
        "0000",
        "26-10",
        "2026-10-05T25:00",
        "2026-W40",
        2026,
        "2023-02-29",
        "2026-06-30T23:59:60Z",
        "2026-10-05T14:30+25:00",
        "2026-10-05T14:30+02:75",
        "9999-12-31T23:59-14:00",
        "0001-01-01T00:00+14:00",
    ],
)
def test_what_is_no_date_or_time_is_refused_with_examples(wrong: Any) -> None:
    for name in ("created_after", "created_before"):
        with pytest.raises(ValidationError, match=f"{name} must be a date or time, such as 2026-10-05, 2026-10"):
            Scope(**{name: wrong})


def test_a_window_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValidationError, match="created_after is later than created_before"):
        Scope(created_after="2026-11", created_before="2026-10")


def fill(store: SessionMemoryStore) -> None:
    for month in (8, 9, 10, 11):
        facts = {"session_id": f"s{month}", "agent_id": "a", "created_at": f"2026-{month:02}-15T12:00:00+00:00"}
        store.store_memory("report", f"a b report of month {month}", **facts)
        store.store_memory("system_memory", f"a b command of month {month}", **facts)


@pytest.fixture
def dated(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    """A report and a command of four months."""
    with open_store(tmp_path / "memory.db") as store:
        fill(store)
        yield store


def test_every_search_and_listing_keeps_to_its_time(dated: SessionMemoryStore) -> None:
    reports = Scope("report", created_after="2026-09", created_before="2026-10")
    commands = Scope("system_memory", created_after="2026-09", created_before="2026-10")
    for mode in ("hybrid", "vector", "keyword"):
        found = [
            dated.search_chunks("a b", reports, mode=mode).results,
            dated.search_sections("a b", reports, mode=mode).results,
            dated.search_documents("a b", reports, mode=mode).results,
            dated.search_memories("a b", commands, mode=mode).results,
        ]
        for results in found:
            assert sorted(one.created_at[5:7] for one in results) == ["09", "10"]  # type: ignore[index]
    assert [one.created_at[5:7] for one in dated.search_documents(None, reports).results] == ["10", "09"]
    assert [one.created_at[5:7] for one in dated.search_scoped(commands).results] == ["10", "09"]
    sessions = dated.list_sessions(created_after="2026-09", created_before="2026-10")
    assert [one.session_id for one in sessions.sessions] == ["s10", "s9"]
    assert dated.get_timeline(reports).total_memories == 2
    assert dated.search_changes(Scope(session_id="s10", created_after="2026-11")).total_new == 0
    assert dated.search_changes(Scope(session_id="s10", created_before="2026-10"), query="a b").total_new == 2


def test_an_answer_says_that_there_are_matches_from_other_times(dated: SessionMemoryStore) -> None:
    answer = dated.search_chunks("a b report of month 8", Scope("report", created_after="2027"))
    assert answer.results == []
    assert answer.elsewhere["other_times"] >= 1
    assert "omit created_after and created_before" in (answer.message or "")


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


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    """Report 1 is about a day, 2 was stored on it, and 3 and 4 have nothing to do with it."""
    with SessionMemoryStore(tmp_path_factory.mktemp("days") / "memory.db") as store:
        for text, stored in (
            ("# Outage\n\nOn March 14, 2026 the queue was down from 02:30 on.", "2026-03-20T10:00:00Z"),
            ("Deployed the cart service to all zones.", "2026-03-14T23:00:00Z"),
            ("Wrote the parser of invoices.", "2026-05-14T00:00:00Z"),
            ("Backups run at 2:30 and at 12:30.", "2026-03-15T00:00:00Z"),
        ):
            store.store_memory("report", text, session_id="s", created_at=stored, task_code="T-201")
        yield store


@pytest.mark.parametrize("grain", ["search_chunks", "search_sections", "search_documents"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What happened on 2026-03-14?", [1, 2]),
        ("14 March 2026", [1, 2]),
        ("20260314", [1, 2]),
        ("2026-05-14", [3]),
        ("2026-02-29", []),
        ("What happened on 2026-03-13?", []),
    ],
)
def test_a_question_that_is_only_a_day_finds_what_names_it_and_what_was_stored_on_it(
    days: SessionMemoryStore, grain: str, query: str, expected: list[int]
) -> None:
    results = getattr(days, grain)(query, Scope("report")).results
    assert [result.memory_id for result in results] == expected
    assert {result.match for result in results} <= {"strong"}


@pytest.mark.parametrize("query", ["02:30", "What happened at 2:30?"])
def test_a_question_that_is_only_a_time_finds_what_names_it(days: SessionMemoryStore, query: str) -> None:
    answer = days.search_chunks(query, Scope("report"))
    assert ({result.memory_id for result in answer.results}, answer.confidence) == ({1, 4}, "strong")


def test_the_code_of_a_task_names_the_task_and_how_to_filter_by_it(days: SessionMemoryStore) -> None:
    said = days.search_chunks("What is the state of T-201?", Scope("report")).message
    assert 'The task T-201 has 4 of these reports: add task_code="T-201" for only these.' in said
    assert (
        "The task" not in days.search_chunks("What is the state of T-201?", Scope("report", task_code="T-201")).message
    )
    assert "The task" not in days.search_chunks("What is the state of T-205?", Scope("report")).message
