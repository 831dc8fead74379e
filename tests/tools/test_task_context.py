"""What continues a session is short: its state and prompts, and the beginnings of what was found."""

import json

import pytest

from vector_memory.answers.budget import BYTES_PER_TOKEN
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
    assert "No session context is stored in this session" in (store.load_session_context_for_task("s", 1).message or "")
    add(store, "session_context", "Old.", 1)
    latest = add(store, "session_context", "Newer.", 2)
    answer = store.load_session_context_for_task("s", 5)
    assert answer.session_context is None
    assert f"for iteration 5: the latest is memory {latest}, of iteration 2" in (answer.message or "")
    assert "No session context" not in (store.load_session_context_for_task("s", 2).message or "")
