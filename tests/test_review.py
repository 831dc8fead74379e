"""What a review of a memory shows: what later memories may replace, and what nobody has read."""

from datetime import UTC, datetime, timedelta

import pytest

from inside import storage_of
from vector_memory.errors import NotFoundError, ValidationError
from vector_memory.reading.review import UNREAD_DAYS, latest_of_each
from vector_memory.storage.records import Link, Links
from vector_memory.store import SessionMemoryStore
from waiting import eventually


def add(store: SessionMemoryStore, text: str, days_ago: float = 0, session: str = "s") -> int:
    at = (datetime.now(UTC) - timedelta(days=days_ago)).isoformat()
    memory_id = store.store_memory("report", text, session_id=session, agent_id="a", created_at=at).memory_id
    assert memory_id is not None
    return memory_id


def link(store: SessionMemoryStore, older: int, newer: int) -> None:
    with storage_of(store).write() as writer:
        writer.link(newer, Links({older: 0.9}))


def test_a_memory_is_shown_with_the_last_one_on_its_subject_and_what_that_says_in_its_place(
    store: SessionMemoryStore,
) -> None:
    first = add(store, "The port is 8080.", 3)
    second = add(store, "The port is 8081.", 2)
    third = add(store, "The port is 9090.", 1)
    link(store, first, second)
    link(store, second, third)
    lines = {line.id: line for line in store.review().lines}
    assert {number: line.later and line.later.id for number, line in lines.items()} == {first: third, second: third}
    assert lines[first].differences == ["8080 → 9090"]


def test_likely_contradictions_come_first_and_what_nobody_has_read_last(store: SessionMemoryStore) -> None:
    unread = add(store, "The office has plants.", UNREAD_DAYS + 1)
    contradicted, alike = add(store, "The limit is 5 MB.", 9), add(store, "Uploads need a token.", 8)
    newer, same = add(store, "The limit is 9 MB.", 7), add(store, "A token is needed for uploads.", 6)
    link(store, contradicted, newer)
    link(store, alike, same)
    assert [line.id for line in store.review().lines] == [contradicted, alike, unread]


def test_what_was_read_and_what_is_new_is_not_called_unread(store: SessionMemoryStore) -> None:
    read, _ = add(store, "Read long ago.", UNREAD_DAYS + 1), add(store, "Stored today.")
    store.get_memory_by_id(read)
    eventually(lambda: not store.review().lines)


def test_a_review_of_a_session_shows_nothing_of_others(store: SessionMemoryStore) -> None:
    mine, later = add(store, "The port is 8080.", 2), add(store, "The port is 9090.", 1)
    other = add(store, "The port is 7070.", 0.5, session="t")
    link(store, mine, later)
    link(store, later, other)
    assert [(line.id, line.later and line.later.id) for line in store.review("s").lines] == [(mine, later)]
    seen = store.limited_to(["s"]).review()
    assert [(line.id, line.later and line.later.id) for line in seen.lines] == [(mine, later)]


def test_an_unread_memory_is_in_a_limited_review_whatever_is_linked_to_it_in_others(store: SessionMemoryStore) -> None:
    mine, other = add(store, "The office has plants.", UNREAD_DAYS + 1), add(store, "The plants left.", session="t")
    link(store, mine, other)
    assert [line.id for line in store.limited_to(["s"]).review().lines] == [mine]


def test_what_a_later_memory_supersedes_needs_no_review(store: SessionMemoryStore) -> None:
    old = add(store, "The port is 8080.", 1)
    new = store.store_memory("report", "The port is 9090.", session_id="s", agent_id="a", supersedes=[old]).memory_id
    assert new is not None
    link(store, old, new)
    assert store.review().lines == []


def test_a_line_says_whether_the_later_memory_repeats_all_of_it(store: SessionMemoryStore) -> None:
    text = "The nightly export writes its files to the share."
    old, new = add(store, text, 2), add(store, f"{text} It needs an hour.", 1)
    link(store, old, new)
    assert [line.is_repeated for line in store.review().lines] == [True]
    later = add(store, f"{text.replace('writes', 'reads')} It needs an hour.")
    link(store, old, later)
    line = store.review().lines[0]
    assert (line.id, line.later and line.later.id, line.is_repeated) == (old, later, False)


def test_what_was_dismissed_is_not_shown_again_until_something_new_is_linked(store: SessionMemoryStore) -> None:
    first, second = add(store, "The port is 8080.", 3), add(store, "The port is 8081.", 2)
    link(store, first, second)
    store.dismiss(first)
    assert (store.review().lines, store.get_memory_page(first).later) == ([], [])
    third = add(store, "The port is 9090.", 1)
    link(store, second, third)
    assert [line.id for line in store.review().lines] == [second]
    link(store, first, third)
    assert {line.id for line in store.review().lines} == {first, second}
    with pytest.raises(NotFoundError):
        store.dismiss(99)


def test_what_is_pinned_is_not_called_unread(store: SessionMemoryStore) -> None:
    store.pin(add(store, "Kept on purpose.", UNREAD_DAYS + 1))
    assert store.review().lines == []


def test_only_the_first_lines_are_shown_and_all_are_counted(store: SessionMemoryStore) -> None:
    for number in range(3):
        add(store, f"Nobody reads number {number}.", UNREAD_DAYS + 3 - number)
    found = store.review(limit=2)
    assert (len(found.lines), found.total) == (2, 3)
    with pytest.raises(ValidationError, match="limit"):
        store.review(limit=0)


def test_the_last_of_a_chain_replaces_all_before_it() -> None:
    chain = [Link(1, 2, 0.9), Link(2, 3, 0.9), Link(3, 4, 0.9), Link(5, 6, 0.9)]
    assert latest_of_each(chain) == {1: 4, 2: 4, 3: 4, 5: 6}
    backdated = [Link(2, 3, 0.9), Link(3, 1, 0.9), Link(2, 1, 0.9)]
    assert latest_of_each(backdated) == {2: 3}
