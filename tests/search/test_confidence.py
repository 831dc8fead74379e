"""An answer without a close match says so, and where there is one."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lattice import LatticeEmbedder
from search.test_exact import open_store
from test_superseding import NoModel
from vector_memory.answers.models import FineSearchResult
from vector_memory.domain import Page, Scope
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.description import UNKNOWN
from vector_memory.embedding.known import MINILM
from vector_memory.errors import ValidationError
from vector_memory.search import question as questions
from vector_memory.search import rank
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

HERE = Scope("report", session_id="s", session_iter=2, agent_id="me")
HERE_TOO = Scope("report", session_id="s")
FAR = "w1 w2 w3 w4"


@pytest.fixture
def store(tmp_path: Path) -> SessionMemoryStore:
    """One report in HERE, which is nothing like the query `a b c d`."""
    assert LatticeEmbedder().embed([FAR])[0] @ LatticeEmbedder().embed(["a b c d"])[0] < 0.42
    opened = open_store(tmp_path / "memory.db")
    put(opened, FAR, agent_id="me", session_iter=2)
    return opened


def put(store: SessionMemoryStore, text: str, kind: str = "report", **fields: Any) -> None:
    where = {} if kind == "knowledge_base" else {"session_id": "s", "session_iter": 2}
    store.store_memory(kind, text, **{"agent_id": "me", "title": "entry"} | where | fields)


def ask(store: SessionMemoryStore, query: str = "a b c d") -> FineSearchResult:
    return store.search_chunks(query, HERE, Page(limit=5))


def test_a_near_result_is_strong_without_further_message(store: SessionMemoryStore) -> None:
    answer = ask(store, FAR)
    assert (answer.confidence, answer.elsewhere, answer.message) == ("strong", {}, "1 chunk.")


def test_a_far_result_is_returned_with_a_warning(store: SessionMemoryStore) -> None:
    answer = ask(store)
    assert (answer.confidence, answer.elsewhere, len(answer.results)) == ("related", {}, 1)
    assert answer.message == "1 chunk. No close match: these results may be unrelated."


def test_an_empty_scope_is_reported_as_empty(store: SessionMemoryStore) -> None:
    answer = store.search_chunks("a b c d", Scope("report", session_id="nowhere"), Page(limit=5))
    assert (answer.confidence, answer.results) == ("weak", [])
    assert answer.message == (
        "No reports match these filters (session_id). Nothing is stored in this session: list_sessions lists "
        "the sessions."
    )


def test_advice_names_only_filters_that_were_sent(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store:
        answers = [
            store.search_chunks("a b", Scope("knowledge_base"), Page(limit=5)),
            store.search_chunks("a b", Scope("report"), Page(limit=5)),
            store.search_documents(None, Scope("report"), Page(limit=5)),
            store.search_memories(None, Scope("system_memory"), Page(limit=5)),
        ]
    assert [answer.message for answer in answers] == [
        f"No {noun} are stored yet." for noun in ("knowledge base entries", "reports", "reports", "system memories")
    ]


def test_an_empty_answer_names_what_the_session_has_and_what_finds_it(store: SessionMemoryStore) -> None:
    put(store, "x y", kind="working_memory")
    answer = store.search_memories("a b", Scope("system_memory", session_id="s"), Page(limit=5))
    assert answer.message == (
        "No system memories match these filters (session_id). This session has 1 report "
        "(search_reports_specific_chunks), 1 working memory (search_working_memory_specific_chunks)."
    )
    answer = store.search_memories("a b", Scope("report", agent_id="nobody"), Page(limit=5))
    assert answer.message == "No reports match these filters (agent_id). Without filters there is 1."


def test_closer_matches_among_other_kinds_and_in_other_sessions_are_counted(store: SessionMemoryStore) -> None:
    put(store, "a b c d", kind="working_memory", agent_id="you")
    store.store_memory("report", "a b c d", agent_id="me", session_id="another")
    store.store_memory("working_memory", "a b c d", agent_id="me", session_id="another")
    answer = ask(store)
    assert answer.elsewhere == {"working_memory": 1, "other_sessions": 1}
    assert "1 in other sessions (omit session_id)" in (answer.message or "")
    assert "1 among the working memories (search_working_memory_specific_chunks)" in (answer.message or "")


def test_the_matches_of_the_own_session_take_no_places_of_those_in_other_sessions(
    store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank, "MOST_COMPARED", 4)
    for number in range(12):
        put(store, "a b c d", session_iter=10 + number)
    put(store, "a b c d", session_id="other")
    assert store.search_chunks("a b c d", HERE, Page(limit=5), mode="vector").elsewhere["other_sessions"] == 1


def test_what_the_own_session_has_superseded_is_in_no_other_session(store: SessionMemoryStore) -> None:
    older = store.store_memory("report", "a b c d", agent_id="me", session_id="s", session_iter=3).memory_id
    put(store, "w5 w6 w7 w8", session_iter=3, supersedes=[older])
    assert store.search_chunks("a b c d", replace(HERE, as_of="any")).elsewhere == {"other_iterations": 1}


def test_what_is_stored_out_of_sight_changes_no_count_of_a_limited_view(
    store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank, "PROBED", 4)
    put(store, "a b c d", session_id="seen")
    view = store.limited_to(["s", "seen"])
    before = ask(view).elsewhere
    for number in range(6):
        put(store, "a b c d", session_id="hidden", session_iter=number + 1)
    assert ask(view).elsewhere == before == {"other_sessions": 1}


@pytest.mark.parametrize("scope", [Scope(), Scope(agent_id="me"), Scope(session_id="s")])
def test_a_search_without_a_kind_is_refused(store: SessionMemoryStore, scope: Scope) -> None:
    with pytest.raises(ValidationError, match="A search needs one memory_type"):
        store.search_memories("a b c d", scope)


def test_a_chunk_with_every_word_of_the_question_is_strong_whatever_its_cosine(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store:
        put(store, "Parallel imports fail with another value than 30000 of busy_timeout, and so on and so forth")
        answers = [store.search_chunks(query, HERE_TOO, Page(limit=5)) for query in ("busy_timeout", "idle_timeout")]
    assert [(answer.confidence, (answer.results[0].similarity or 0.0) < 0.42) for answer in answers] == [
        ("strong", True),
        ("related", True),
    ]


def test_the_same_text_matches_alike_whatever_else_is_in_the_scope(store: SessionMemoryStore) -> None:
    put(store, "a b c d w3", agent_id="me")
    for number in range(20):
        put(store, f"x{number} y z", agent_id="you")
    answers = [store.search_chunks("a b c d", scope, Page(limit=5)) for scope in (HERE, HERE_TOO)]
    assert [answer.results[0].chunk_content for answer in answers] == ["a b c d w3"] * 2
    assert answers[0].confidence == answers[1].confidence == answers[0].results[0].match


def test_late_scores_count_most_where_tokens_were_compared() -> None:
    rule = MINILM.description.calibration_for("which index is unused", lambda _: 1)
    levels = [rule.level(*case) for case in ((0.5, 0.0, 0.7), (0.5, 0.0, 0.4), (0.1, 0.0, 0.2), (0.6, 0.0), (0.1, 1.0))]
    assert levels == ["strong", "related", "weak", "strong", "strong"]


def test_a_model_without_figures_of_its_own_warns_only_where_words_and_meaning_are_far() -> None:
    assert [UNKNOWN.level(*case) for case in ((0.1, 0.6), (0.43, 0.0), (0.1, 0.1))] == ["strong", "strong", "related"]


def test_an_answer_counts_close_matches_elsewhere(store: SessionMemoryStore) -> None:
    for number in range(25):  # more than are counted
        put(store, "a b c d", session_iter=10 + number)
    put(store, "a b c d", agent_id="you")
    put(store, "a b c d", session_id="other")
    put(store, "a b c d", kind="knowledge_base")
    put(store, "a b c d", agent_id="you", session_iter=7)  # differs in two labels: neither wider scope contains it
    answer = ask(store)
    assert answer.elsewhere == {"other_iterations": 20, "other_agents": 1, "other_sessions": 1, "knowledge_base": 1}
    assert (answer.message or "").endswith(
        "elsewhere: 20 in the session's other iterations (omit session_iter), 1 from other agents (omit agent_id), 1 "
        "in other sessions (omit session_id), 1 in the knowledge base (search_knowledge_base_specific_chunks)."
    )


def test_an_answer_counts_close_matches_from_other_tasks_categories_and_tags(store: SessionMemoryStore) -> None:
    """Whatever their kind: knowledge has a category, reports may have tags."""
    store.store_memory("report", "a b c d", session_id="s", task_code="other", tags=["x"])
    store.store_memory("report", FAR, session_id="s", task_code="this", tags=["y"])
    store.store_memory("knowledge_base", "a b c d", agent_id="me", title="entry", category="x")
    store.store_memory("knowledge_base", FAR, agent_id="me", title="entry", category="y")
    scopes = [
        Scope("report", session_id="s", task_code="this"),
        Scope("report", tags=["y"]),
        Scope("knowledge_base", category="y"),
        Scope("knowledge_base", category="nothing"),
    ]
    answers = [store.search_chunks("a b c d", scope, Page(limit=5)) for scope in scopes]
    assert [answer.confidence for answer in answers] == ["related"] * 3 + ["weak"]
    assert [answer.elsewhere.get("other_tasks") for answer in answers] == [1, None, None, None]
    assert [answer.elsewhere.get("other_categories") for answer in answers] == [None, 1, 1, 1]
    assert "from other tasks (omit task_code)" in (answers[0].message or "")


def test_a_search_of_notes_counts_no_other_kinds(store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.tagged.store(FAR)
    monkeypatch.setattr("vector_memory.storage.queries.memories.MemoryQueries.count_by", None)
    assert store.tagged.search("a b c d").confidence == "related"


def test_a_search_of_all_kinds_searches_none_of_them_again_elsewhere(store: SessionMemoryStore) -> None:
    put(store, "a b c d", kind="working_memory")
    assert ask(store).elsewhere != {}
    scopes = [Scope(kind, session_id="s") for kind in ("report", "working_memory")]
    merged = store.across.several("a b c d", scopes, Page(limit=5), "chunk")
    assert [(answer.confidence, answer.elsewhere) for answer in merged.answers] == [("related", {}), ("strong", {})]


def test_close_matches_elsewhere_are_counted_but_not_shown(store: SessionMemoryStore) -> None:
    put(store, "a b c d secret", agent_id="you")
    put(store, "a b c d", agent_id="you")
    assert "secret" not in ask(store).model_dump_json()


def test_every_grain_reports_the_confidence(store: SessionMemoryStore) -> None:
    store.store_memory("system_memory", FAR, session_id="s")
    answers = [
        store.search_sections("a b c d", HERE, Page(limit=5)),
        store.search_documents("a b c d", HERE, Page(limit=5), order="relevance"),
        store.search_memories("a b c d", Scope("system_memory"), Page(limit=5)),
    ]
    assert [(answer.confidence, "No close match" in (answer.message or "")) for answer in answers] == [
        ("related", True)
    ] * 3


def test_without_a_comparison_by_meaning_there_is_no_confidence(store: SessionMemoryStore) -> None:
    answers = [
        store.search_chunks("a", HERE, Page(limit=5), mode="keyword"),
        store.search_documents(None, HERE, Page(limit=5)),
        store.search_scoped(HERE, Page(limit=5)),
    ]
    assert [answer.confidence for answer in answers] == [None] * 3


def test_without_a_model_words_are_searched_and_a_message_says_so(tmp_path: Path, settings: Settings) -> None:
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=NoModel()) as store:  # type: ignore[arg-type]
        store.store_memory("report", "# Proxy\n\nThe proxy was cold.", session_id="s")
        answer = store.search_chunks("proxies", Scope("report"), Page(limit=3))
        assert [chunk.sources for chunk in answer.results] == [["keyword"]]
        assert "Found by words only. There is no model: run vector-memory fetch-model." in (answer.message or "")
        assert "1 memory in this scope still lacks vectors" in (answer.message or "")
        assert answer.confidence is None


def test_while_the_model_is_being_loaded_the_words_are_searched_and_then_both(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = threading.Event()

    def load() -> LatticeEmbedder:
        loaded.wait(30)
        return LatticeEmbedder()

    monkeypatch.setattr(questions, "LOADING_SECONDS", 0.01)
    path = tmp_path / "memory.db"
    with SessionMemoryStore(path, settings, embedder=LatticeEmbedder()) as store:
        store.store_memory("report", "# Proxy\n\nThe proxy was cold.", session_id="s")
    model = EmbeddingModel(load)
    with SessionMemoryStore(path, settings, model=model) as store:
        model.start_loading()
        answer = store.search_chunks("proxies", Scope("report"), Page(limit=3))
        assert [chunk.sources for chunk in answer.results] == [["keyword"]]
        assert "still loading" in (answer.message or "")
        loaded.set()
        model.wait_for_loading(30)
        assert "vector" in store.search_chunks("proxies", Scope("report"), Page(limit=3)).results[0].sources
