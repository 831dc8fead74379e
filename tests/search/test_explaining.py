"""A trace tells how each candidate was measured, and why a memory was not found."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from search.test_exact import load_index, open_store
from vector_memory.domain import Page, Scope, SearchMode
from vector_memory.storage.ranking import VECTOR_WEIGHT
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report", session_id="s")


@pytest.fixture(params=[False, True], ids=["tables", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with open_store(tmp_path / "memory.db") as opened:
        for text in ("a b c d", "a b", "e f g h", "i j k l"):
            opened.store_memory("report", text, session_id="s", created_at="2026-01-05T12:00:00+00:00", agent_id="x")
        opened.store_memory("system_memory", "a b", session_id="t", task_code="one", tags=["red"])
        if request.param:
            load_index(opened)
        yield opened


def explained(
    store: SessionMemoryStore, query: str = "a b c d", scope: Scope = REPORTS, limit: int = 1, **more: Any
) -> dict[str, Any]:
    mode, memory_id = more.get("mode"), more.get("memory_id")
    return store.explaining.explain(query, scope, Page(limit=limit), mode, memory_id)


def test_candidates_have_the_measures_of_the_search_itself_in_its_order(store: SessionMemoryStore) -> None:
    found = store.search_chunks("a b c d", REPORTS, Page(limit=10)).results
    told = explained(store, limit=10)["candidates"]
    assert [(one["id"], one["score"], one["cosine"]) for one in told] == [
        (hit.chunk_id, round(hit.score, 3), round(hit.similarity or 0.0, 3)) for hit in found
    ]
    for one in told:
        if one["cosine"]:
            assert one["score"] == pytest.approx(
                VECTOR_WEIGHT * one["cosine"] + (1 - VECTOR_WEIGHT) * one["words"], abs=2e-3
            )


def test_a_candidate_names_the_words_that_it_has_and_lacks(store: SessionMemoryStore) -> None:
    told = {one["memory_id"]: one for one in explained(store, "b c", limit=10)["candidates"]}
    assert (told[1]["has"], told[1]["lacks"]) == (["b", "c"], [])
    assert (told[2]["has"], told[2]["lacks"]) == (["b"], ["c"])


def test_candidates_behind_the_page_are_told_as_such(store: SessionMemoryStore) -> None:
    fates = [one["fate"] for one in explained(store, limit=1)["candidates"]]
    assert fates == ["on this page", *["behind limit 1"] * 3]


def test_what_the_threshold_cuts_is_told(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db", use_threshold_filtering=True, similarity_threshold=0.9) as store:
        for text in ("a b c d", "e f g h"):
            store.store_memory("report", text, session_id="s")
        last = explained(store, limit=10, memory_id=2)
    assert "VECTOR_MEMORY_SIMILARITY_THRESHOLD (0.9)" in last["candidates"][-1]["fate"]
    assert not last["memory"]["found"]


@pytest.mark.parametrize(
    ("memory_id", "scope", "told"),
    [
        (1, REPORTS, "It is on this page"),
        ("3", REPORTS, "behind limit 1"),
        (99, REPORTS, "There is no such memory"),
        (5, REPORTS, "outside the filters: memory_type, session_id."),
        (1, Scope("report", created_before="2025", agent_id="y"), "outside the filters: agent_id, created_before."),
        (1, Scope("report", created_after="2027", session_iter=2), "outside the filters: session_iter, created_after."),
        (5, Scope("system_memory", task_code="two", tags=["blue"]), "outside the filters: task_code, tags."),
        (5, Scope("system_memory", own_agent_id="main-orchestrator", category="go"), "category, own_agent_id."),
    ],
)
def test_it_says_why_a_memory_was_not_found(
    store: SessionMemoryStore, memory_id: int | str, scope: Scope, told: str
) -> None:
    memory = explained(store, scope=scope, memory_id=memory_id)["memory"]
    assert told in memory["why"]
    assert memory["found"] == ("on this page" in told)


def test_by_words_it_says_that_a_memory_has_none_of_them(store: SessionMemoryStore) -> None:
    trace = explained(store, mode=SearchMode.KEYWORD, memory_id=4)
    assert trace["compared"] == "words only"
    assert "none of the query's words" in trace["memory"]["why"]
    assert [one["cosine"] for one in trace["candidates"]] == [None, None]
    reference = explained(store, "3f2a9c8", memory_id=4)
    assert reference["compared"] == "words only: the query is only a number, a code or an address"


def test_a_query_that_is_only_a_name_is_told_to_weigh_words_more(store: SessionMemoryStore) -> None:
    trace = explained(store, "a_b", limit=10)
    assert trace["compared"] == "0.34 x cosine + 0.66 x words: the query is only a name"
    for one in trace["candidates"]:
        assert one["score"] == pytest.approx(0.34 * (one["cosine"] or 0) + 0.66 * one["words"], abs=2e-3)


def test_by_meaning_no_words_are_told(store: SessionMemoryStore) -> None:
    trace = explained(store, mode=SearchMode.VECTOR)
    assert (trace["compared"], trace["query_words"]) == ("meaning only", [])
    assert trace["candidates"][0]["words"] is None


def test_a_limited_caller_is_told_nothing_of_other_sessions(store: SessionMemoryStore) -> None:
    memory = explained(store.limited_to(["s"]), memory_id=5)["memory"]
    assert "There is no such memory" in memory["why"]
