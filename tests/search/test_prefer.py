"""A search that prefers the latest puts it before the earlier ones on its subject, and changes nothing else."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paging import pages
from search.test_corrections import CORRECTION, FACT, IN_SESSION, OTHERS, QUESTION, store
from vector_memory.answers.forms import FORM, FULL
from vector_memory.domain import Page, Scope
from vector_memory.errors import ValidationError
from vector_memory.search.explain import ExplainRequest
from vector_memory.search.judge import latest_first
from vector_memory.search.rank import Hit
from vector_memory.server.lean import LeanForm
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

__all__ = ["store"]

UNRELATED = ("Who has to review a pull request?", "How are prices rounded?", "When is a refund booked?")
every_grain = pytest.mark.parametrize("grain", ["search_chunks", "search_sections", "search_documents"])


def latest(**page: int) -> Page:
    return Page(prefer="latest", **page)


def ids(results: Sequence[Any]) -> list[int]:
    return [result.memory_id for result in results]


@pytest.mark.parametrize("lean", [False, True], ids=["full", "lean"])
@pytest.mark.parametrize("questions", [QUESTION, [QUESTION, UNRELATED[0]]], ids=["one", "two"])
@every_grain
def test_the_latest_leads_and_the_earlier_one_that_names_it_follows(
    store: SessionMemoryStore, grain: str, questions: str | list[str], lean: bool
) -> None:
    token = FORM.set(LeanForm() if lean else FULL)
    results = getattr(store, grain)(questions, IN_SESSION, latest()).results
    FORM.reset(token)
    place = ids(results).index(16)
    first, second = results[place : place + 2]
    assert second.memory_id == 1
    assert isinstance(questions, list) or not place
    assert [one.id for one in second.later] == [16]
    assert first.match != "weak"


@every_grain
def test_the_latest_leads_also_if_nothing_names_it(tmp_path: Path, grain: str) -> None:
    with SessionMemoryStore(tmp_path / "memory.db") as store:
        for text in (FACT, *OTHERS, CORRECTION):
            store.store_memory("report", text, session_id="s")
    with SessionMemoryStore(tmp_path / "memory.db", Settings(later=False)) as store:
        assert ids(getattr(store, grain)(QUESTION, IN_SESSION, latest(limit=1)).results) == [16]
        both = ids(getattr(store, grain)([QUESTION, UNRELATED[0]], IN_SESSION, latest()).results)
        assert both.index(16) == both.index(1) - 1


@every_grain
def test_the_ranking_of_other_subjects_does_not_change(store: SessionMemoryStore, grain: str) -> None:
    search = getattr(store, grain)
    for question in UNRELATED:
        assert ids(search(question, IN_SESSION, latest()).results) == ids(search(question, IN_SESSION).results)
    plain, preferred = (ids(search(QUESTION, IN_SESSION, page).results) for page in (Page(), latest()))
    assert [one for one in plain if one not in (1, 16)] == [one for one in preferred if one not in (1, 16)]


@every_grain
def test_the_pages_of_the_latest_have_every_result_once(store: SessionMemoryStore, grain: str) -> None:
    answers = pages(lambda offset: getattr(store, grain)(QUESTION, IN_SESSION, latest(limit=3, offset=offset)))
    seen = [one.memory_id for answer in answers for one in answer.results]
    assert seen[:2] == [16, 1]
    assert len(seen) == len(set(seen))
    assert grain == "search_sections" or len(seen) == len(OTHERS) + 2


def test_a_trace_knows_which_place_the_latest_has(store: SessionMemoryStore) -> None:
    assert store.explaining.explain(QUESTION, IN_SESSION, ExplainRequest(latest(limit=1), "chunk", 16))["memory"][
        "found"
    ]


def test_recent_documents_and_an_unknown_preference(store: SessionMemoryStore) -> None:
    recent = store.search_documents(QUESTION, IN_SESSION, latest(), order="recent").results
    assert ids(recent) == ids(store.search_documents(QUESTION, IN_SESSION, order="recent").results)
    with pytest.raises(ValidationError, match='prefer must be "latest"'):
        store.search_chunks(QUESTION, Scope("report"), Page(prefer="newest"))


def hits(levels: str) -> list[Hit]:
    """Return a hit of the memories 1, 2, ... for each level by its first letter."""
    names = {"s": "strong", "r": "related", "w": "weak"}
    return [Hit(number, number, 1 / number, 0.5, (), match=names[one]) for number, one in enumerate(levels, 1)]


@pytest.mark.parametrize(
    ("levels", "newer", "expected"),
    [
        ("srrw", {}, [1, 2, 3, 4]),
        ("srrw", {1: [3]}, [3, 1, 2, 4]),
        ("srrw", {1: [4]}, [4, 1, 2, 3]),
        ("srrr", {1: [4, 3], 3: [4]}, [4, 1, 2, 3]),
        ("srrr", {1: [3], 3: [4]}, [4, 3, 1, 2]),
        ("ssrr", {1: [4], 2: [4]}, [4, 1, 2, 3]),
        ("srww", {3: [4]}, [1, 2, 3, 4]),
        ("srrr", {1: [9, 2]}, [2, 1, 3, 4]),
        ("srr", {2: [1]}, [1, 2, 3]),
    ],
)
def test_the_latest_stands_just_before_the_first_earlier_one(
    levels: str, newer: dict[int, list[int]], expected: list[int]
) -> None:
    ordered = latest_first(hits(levels), newer)
    assert [hit.id for hit in ordered] == expected
    weak = [hit.match == "weak" for hit in ordered]
    assert weak == sorted(weak)
