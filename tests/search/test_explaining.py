"""A trace tells how each candidate was measured, and why a memory was not found."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice import LatticeEmbedder
from search.test_exact import fill, open_store
from vector_memory.domain import Page, Scope, SearchMode
from vector_memory.search import explain as explaining
from vector_memory.search import retrieval
from vector_memory.search.explain import ExplainRequest
from vector_memory.storage.scoring import VECTOR_WEIGHT
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report", session_id="s")
TEXTS = ("a b c d", "a b", "e f g h", "i j k l")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with open_store(tmp_path / "memory.db") as opened:
        for text in TEXTS:
            opened.store_memory("report", text, session_id="s", created_at="2026-01-05T12:00:00+00:00", agent_id="x")
        opened.store_memory("system_memory", "a b", session_id="t", task_code="one", tags=["red"])
        yield opened


def explained(
    store: SessionMemoryStore, query: str = "a b c d", scope: Scope = REPORTS, limit: int = 1, **more: Any
) -> dict[str, Any]:
    mode, memory_id = more.get("mode"), more.get("memory_id")
    page = Page(limit=limit, offset=more.get("offset", 0))
    asked = ExplainRequest(page, more.get("grain", "chunk"), memory_id, more.get("shown"))
    return store.explaining.explain(query, scope, asked, mode)


def test_candidates_have_the_measures_of_the_search_itself_in_its_order(store: SessionMemoryStore) -> None:
    found = store.search_chunks("a b c d", REPORTS, Page(limit=10)).results
    told = explained(store, limit=10)["candidates"]
    assert [(one["id"], one["score"], max(0.0, one["cosine"])) for one in told] == [
        (hit.chunk_id, round(hit.score, 3), round(hit.similarity or 0.0, 3)) for hit in found
    ]


@pytest.mark.parametrize("query", ["a b c d", "a g l", "b f g l", "a d e j unknown"])
def test_a_score_is_made_of_the_cosine_and_the_words_that_are_told(store: SessionMemoryStore, query: str) -> None:
    """Also where the cosine is negative, which results show as 0."""
    [asked] = LatticeEmbedder().embed([query])
    told = explained(store, query, limit=10)["candidates"]
    worded = {one["id"]: one["words"] for one in explained(store, query, mode=SearchMode.KEYWORD)["candidates"]}
    for one in told:
        cosine = float(LatticeEmbedder().embed([TEXTS[one["memory_id"] - 1]])[0] @ asked)
        assert one["cosine"] == pytest.approx(cosine, abs=6e-4)
        assert one["words"] == worded.get(one["id"], 0.0)
        score = VECTOR_WEIGHT * one["cosine"] + (1 - VECTOR_WEIGHT) * one["words"]
        assert one["score"] == pytest.approx(max(0.0, score), abs=2e-3)


def test_a_negative_cosine_is_told_beside_the_words(store: SessionMemoryStore) -> None:
    told = {one["memory_id"]: one for one in explained(store, "b f g l")["candidates"]}
    assert (told[1]["cosine"], told[1]["words"] > 0) == (-0.75, True)


def test_a_candidate_names_the_words_that_it_has_and_lacks(store: SessionMemoryStore) -> None:
    told = {one["memory_id"]: one for one in explained(store, "b c", limit=10)["candidates"]}
    assert (told[1]["has"], told[1]["lacks"]) == (["b", "c"], [])
    assert (told[2]["has"], told[2]["lacks"]) == (["b"], ["c"])


def test_candidates_behind_the_page_are_told_as_such(store: SessionMemoryStore) -> None:
    fates = [one["fate"] for one in explained(store, limit=1)["candidates"]]
    assert fates == ["on this page", *["on a later page"] * 3]
    fates = [one["fate"] for one in explained(store, limit=1, offset=2)["candidates"]]
    assert fates == [*["on an earlier page"] * 2, "on this page", "on a later page"]


@pytest.mark.parametrize("threshold", [None, 0.3])
def test_it_is_found_of_exactly_the_memories_in_the_answer(tmp_path: Path, threshold: float | None) -> None:
    """Whatever the size of the results: a document is a result by its best chunk, a section by the mean of several."""
    changes = {} if threshold is None else {"use_threshold_filtering": True, "similarity_threshold": threshold}
    with open_store(tmp_path / "memory.db", **changes) as store:
        fill(store, random.Random(5), 60)
        scope = Scope("report")
        ids = [entry.memory_id for entry in store.get_timeline(scope, 100).entries]
        searches = {"chunk": store.search_chunks, "section": store.search_sections, "document": store.search_documents}
        for (grain, search), limit, offset in itertools.product(searches.items(), (1, 3), (0, 2)):
            answer: Any = search("a b c", scope, Page(limit=limit, offset=offset))
            shown = {one.id if grain == "document" else one.memory_id for one in answer.results}
            told = [
                explained(store, "a b c", scope, limit, offset=offset, grain=grain, memory_id=number) for number in ids
            ]
            assert {trace["memory"]["id"] for trace in told if trace["memory"]["found"]} == shown


def test_the_last_score_of_the_page_equals_the_answers(store: SessionMemoryStore) -> None:
    last = store.search_documents("a b c d", REPORTS, Page(limit=2), order="relevance").results[-1]
    told = explained(store, limit=2, grain="document", memory_id=3)["memory"]["why"]
    assert told.endswith(f"on a later page; the last result here has {round(last.score or 0, 3)}.")
    assert "It ranks 2 " in explained(store, limit=2, offset=50, memory_id=4)["memory"]["why"]


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
        ("3", REPORTS, "on a later page; the last result here has"),
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


@pytest.mark.parametrize("own", [{"project": "/here"}, {"containing": "E f"}, {"state": "pinned"}])
def test_it_names_only_filters_that_a_memory_does_not_pass(store: SessionMemoryStore, own: dict[str, Any]) -> None:
    for number, text in enumerate(("e f g h", "a b"), 6):
        where = {"project": "/here"} if number == 6 else {}
        store.store_memory("system_memory", text, session_id="t", metadata=where)
    store.pin(6)
    for memory_id, failed in ((6, ["session_id"]), (7, ["session_id", *own])):
        memory = explained(store, scope=Scope("system_memory", session_id="s", **own), memory_id=memory_id)["memory"]
        assert memory["why"] == f"It is outside the filters: {', '.join(failed)}."


def test_by_words_it_says_that_a_memory_has_none_of_them(store: SessionMemoryStore) -> None:
    trace = explained(store, mode=SearchMode.KEYWORD, memory_id=4)
    assert trace["compared"] == "words only"
    assert "none of the query's words" in trace["memory"]["why"]
    assert [one["cosine"] for one in trace["candidates"]] == [None, None]
    reference = explained(store, "3f2a9c8", memory_id=4)
    assert reference["compared"] == "words only: the query is only a number, a code or an address"


def test_a_query_that_is_only_a_name_is_told_to_weigh_words_more(store: SessionMemoryStore) -> None:
    trace = explained(store, "a_b", limit=10)
    assert trace["compared"] == "0.45 x cosine + 0.55 x words: the query is only a name"
    for one in trace["candidates"]:
        assert one["score"] == pytest.approx(0.45 * (one["cosine"] or 0) + 0.55 * one["words"], abs=2e-3)


def test_by_meaning_no_words_are_told(store: SessionMemoryStore) -> None:
    trace = explained(store, mode=SearchMode.VECTOR)
    assert (trace["compared"], trace["query_words"]) == ("meaning only", [])
    assert trace["candidates"][0]["words"] is None


def test_a_limited_caller_is_told_nothing_of_other_sessions(store: SessionMemoryStore) -> None:
    assert "There is no such memory" in explained(store.limited_to(["s"]), memory_id=5)["memory"]["why"]


def test_a_memory_with_the_words_behind_all_that_is_ranked_is_not_said_to_lack_them(
    store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (explaining, retrieval):
        monkeypatch.setattr(module, "MAX_DEPTH", 1)
    told = explained(store, "a b", mode=SearchMode.KEYWORD, memory_id=1)["memory"]
    assert told["why"].startswith("At least 1 others come before it")
