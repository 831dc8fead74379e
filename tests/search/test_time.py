"""Searches of a time: what the bounds mean, that every tool takes them, and what an answer says of other times."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from search.test_exact import open_store
from vector_memory.domain import Scope
from vector_memory.errors import ValidationError
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
