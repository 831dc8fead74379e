"""Whole memories: by scope, newest first, or by their best passage."""

import logging

import pytest

from vector_memory.domain import Page, Scope
from vector_memory.errors import ValidationError
from vector_memory.search.latency import SearchTimer
from vector_memory.store import SessionMemoryStore


def ids(result: object) -> list[int]:
    return [memory.id for memory in result.results]  # type: ignore[attr-defined]


@pytest.fixture
def filled(store: SessionMemoryStore) -> SessionMemoryStore:
    """Prompts 1-4 of iterations 9, 10, 2 and 10."""
    for iteration in ("v9", "v10", "v2", 10):
        store.store_memory("input_prompt", f"prompt of {iteration}", session_id="s", session_iter=iteration)
    return store


def test_memories_come_by_iteration_as_a_number_then_by_time_the_newest_first(filled: SessionMemoryStore) -> None:
    prompts = Scope("input_prompt", session_id="s")
    assert ids(filled.search_scoped(prompts, Page(limit=10))) == [4, 2, 1, 3]
    assert ids(filled.search_scoped(prompts, Page(limit=10), latest_first=False)) == [3, 1, 2, 4]


def test_a_scoped_result_has_similarity_2_and_says_so(filled: SessionMemoryStore) -> None:
    result = filled.search_scoped(Scope("input_prompt", session_id="s", session_iter="10"), Page(limit=1))
    assert [(memory.similarity, memory.source_type) for memory in result.results] == [(2.0, "scoped")]
    assert result.filters == {"memory_type": "input_prompt", "session_id": "s", "session_iter": 10}
    assert (result.limit, result.latest_first, result.total_results, result.query) == (1, True, 1, None)


def test_system_memories_are_found_by_meaning_with_a_query_and_by_scope_without(store: SessionMemoryStore) -> None:
    for text in ("alpha beta", "gamma delta", "epsilon zeta"):
        store.store_memory("system_memory", text, session_id="s")
    found = store.search_memories("gamma delta", Scope("system_memory"), Page(limit=3))
    assert (found.results[0].id, found.results[0].similarity, found.results[0].source_type) == (2, 1.0, "vector")
    assert found.query == "gamma delta"
    assert ids(store.search_memories(None, Scope("system_memory"), Page(limit=3))) == [3, 2, 1]


@pytest.mark.parametrize("order", [None, "relevance"])
def test_documents_that_match_a_query_best_come_first(store: SessionMemoryStore, order: str | None) -> None:
    for text in ("alpha beta", "gamma delta", "epsilon zeta"):
        store.store_memory("report", text, session_id="s")
    best = store.search_documents("alpha beta", Scope("report"), Page(limit=2), order=order).results[0]
    assert (best.id, best.similarity, best.source_type) == (1, 1.0, "vector")


@pytest.mark.parametrize(("query", "order"), [(None, None), (None, "recent"), ("alpha beta", "recent")])
def test_the_newest_documents_come_first_without_a_query_and_if_they_are_asked_for(
    store: SessionMemoryStore, query: str | None, order: str | None
) -> None:
    for text in ("alpha beta", "gamma delta", "epsilon zeta"):
        store.store_memory("report", text, session_id="s")
    recent = store.search_documents(query, Scope("report"), Page(limit=2), order=order)
    assert ids(recent) == [3, 2]
    assert {(memory.similarity, memory.score) for memory in recent.results} == {(2.0, None)}
    assert ("not compared with the query" in (recent.message or "")) is (query is not None)


def test_an_order_that_there_is_not_is_refused(store: SessionMemoryStore) -> None:
    with pytest.raises(ValidationError, match="order must be one of recent, relevance"):
        store.search_documents("alpha", Scope("report"), Page(limit=2), order="newest")


def test_relevance_needs_a_query(store: SessionMemoryStore) -> None:
    with pytest.raises(ValidationError, match="needs a query"):
        store.search_documents(None, Scope("report"), Page(limit=2), order="relevance")


def test_long_documents_share_the_answer_and_say_where_to_read_on(store: SessionMemoryStore) -> None:
    for letter in "abc":
        store.store_memory("report", f"{letter} " * 40_000, session_id="s")
    result = store.search_documents(None, Scope("report"), Page(limit=3))
    assert [memory.content_length for memory in result.results] == [80_000] * 3
    assert all(memory.content_end == len(memory.content) > 10_000 for memory in result.results)
    assert "3 shortened" in (result.message or "")


def test_statistics_count_every_search_by_type_and_give_percentiles(store: SessionMemoryStore) -> None:
    store.store_memory("report", "text", session_id="s")
    for _ in range(3):
        store.search_chunks("text", Scope("report"), Page(limit=1))
    store.search_sections("text", Scope("report"), Page(limit=1))
    statistics = store.get_search_statistics()
    assert statistics.by_type == {"search_fine_report": 3, "search_medium_report": 1}
    assert statistics.total_queries == 4
    assert 0 < statistics.p50_time <= statistics.p95_time <= statistics.p99_time


def test_a_slow_search_is_counted_and_logged_without_its_query(
    store: SessionMemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    timer = SearchTimer(slow_threshold=0.0)
    with caplog.at_level(logging.WARNING), timer.time("search_fine_report"):
        store.search_chunks("secret words", Scope("report"), Page(limit=1))
    assert timer.statistics().slow_query_rate == 1.0
    assert "search_fine_report took" in caplog.text
    assert "secret" not in caplog.text
