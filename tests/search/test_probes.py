"""Several questions in one call."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from paging import pages
from search.test_exact import open_store
from vector_memory.domain import Page, Scope
from vector_memory.errors import ValidationError
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with open_store(tmp_path / "memory.db") as opened:
        for number in range(12):
            opened.store_memory("report", f"alpha beta {'more ' * number}", session_id="s")
        opened.store_memory("report", "gamma delta and many other words that nobody asks for", session_id="s")
        yield opened


def chunks(store: SessionMemoryStore, query: str | list[str], **page: int) -> list[tuple[int, float]]:
    return [(hit.memory_id, hit.score) for hit in store.search_chunks(query, REPORTS, Page(**page)).results]


def test_the_best_hit_of_each_question_is_in_the_answer_however_many_another_has(store: SessionMemoryStore) -> None:
    assert 13 not in [number for number, _ in chunks(store, "alpha beta", limit=5)]
    for grain in (store.search_chunks, store.search_sections):
        assert 13 in [hit.memory_id for hit in grain(["alpha beta", "gamma"], REPORTS, Page(limit=2)).results]
    assert 13 in [hit.id for hit in store.search_documents(["alpha beta", "gamma"], REPORTS, Page(limit=2)).results]


def test_each_hit_comes_once_with_its_best_score(store: SessionMemoryStore) -> None:
    first, second = (dict(chunks(store, query, limit=50)) for query in ("alpha more", "beta gamma"))
    both = chunks(store, ["alpha more", "beta gamma"], limit=50)
    assert len({number for number, _ in both}) == len(both) == 13
    assert all(score == max(first.get(number, 0), second.get(number, 0)) for number, score in both)


def test_all_pages_together_have_every_hit_once(store: SessionMemoryStore) -> None:
    queries = ["alpha", "gamma", "more"]
    answers = pages(lambda offset: store.search_chunks(queries, REPORTS, Page(limit=3, offset=offset)))
    read = [(hit.memory_id, hit.score) for answer in answers for hit in answer.results]
    assert read == chunks(store, queries, limit=50)


def test_one_question_in_a_list_is_that_question(store: SessionMemoryStore) -> None:
    assert store.search_chunks(["alpha", "alpha"], REPORTS) == store.search_chunks("alpha", REPORTS)


def test_an_answer_to_several_questions_keeps_to_its_tokens(store: SessionMemoryStore) -> None:
    for number in range(5):
        store.store_memory("report", f"alpha beta {number} " + "long text " * 300, session_id="s")
    for search in (store.search_chunks, store.search_sections, store.search_documents):
        for tokens in (300, 600, 2_000):
            answer = search(["alpha", "gamma"], REPORTS, Page(limit=10, max_tokens=tokens))
            assert len(answer.model_dump_json().encode()) <= 3 * tokens


def test_an_answer_says_which_question_has_no_close_match(store: SessionMemoryStore) -> None:
    answer = store.search_chunks(["alpha beta", "unheard of zebras"], REPORTS)
    assert answer.confidence == store.search_chunks("alpha beta", REPORTS).confidence
    assert "No close match for question 2." in (answer.message or "")


@pytest.mark.parametrize("count", [0, 6])
def test_no_question_or_more_than_five_are_refused(store: SessionMemoryStore, count: int) -> None:
    with pytest.raises(ValidationError, match="up to 5"):
        store.search_chunks([f"question {number}" for number in range(count)], REPORTS)


def test_what_is_a_hit_of_one_question_is_no_neighbour_in_the_answer_of_another(store: SessionMemoryStore) -> None:
    for minute, turn in enumerate(["w1", "w2", "red", "w3", "green", "w4", "w5"]):
        at = f"2026-10-05T12:{minute:02}:00+00:00"
        store.store_memory("working_memory", turn, session_id="s", created_at=at, metadata={"project": "/p"})
    answer = store.search_chunks(["red", "green"], Scope("working_memory"), Page(limit=2), neighbours=5)
    texts = [text for hit in answer.results for text in (hit.chunk_content, *hit.context_before, *hit.context_after)]
    assert len(texts) == len(set(texts)) > 2


@pytest.mark.parametrize("grain", ["search_chunks", "search_sections", "search_documents"])
def test_hits_too_long_for_one_answer_are_on_later_pages(store: SessionMemoryStore, grain: str) -> None:
    for number in range(25):
        store.store_memory("report", f"alpha beta {number} " + "long" * 400, session_id="long")
    search, scope = getattr(store, grain), Scope("report", session_id="long")
    answers = pages(lambda offset: search(["alpha", "beta"], scope, Page(limit=20, offset=offset)))
    hits = [hit for answer in answers for hit in answer.results]
    read = [(hit.memory_id, hit.chunk_id if grain == "search_chunks" else 0) for hit in hits]
    assert len(read) == len(set(read))
    assert len({number for number, _ in read}) == 25


def test_the_newest_documents_are_the_same_for_one_question_and_several(store: SessionMemoryStore) -> None:
    page = Page(limit=2, offset=1)
    answer = store.search_documents(["alpha", "gamma"], REPORTS, page, order="recent")
    newest = store.search_documents(None, REPORTS, page)
    assert [one.id for one in answer.results] == [one.id for one in newest.results] != []
