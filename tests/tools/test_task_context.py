"""What continues a session is short: its state and prompts, and the beginnings of what was found."""

import json

import pytest

from vector_memory.answers.budget import BYTES_PER_TOKEN
from vector_memory.domain import Page, Scope
from vector_memory.errors import ValidationError
from vector_memory.store import SessionMemoryStore

LONG = "# Findings\n\n" + "A sentence with a few words. " * 700


def add(store: SessionMemoryStore, kind: str, text: str, iteration: int = 1) -> int:
    return store.store_memory(kind, text, session_id="s", session_iter=iteration).memory_id


def test_reports_of_real_size_are_given_by_title_beginning_and_id(store: SessionMemoryStore) -> None:
    reports = [add(store, "report", f"{LONG}{number}") for number in range(5)]
    state = add(store, "session_context", "The state. " * 100)
    for number in range(20):
        add(store, "input_prompt", f"Prompt {number}.")
    answer = store.load_session_context_for_task("s", 1)
    assert len(json.dumps(answer.model_dump(), ensure_ascii=False)) < 4_000 * BYTES_PER_TOKEN
    assert [report.id for report in answer.recent_reports] == reports[::-1]
    for report in answer.recent_reports:
        assert report.title == "Findings"
        assert LONG.startswith(report.content)
        assert report.content_end == len(report.content) < 600
        assert report.content_length > 20_000
    assert (answer.session_context.id, answer.session_context.content_end) == (state, None)
    assert len(answer.input_prompts) == 20
    assert "read on with get_memory_by_id" in (answer.message or "")


def test_a_long_state_is_cut_rather_than_anything_left_out(store: SessionMemoryStore) -> None:
    add(store, "session_context", "The state. " * 4_000)
    for number in range(5):
        add(store, "report", f"{LONG}{number}")
    answer = store.load_session_context_for_task("s", 1)
    assert (answer.session_context.content_end or 0) > 3_000
    assert len(answer.recent_reports) == 5


def test_max_tokens_makes_room_for_more(store: SessionMemoryStore) -> None:
    add(store, "session_context", "The state. " * 4_000)
    short, long = (store.load_session_context_for_task("s", 1, most) for most in (500, 12_000))
    assert len(short.model_dump_json()) <= 500 * BYTES_PER_TOKEN < len(long.model_dump_json())
    with pytest.raises(ValidationError, match="max_tokens must be"):
        store.load_session_context_for_task("s", 1, 10)


def test_reports_of_earlier_iterations_fill_up_after_those_of_the_iteration(store: SessionMemoryStore) -> None:
    earlier = [add(store, "report", f"Report {at}.", number) for at, number in enumerate((1, 2, 2))]
    own = [add(store, "report", "Own 1.", 3), add(store, "report", "Own 2.", 3)]
    for number in range(7):
        add(store, "report", f"Later {number}.", 4)
    answer = store.load_session_context_for_task("s", 3)
    assert [report.id for report in answer.recent_reports] == [*own[::-1], *earlier[::-1]]
    add(store, "report", "Own 3.", 3)
    assert len(store.load_session_context_for_task("s", "v3").recent_reports) == 5


def test_an_iteration_without_a_state_points_to_the_latest_that_has_one(store: SessionMemoryStore) -> None:
    add(store, "report", "A finding.", 1)
    assert "No session context is stored in this session" in (store.load_session_context_for_task("s", 1).message or "")
    add(store, "session_context", "Old.", 1)
    latest = add(store, "session_context", "Newer.", 2)
    answer = store.load_session_context_for_task("s", 5)
    assert answer.session_context is None
    assert f"for iteration 5: the latest is memory {latest}, of iteration 2" in (answer.message or "")
    assert "No session context" not in (store.load_session_context_for_task("s", 2).message or "")


def test_each_observation_is_given_once(store: SessionMemoryStore) -> None:
    """On a report of the answer: with the corrections. Pinned: with what is pinned. The others: the latest."""
    report = add(store, "report", "The pool has 10 connections.")
    on_it = [
        store.store_memory("report_observation", text, session_id="s", parent_report_id=report, corrects=wrong)
        for text, wrong in (("It has 20.", True), ("It is in pool.py.", False), ("It is shared.", False))
    ]
    loose = add(store, "report_observation", "About nothing.")
    store.pin(on_it[2].memory_id)
    answer = store.load_session_context_for_task("s", 1)
    assert [note.id for note in answer.observations] == [on_it[0].memory_id, on_it[1].memory_id]
    assert [entry.id for entry in answer.pinned] == [on_it[2].memory_id]
    assert [entry.id for entry in answer.recent_observations] == [loose]


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("deploy_2026_11", "deploy-2026-11"),
        ("DEPLOY-2026-11", "deploy-2026-11"),
        ("deploy-2026-1", "deploy-2026-11"),
        ("review", "Reviews"),
        ("something else", None),
    ],
)
def test_an_id_that_no_session_has_is_answered_with_the_nearest(
    store: SessionMemoryStore, asked: str, nearest: str | None
) -> None:
    for name in ("deploy-2026-11", "Reviews", "main"):
        store.store_memory("report", "A finding.", session_id=name)
    said = {
        store.load_session_context_for_task(asked, None).message,
        store.get_session_stats(asked).message,
        store.search_chunks("finding", Scope("report", session_id=asked), Page(limit=1)).message,
        store.search_changes(Scope(session_id=asked)).message,
    }
    for message in said:
        assert "Nothing is stored in this session: list_sessions lists the sessions." in (message or "")
        assert (f'The nearest id is "{nearest}".' in (message or "")) == (nearest is not None)
        assert ("nearest" in (message or "")) == (nearest is not None)


def test_a_session_that_exists_is_not_called_unknown(store: SessionMemoryStore) -> None:
    """Not even if all of it is superseded, or in another iteration."""
    older = add(store, "report", "It has 10.")
    store.store_memory("report", "It has 20.", session_id="t", supersedes=[older])
    add(store, "working_memory", "Half done.", 3)
    for iteration in (1, 3):
        assert "Nothing" not in (store.load_session_context_for_task("s", iteration).message or "")
