"""What several memories say in the same words is one result, and nothing that differs is hidden by it."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lattice import LatticeEmbedder
from paging import pages
from search.test_exact import open_store
from vector_memory.answers.forms import FORM, FULL
from vector_memory.domain import LINES, Page, Scope
from vector_memory.search.explain import ExplainRequest
from vector_memory.server.lean import LeanForm, lean
from vector_memory.store import SessionMemoryStore

FIRST = "The nightly export writes CSV to the share. The finance team reads it from there at eight."
ADDED = f"{FIRST} It never takes longer than an hour."
SAME = {
    "marks": "- **The nightly export** writes `CSV` to the share\n- The finance team reads it from there at eight",
    "lines": FIRST.replace(" ", "\n", 3),
    "articles": FIRST.replace("The ", "A "),
    "a sentence more": ADDED,
    "a sentence between": FIRST.replace("share. ", "share. Nobody else does. "),
}
OTHER = {
    "a number": (FIRST + " It takes 9 minutes.", FIRST + " It takes 4 minutes."),
    "a version": (FIRST + " It runs on 3.11.", FIRST + " It runs on 3.12."),
    "a negation": (FIRST, FIRST.replace("writes", "never writes")),
    "a name": (FIRST + " Anna owns it.", FIRST + " Ben owns it."),
    "a word": (FIRST, FIRST.replace("CSV", "Parquet")),
    "a sign": (FIRST + " The offset is -5.", FIRST + " The offset is 5."),
    "an order": (FIRST + " It moved from A to B.", FIRST + " It moved from B to A."),
    "a sentence less": (ADDED, FIRST),
    "a box": (FIRST + "\n- [ ] tell finance", FIRST + "\n- [x] tell finance"),
    "few words": ("Yes, do export it.", "Yes, do export it."),
}
LONG = "\n\n".join("Few read what stands between the two of them. " * 12 for _ in range(20))
QUESTION = "nightly export finance share"
REPORTS = Scope("report")
KINDS = {"chunks": "report", "sections": "report", "documents": "report", "memories": "system_memory"}


def keep(store: SessionMemoryStore, *texts: str, kind: str = "report", **fields: Any) -> list[int]:
    """Store texts, each a day after the one before, in a session of its own."""
    return [
        store.store_memory(
            kind, text, session_id=f"s{day}", created_at=f"2026-05-{day:02}T10:00:00Z", **fields
        ).memory_id
        for day, text in enumerate(texts, 1)
    ]


def ask(store: SessionMemoryStore, grain: str, query: str | list[str] = QUESTION, **page: Any) -> Any:
    return getattr(store, f"search_{grain}")(query, Scope(KINDS[grain]), Page(**page))


def found(answer: Any) -> dict[int, list[int]]:
    """Return the memories of an answer, with their copies."""
    return {getattr(result, "memory_id", None) or result.id: result.copies for result in answer.results}


@pytest.mark.parametrize("grain", KINDS)
@pytest.mark.parametrize("edit", SAME)
def test_the_newest_stands_for_all_that_say_the_same(store: SessionMemoryStore, grain: str, edit: str) -> None:
    keep(store, FIRST, FIRST, SAME[edit], kind=KINDS[grain])
    answer = ask(store, grain)
    assert found(answer) == {3: [1, 2]}
    assert answer.total_results == 3
    assert answer.results[0].score == max(result.score for result in ask(store, grain, copies=True).results)


@pytest.mark.parametrize("grain", KINDS)
@pytest.mark.parametrize("difference", OTHER)
def test_what_differs_in_anything_is_a_result_of_its_own(
    store: SessionMemoryStore, grain: str, difference: str
) -> None:
    keep(store, *OTHER[difference], kind=KINDS[grain])
    assert found(ask(store, grain, "nightly export")) == {1: [], 2: []}


@pytest.mark.parametrize(
    "fields", [{"title": ("Staging", "Production")}, {"task_code": ("a", "b")}], ids=["title", "task"]
)
def test_the_same_words_about_another_thing_are_no_copy(store: SessionMemoryStore, fields: dict[str, Any]) -> None:
    for number in (0, 1):
        [(name, values)] = fields.items()
        store.store_memory("report", FIRST, session_id=f"s{number}", **{name: values[number]})
    assert found(ask(store, "chunks")) == {1: [], 2: []}


def test_a_section_is_no_copy_because_a_part_of_it_is(store: SessionMemoryStore) -> None:
    keep(store, *(f"# Export\n\n{FIRST}\n\n{LONG}\n\nIt takes {minutes} minutes." for minutes in (9, 4)))
    assert [1] in [chunk.copies for chunk in ask(store, "chunks").results]
    assert found(ask(store, "sections")) == {1: [], 2: []}
    assert found(ask(store, "documents")) == {1: [], 2: []}


def test_a_long_text_is_no_copy_of_a_sentence_in_it(store: SessionMemoryStore) -> None:
    keep(store, FIRST, FIRST + " Something else is written here, too." * 5)
    assert found(ask(store, "documents")) == {1: [], 2: []}


def test_observations_in_the_same_words_on_two_reports_are_two_results(store: SessionMemoryStore) -> None:
    for report in keep(store, "One report.", "Another report."):
        store.store_memory("report_observation", FIRST, session_id=f"s{report}", parent_report_id=report)
    assert found(store.search_memories(QUESTION, Scope("report_observation"))) == {3: [], 4: []}


def test_copies_are_results_if_that_is_wanted(store: SessionMemoryStore, tmp_path: Path) -> None:
    keep(store, FIRST, FIRST)
    assert found(ask(store, "chunks", copies=True)) == {1: [], 2: []}
    assert len(ask(store, "documents", detail=LINES).lines) == 2
    unfolded = store.settings.model_copy(update={"fold_copies": False})
    with SessionMemoryStore(tmp_path / "memory.db", unfolded, embedder=LatticeEmbedder()) as other:
        assert found(ask(other, "chunks")) == found(ask(other, "chunks", [QUESTION, "share"])) == {1: [], 2: []}


def test_no_superseded_copy_stands_for_one_that_holds(store: SessionMemoryStore) -> None:
    older, newer = keep(store, FIRST, FIRST)
    store.store_memory("report", OTHER["a word"][1], session_id="s2", supersedes=[newer])
    for grain in ("chunks", "sections", "documents"):
        for query in (QUESTION, [QUESTION, "letter alpha beta"]):
            answer = getattr(store, f"search_{grain}")(query, replace(REPORTS, as_of="any"))
            assert {older: [], newer: []}.items() <= found(answer).items()


def test_changes_and_notes_are_folded_too(store: SessionMemoryStore) -> None:
    for agent in ("a", "b"):
        store.store_memory("report", FIRST, session_id="s", agent_id=agent)
    assert found(store.search_changes(Scope(session_id="s"), query=QUESTION)) == {2: [1]}
    for text in (FIRST, ADDED):
        store.tagged.store(text, "architecture", ["export"])
    [note] = store.tagged.search(QUESTION).results
    assert (note.id, note.copies) == (4, [3])


def test_a_lean_answer_names_the_copies_of_all_parts_of_a_memory(store: SessionMemoryStore) -> None:
    night, week = (f"# {name}\n\n{FIRST}" for name in ("Night", "Week"))
    keep(store, night, week, f"{night}\n\n{week}", title="Exports")
    token = FORM.set(LeanForm())
    [result] = lean(ask(store, "chunks"))["results"]
    FORM.reset(token)
    assert (result["memory_id"], result["copies"]) == (3, [1, 2])


def test_a_trace_says_under_which_memory_a_copy_stands(store: SessionMemoryStore) -> None:
    keep(store, FIRST, FIRST, FIRST.replace("CSV", "JSON"))
    for grain in ("chunk", "section", "document"):
        trace = store.explaining.explain(QUESTION, REPORTS, ExplainRequest(Page(), grain, 1))
        assert "under memory 2, which says the same, on this page" in trace["memory"]["why"]
        assert {one["fate"] for one in trace["candidates"] if one["memory_id"] != 1} == {"on this page"}


def walked(search: Callable[..., Any], page: dict[str, Any]) -> list[tuple[int, list[int]]]:
    """Return the results of all pages, with their copies."""
    answers = pages(lambda offset: search(offset=offset, **page))
    return [(result.memory_id, result.copies) for answer in answers for result in answer.results]


def every_way(store: SessionMemoryStore) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the searches for one question and for two."""
    for grain in ("chunks", "sections", "documents"):
        for query in (QUESTION, [QUESTION, "letter alpha beta"]):
            yield grain, partial(ask, store, grain, query)


@pytest.mark.parametrize("lean", [False, True], ids=["full", "lean"])
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10_000), limit=st.sampled_from([4, 10, 30]), tokens=st.sampled_from([None, 400]))
def test_the_pages_together_have_every_memory_once(
    tmp_path_factory: pytest.TempPathFactory, lean: bool, seed: int, limit: int, tokens: int | None
) -> None:
    texts = [f"{FIRST} Letter {letter} is in it." for letter in ("alpha", "beta", "gamma", "delta")]
    chosen = random.Random(seed).choices([*texts, f"{texts[0]} And more is said of letters here."], k=45)
    path, token = tmp_path_factory.mktemp("walked") / "memory.db", FORM.set(LeanForm() if lean else FULL)
    with open_store(path, sqlite_synchronous="NORMAL") as store:
        for number, text in enumerate(chosen):
            store.store_memory("report", text, session_id=f"s{number}")
        for grain, search in every_way(store):
            seen = walked(search, {"limit": limit, "max_tokens": tokens})
            named = [number for number, copies in seen for number in (number, *copies)]
            assert len(named) == len(set(named))
            assert grain == "sections" or len(named) == len(chosen)  # the limit says how many chunks are looked at
    FORM.reset(token)


def test_a_page_is_full_however_many_copies_there_are(store: SessionMemoryStore) -> None:
    for number in range(70):
        store.store_memory("report", FIRST, session_id=f"copy {number}")
    for number in range(5):
        store.store_memory("report", f"{FIRST} Letter{number} is in it.", session_id="others")
    for grain, search in every_way(store):
        assert len(search(limit=6).results) == 6, grain
