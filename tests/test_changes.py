"""What is new in a session: complete, in order, and nothing twice."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.effort import effort
from inside import compare_likeliest, stop_counting
from lattice import LatticeEmbedder
from vector_memory.answers.models import ChangesResult
from vector_memory.domain import Page, Scope
from vector_memory.errors import EmbeddingUnavailableError, ValidationError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

KINDS = ("report", "report_observation", "working_memory", "system_memory", "session_context", "input_prompt")


def add(store: SessionMemoryStore, text: str, agent: str = "a", **more: object) -> int:
    fields: dict[str, object] = {"session_id": "s", "agent_id": agent, **more}
    kind = str(fields.pop("kind", "report"))
    memory_id = store.store_memory(kind, text, **fields).memory_id  # type: ignore[arg-type]
    assert memory_id is not None
    return memory_id


def ids(answer: ChangesResult) -> list[int]:
    return [memory.id for memory in answer.results]


def follow(
    store: SessionMemoryStore, since: str | None, page: Page = Page(limit=20), own_agent_id: str | None = None
) -> tuple[list[int], str]:
    """Go on from cursor to cursor until nothing is left; return the ids in the order they came, and the last cursor."""
    found: list[int] = []
    while True:
        answer = store.search_changes(Scope(session_id="s", own_agent_id=own_agent_id), since=since, page=page)
        found += ids(answer)
        assert answer.cursor is not None
        since = answer.cursor
        if not answer.has_more:
            return found, since


def test_without_a_cursor_the_whole_session_is_returned_in_the_order_of_storing(store: SessionMemoryStore) -> None:
    stored = [add(store, f"text {kind}", kind=kind, session_iter=9 - at) for at, kind in enumerate(KINDS)]
    add(store, "another session", session_id="t")
    add(store, "knowledge", kind="knowledge_base", session_id=None, title="T")
    answer = store.search_changes(Scope(session_id="s"))
    assert ids(answer) == stored
    assert (answer.has_more, answer.total_new) == (False, len(KINDS))
    assert [memory.memory_type for memory in answer.results] == list(KINDS)
    assert {memory.similarity for memory in answer.results} == {2.0}


def test_filters_narrow_to_a_kind_an_iteration_and_a_task(store: SessionMemoryStore) -> None:
    wanted = add(store, "x", kind="working_memory", session_iter=2, task_code="t")
    add(store, "x", kind="report", session_iter=2, task_code="t")
    add(store, "x", kind="working_memory", session_iter=1, task_code="t")
    add(store, "x", kind="working_memory", session_iter=2, task_code="u")
    answer = store.search_changes(Scope("working_memory", session_id="s", session_iter="v2", task_code="t"))
    assert ids(answer) == [wanted]


def test_memories_that_do_not_fit_come_with_the_next_cursor_and_long_texts_are_cut(store: SessionMemoryStore) -> None:
    stored = [add(store, f"Report {number}. " + "Some words. " * 200) for number in range(12)]
    first = store.search_changes(Scope(session_id="s"), page=Page(max_tokens=1_000))
    assert first.has_more
    assert 0 < len(first.results) < len(stored)
    assert len(first.model_dump_json()) < 1_000 * 3 + 500
    for memory in first.results:
        assert memory.content_end == len(memory.content) < memory.content_length
        assert memory.content == store.get_memory_by_id(memory.id).memory.content[: memory.content_end]
    assert "content_end" in (first.message or "")
    assert follow(store, None, Page(limit=20, max_tokens=1_000))[0] == stored


def test_with_a_query_the_best_new_memory_comes_first_whatever_its_kind(store: SessionMemoryStore) -> None:
    add(store, "alpha beta gamma delta", kind="report")
    cursor = store.search_changes(Scope(session_id="s")).cursor
    add(store, "one two three four", kind="report")
    observation = add(store, "alpha beta gamma delta", kind="report_observation")
    part = add(store, "alpha beta five six seven", kind="working_memory")
    add(store, "alpha beta gamma delta", "me", kind="report")
    answer = store.search_changes(
        Scope(session_id="s", own_agent_id="me"), since=cursor, query="alpha beta gamma delta", page=Page(limit=2)
    )
    assert ids(answer) == [observation, part]
    assert answer.results[0].similarity == 1.0
    assert (answer.total_new, answer.has_more, answer.confidence) == (3, False, "strong")
    assert "without query" in (answer.message or "")
    assert ids(store.search_changes(Scope(session_id="s"), since=answer.cursor)) == []


def test_a_query_without_a_close_new_memory_has_low_confidence(store: SessionMemoryStore) -> None:
    add(store, "w1 w2 w3 w4")
    answer = store.search_changes(Scope(session_id="s"), query="a b c d")
    assert answer.confidence == "related"
    assert "No close match" in (answer.message or "")


def test_new_memories_rank_the_same_however_their_passages_are_compared(
    store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        add(store, f"alpha {number} beta {number % 7} gamma", f"agent {number % 4}", kind=KINDS[number % 6])

    def found() -> list[int]:
        scope = Scope(session_id="s", own_agent_id="agent 1")
        return ids(store.search_changes(scope, since="7", query="alpha 3 beta", page=Page(limit=30)))

    before = found()
    compare_likeliest(monkeypatch)
    assert found() == before
    assert len(before) == len({*before}) == 25
    assert min(before) > 7


@pytest.mark.parametrize(
    ("since", "said"),
    [
        *((since, "since must be") for since in ("yesterday", "-1", "", "1.5", True)),
        ("5", "is not a cursor of this memory"),
    ],
)
def test_an_invalid_cursor_or_one_of_another_file_is_refused(store: SessionMemoryStore, since: str, said: str) -> None:
    add(store, "x")
    with pytest.raises(ValidationError, match=said):
        store.search_changes(Scope(session_id="s"), since=since)
    with pytest.raises(ValidationError, match="belongs to no session"):
        store.search_changes(Scope("knowledge_base", session_id="s"))


def test_an_unknown_session_says_so_and_becomes_known(store: SessionMemoryStore) -> None:
    answer = store.search_changes(Scope(session_id="s"))
    assert answer.success
    assert "list_sessions" in (answer.message or "")
    new = add(store, "first")
    assert ids(store.search_changes(Scope(session_id="s"), since=answer.cursor)) == [new]
    assert store.search_changes(Scope(session_id="s"), since=str(new)).message == "Nothing new."


def test_returning_a_memory_counts_as_reading_it(store: SessionMemoryStore) -> None:
    memory_id = add(store, "x")
    store.search_changes(Scope(session_id="s"))
    stop_counting(store)
    assert store.get_memory_by_id(memory_id).memory.access_count == 1


def test_without_a_model_the_words_are_compared_and_the_answer_says_so(tmp_path: Path, settings: Settings) -> None:
    def no_model(_texts: object) -> None:
        raise EmbeddingUnavailableError("There is no model.")

    embedder = LatticeEmbedder()
    embedder.embed = no_model  # type: ignore[assignment,method-assign]
    with SessionMemoryStore(tmp_path / "words.db", settings, embedder=embedder) as store:
        add(store, "gamma delta")
        found = add(store, "alpha beta")
        answer = store.search_changes(Scope(session_id="s"), query="beta")
    assert ids(answer) == [found]
    assert (answer.results[0].similarity, answer.confidence) == (None, None)
    assert "Found by words only" in (answer.message or "")
    assert "2 memories in this scope still lack vectors" in (answer.message or "")


STEPS = st.lists(
    st.one_of(
        *(st.tuples(st.just("store"), st.sampled_from("bba"), st.sampled_from("sst")) for _ in range(3)),
        st.tuples(st.just("delete"), st.integers(0, 30), st.none()),
        st.tuples(st.just("look"), st.integers(1, 4), st.none()),
    ),
    min_size=10,
    max_size=25,
)


@settings(max_examples=effort(quick=20, long=400))
@given(steps=STEPS)
def test_an_agent_that_follows_cursors_reads_every_memory_of_others_once(
    store: SessionMemoryStore, steps: list[tuple[str, int | str, str | None]]
) -> None:
    answer = store.search_changes(Scope(session_id="s"), since="now")
    assert (ids(answer), answer.has_more) == ([], False)
    cursor = answer.cursor
    waiting: list[int] = []
    for number, (step, value, session) in enumerate(steps):
        if step == "store":
            unique = f"{number} {store.search_changes(Scope(session_id='s'), since='now').cursor}"
            memory_id = add(store, unique, str(value), session_id=session)
            waiting += [memory_id] if (value, session) == ("b", "s") else []
        elif step == "delete" and waiting:
            store.delete_memory(waiting.pop(int(value) % len(waiting)))
        elif step == "look":
            answer = store.search_changes(
                Scope(session_id="s", own_agent_id="a"), since=cursor, page=Page(limit=int(value))
            )
            assert ids(answer) == waiting[: int(value)]
            assert answer.total_new == len(waiting)
            waiting = waiting[int(value) :]
            assert answer.has_more == bool(waiting)
            cursor = answer.cursor
    found, _ = follow(store, cursor, own_agent_id="a")
    assert found == waiting
    assert all(first < second for first, second in pairwise(found))


def test_changes_are_given_by_their_beginnings_and_whole_on_request(store: SessionMemoryStore) -> None:
    text = "# Findings\n\n" + "A sentence with a few words. " * 200
    for number in range(5):
        add(store, f"{text}{number}")
    short = store.search_changes(Scope(session_id="s"), page=Page(limit=5))
    assert len(short.model_dump_json()) < 2_000 * 3
    for change in short.results:
        assert (change.title, change.content_end) == ("Findings", len(change.content))
        assert text.startswith(change.content)
        rest = store.get_memory_by_id(change.id, offset=change.content_end or 0).memory
        assert change.content + rest.content == f"{text}{change.id - 1}"
    whole = store.search_changes(Scope(session_id="s"), page=Page(limit=5), full=True)
    assert [change.content for change in whole.results] == [f"{text}{number}" for number in range(5)]
