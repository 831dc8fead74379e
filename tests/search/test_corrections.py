"""Wherever an obsolete memory is given, what corrected it later is named: the real model."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paging import pages
from vector_memory.answers.forms import FORM, FULL
from vector_memory.answers.models import ChangesResult, CoarseSearchResult, FineSearchResult, MediumSearchResult
from vector_memory.domain import LINES, Page, Scope
from vector_memory.reading.recap import mentioned
from vector_memory.search.explain import ExplainRequest
from vector_memory.server.lean import LeanForm
from vector_memory.storage.records import Later
from vector_memory.store import SessionMemoryStore

QUESTION = "How long is a session valid?"
FACT = "A session is valid for eight hours."
CORRECTION = "Login now expires after thirty minutes without activity; the eight hours were dropped for the audit."
OTHERS = (
    "The proxy forwards each request to the region that answered fastest.",
    "Snapshots are written every hour and kept on a second volume.",
    "Invoices are grouped by customer before the nightly export.",
    "The index is rebuilt from the event log when a shard reports a missing segment.",
    "Uploads above 25 MB go through a presigned address.",
    "The parser drops a trailing comma in a list of arguments.",
    "Prices are rounded half up, per line and not per order.",
    "The mobile build takes eleven minutes, most of it for signing.",
    "Every pull request needs a review by the owner of the folder.",
    "The search box waits 200 ms before it sends what was typed.",
    "Queues are drained before a worker is replaced.",
    "The warehouse prints labels in the order of the shelves.",
    "Maps are cached by tile and dropped after a week.",
    "A refund is booked on the day it is approved.",
)
IN_SESSION = Scope("report", session_id="s")
Answer = FineSearchResult | MediumSearchResult | CoarseSearchResult | ChangesResult


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(tmp_path_factory.mktemp("corrected") / "memory.db") as opened:
        for minute, text in enumerate((FACT, *OTHERS)):
            opened.store_memory("report", text, session_id="s", created_at=f"2026-05-01T10:{minute:02}:00Z")
        opened.store_memory("report", CORRECTION, session_id="s", created_at="2026-07-01T10:00:00Z")
        yield opened


WAYS: dict[str, Callable[[SessionMemoryStore], Answer]] = {
    "chunks": lambda store: store.search_chunks(QUESTION, IN_SESSION),
    "sections": lambda store: store.search_sections(QUESTION, IN_SESSION),
    "documents": lambda store: store.search_documents(QUESTION, IN_SESSION),
    "changes": lambda store: store.search_changes(Scope(session_id="s"), query=QUESTION),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_search_names_the_correction_with_the_fact(store: SessionMemoryStore, way: str) -> None:
    answer = WAYS[way](store)
    [newer] = answer.results[0].later
    assert (newer.id, newer.created_at, newer.agent_id) == (16, "2026-07-01T10:00:00Z", "main-orchestrator")
    is_given = 16 in [one["memory_id" if way in ("chunks", "sections") else "id"] for one in answer.results]
    assert newer.beginning == (None if is_given else CORRECTION)
    assert [bool(result.later) for result in answer.results[1:]] == [False] * (len(answer.results) - 1)


@pytest.mark.parametrize(
    ("agent", "session", "second", "stays"),
    [("a", "s", 59, False), ("a", "s", 60, True), ("b", "s", 1, True), ("a", "t", 1, True)],
)
def test_the_correction_is_a_result_unless_the_same_agent_noted_it_with_the_fact(
    tmp_path: Path, agent: str, session: str, second: int, stays: bool
) -> None:
    at = "2026-05-01T10:0{}:{:02}Z"
    with SessionMemoryStore(tmp_path / "memory.db") as store:
        for number, text in enumerate(OTHERS):
            store.store_memory("report", text, session_id="s", agent_id="a", created_at=at.format(0, number))
        store.store_memory("report", FACT, session_id="s", agent_id="a", created_at=at.format(1, 0))
        created_at = at.format(1 + second // 60, second % 60)
        store.store_memory("report", CORRECTION, session_id=session, agent_id=agent, created_at=created_at)
        results = store.search_chunks(QUESTION, Scope("report")).results
    assert [result.memory_id for result in results] == [15, 16][: 1 + stays]
    assert [one.id for one in results[0].later] == [16]


@pytest.mark.parametrize("grain", ["search_chunks", "search_sections", "search_documents"])
@pytest.mark.parametrize("lean", [False, True], ids=["full", "lean"])
def test_no_limit_hides_the_correction(store: SessionMemoryStore, grain: str, lean: bool) -> None:
    token = FORM.set(LeanForm() if lean else FULL)
    [fact] = getattr(store, grain)(QUESTION, IN_SESSION, Page(limit=1)).results
    FORM.reset(token)
    assert [one.beginning for one in fact.later] == [CORRECTION]


CHAIN = (
    "The labels use the font Arial Narrow, 8 points.",
    "The scanner people asked for something wider: labels are printed in DejaVu Sans Condensed at 9 pt.",
    "Labels switched to Noto Sans at 9 pt, because DejaVu lacks the Georgian letters.",
    "OCR-B at 10 pt is what labels have since the new scanners came.",
    "The label printers got a built-in font, and nothing is rendered by us any more.",
)


@pytest.mark.parametrize("length", [3, 4, 5])
def test_of_a_fact_that_was_corrected_several_times_the_newest_is_given(tmp_path: Path, length: int) -> None:
    with SessionMemoryStore(tmp_path / "memory.db") as store:
        for minute, text in enumerate(OTHERS):
            store.store_memory("report", text, session_id="s", created_at=f"2026-01-01T10:{minute:02}:00Z")
        for month, text in enumerate(CHAIN[:length], 2):
            store.store_memory("report", text, session_id="s", created_at=f"2026-{month:02}-01T10:00:00Z")
        results = store.search_chunks("Which font is used on the labels?", IN_SESSION).results
        told = store.past.near("Which font is used on the labels?", "another session", ())
    first, newest = len(OTHERS) + 1, len(OTHERS) + length
    assert (results[0].memory_id, results[0].later[0].id) == (first, newest)
    assert told
    assert told.ids == {first, newest}
    assert f"which may correct memory {first}: {CHAIN[length - 1]}" in told.text


def test_a_trace_knows_what_is_on_the_page(store: SessionMemoryStore) -> None:
    given = [hit.memory_id for hit in store.search_chunks(QUESTION, IN_SESSION).results]
    trace = store.explaining.explain(QUESTION, IN_SESSION, ExplainRequest(Page(), "chunk"))
    assert [one["memory_id"] for one in trace["candidates"] if one["fate"] == "on this page"] == given


def test_a_prompt_is_told_of_no_fact_whose_correction_has_no_room() -> None:
    newer = Later(2, 0.7, 7, None, "a", "2026-07-01T10:00:00Z", CORRECTION)
    assert mentioned([(1, None), (2, newer), (3, None)], ()) == [(1, None), (2, None), (2, newer)]
    assert mentioned([(1, None), (3, None), (2, newer), (4, None)], ()) == [(1, None), (3, None), (4, None)]
    assert mentioned([(2, newer)], {7}) == [(2, None)]


QUESTIONS = [QUESTION, "How are invoices grouped?"]


@pytest.mark.parametrize("lean", [False, True], ids=["full", "lean"])
@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("grain", ["search_chunks", "search_sections", "search_documents"])
def test_the_pages_of_several_questions_have_all_hits_once_and_weak_ones_last(
    store: SessionMemoryStore, grain: str, limit: int, lean: bool
) -> None:
    token = FORM.set(LeanForm() if lean else FULL)
    answers = pages(lambda offset: getattr(store, grain)(QUESTIONS, IN_SESSION, Page(limit=limit, offset=offset)))
    hits = [hit for answer in answers for hit in answer.results]
    FORM.reset(token)
    levels, numbers = [hit.match == "weak" for hit in hits], [hit.memory_id for hit in hits]
    assert len(numbers) == len(set(numbers)) >= (len(OTHERS) + 2 if grain != "search_sections" else limit)
    assert levels == sorted(levels)
    assert set(numbers[:2]) == {1, 4}


def test_a_section_that_two_questions_find_is_one_result_of_a_lean_answer(tmp_path: Path) -> None:
    token = FORM.set(LeanForm())
    with SessionMemoryStore(tmp_path / "memory.db") as store:
        lines = "\n".join(f"{text} That was seen on day {day}." for day, text in enumerate(OTHERS * 3))
        store.store_memory("report", f"{FACT}\n{lines}\nLunch is at noon.", session_id="s")
        answer = store.search_sections(["When is lunch?", QUESTION], IN_SESSION)
    FORM.reset(token)
    assert len(answer.results) == 1


def test_lines_for_several_questions_count_nothing_as_read(tmp_path: Path) -> None:
    with SessionMemoryStore(tmp_path / "memory.db") as store:
        for text in (FACT, CORRECTION, *OTHERS):
            store.store_memory("report", text, session_id="s")
        assert store.search_documents(QUESTIONS, IN_SESSION, Page(detail=LINES)).lines
    with SessionMemoryStore(tmp_path / "memory.db") as store:
        assert not any(memory.access_count for memory in store.search_scoped(IN_SESSION).results)


def test_what_is_elsewhere_is_told_for_every_question(store: SessionMemoryStore) -> None:
    scope = Scope("report", session_id="s", agent_id="nobody")
    asked = ["Which planets have rings?", QUESTION]
    assert store.search_chunks(asked, scope).elsewhere == store.search_chunks(QUESTION, scope).elsewhere != {}


def test_how_well_a_section_matches_does_not_depend_on_the_limit(store: SessionMemoryStore) -> None:
    def matches(limit: int, count: int) -> dict[int, str | None]:
        pages = [store.search_sections(QUESTION, IN_SESSION, Page(limit=limit, offset=at)) for at in range(count)]
        return {hit.memory_id: hit.match for page in pages for hit in page.results}

    many = matches(5, 1) | matches(5, 4)
    few = matches(1, 4)
    assert few == {number: many[number] for number in few}
    assert "weak" in few.values()
