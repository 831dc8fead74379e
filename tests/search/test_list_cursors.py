"""Lists of the newest go on after a cursor: nothing doubles and nothing is missing while others store."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from other_process import OtherProcess
from vector_memory.domain import Page, Scope
from vector_memory.errors import ValidationError
from vector_memory.storage.records import ListPosition, cursor_after, listing_of
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report", session_id="s")
List = Callable[[SessionMemoryStore, Page], Any]
LISTS: dict[str, List] = {
    "scoped": lambda store, page: store.search_scoped(REPORTS, page),
    "oldest": lambda store, page: store.search_scoped(REPORTS, page, latest_first=False),
    "documents": lambda store, page: store.search_documents(None, REPORTS, page),
    "recent": lambda store, page: store.search_documents("finding", REPORTS, page, order="recent"),
    "memories": lambda store, page: store.search_memories(None, REPORTS, page),
}
every_list = pytest.mark.parametrize("listing", LISTS.values(), ids=LISTS)


def add(store: Any, number: int, **fields: Any) -> int:
    answer = store("report", f"Finding {number}.", session_id="s", agent_id="a", **fields)
    return int(answer["memory_id"] if isinstance(answer, dict) else answer.memory_id)


@pytest.fixture
def other(store: SessionMemoryStore, tmp_path: Path) -> Iterator[OtherProcess]:
    """Another process with the same memory, in which twelve reports of three iterations are, some of them dated."""
    for number in range(12):
        dated = {"created_at": f"2026-01-{number + 1:02}T00:00:00Z"} if number % 4 == 0 else {}
        add(store.store_memory, number, session_iter=number % 3 + 1, **dated)
    process = OtherProcess(tmp_path / "memory.db")
    yield process
    process.close()


def followed(ask: Callable[[Page], Any], meanwhile: Callable[[], object] = lambda: None, **page: Any) -> list[int]:
    """Return the ids of all pages, those that did not fit, too; something happens before the next is asked for."""
    ids, cursor = list[int](), None
    for _ in range(100):
        answer = ask(Page(cursor=cursor, **page))
        ids += [one.id for one in answer.results] or [int(line.split()[0]) for line in answer.lines]
        ids += [] if answer.results or answer.lines else [answer.omitted[0].id]
        cursor = answer.next_cursor
        if cursor is None:
            return ids
        meanwhile()
    raise AssertionError(f"The list does not end: {ids}")


@every_list
@pytest.mark.parametrize("detail", [None, "lines"])
def test_a_list_is_whole_and_nothing_doubles_while_another_process_stores(
    store: SessionMemoryStore, other: OtherProcess, listing: List, detail: str | None
) -> None:
    before = [one.id for one in listing(store, Page(limit=100)).results]
    numbers = iter(range(100, 200))

    def meanwhile() -> None:
        number = next(numbers)
        if number < 106:
            dated = {"created_at": "2026-01-05T12:00:00Z"} if number % 2 else {}
            add(partial(other.call, "store_memory"), number, session_iter=number % 4 + 1, **dated)

    ids = followed(partial(listing, store), meanwhile, limit=2, detail=detail)
    assert [number for number in ids if number in before] == before
    assert len(ids) == len(set(ids))


def test_a_list_goes_on_after_a_memory_that_was_deleted(store: SessionMemoryStore) -> None:
    ids = [add(store.store_memory, number) for number in range(5)][::-1]
    cursor = store.search_scoped(REPORTS, Page(limit=2)).next_cursor
    store.delete_memory(ids[1])
    assert [one.id for one in store.search_scoped(REPORTS, Page(cursor=cursor)).results] == ids[2:]


def test_a_list_after_a_dated_memory_that_is_gone_has_to_begin_again(store: SessionMemoryStore) -> None:
    add(store.store_memory, 1)
    for day in (1, 2, 3):
        add(store.store_memory, 1 + day, created_at=f"2026-01-0{day}T00:00:00Z")
    first = store.search_scoped(REPORTS, Page(limit=2))
    assert len(store.search_scoped(REPORTS, Page(cursor=first.next_cursor)).results) == 2
    store.delete_memory(first.results[-1].id)
    with pytest.raises(ValidationError, match="begin the list again"):
        store.search_scoped(REPORTS, Page(cursor=first.next_cursor))


@pytest.mark.usefixtures("other")
def test_what_does_not_fit_is_shown_after_the_cursor(store: SessionMemoryStore) -> None:
    for number in range(6):
        store.store_memory("report", f"{number} " + "long words " * 400, session_id="s", agent_id="b")
    before = [one.id for one in store.search_scoped(REPORTS, Page(limit=100)).results]
    assert followed(partial(store.search_scoped, REPORTS), limit=7, max_tokens=300) == before


@every_list
@pytest.mark.usefixtures("other")
def test_an_offset_still_pages_and_a_cursor_has_none(store: SessionMemoryStore, listing: List) -> None:
    whole = [one.id for one in listing(store, Page(limit=100)).results]
    first = listing(store, Page(limit=5))
    assert first.next_offset == 5
    assert [one.id for one in listing(store, Page(limit=100, offset=5)).results] == whole[5:]
    second = listing(store, Page(limit=5, cursor=first.next_cursor))
    assert [one.id for one in second.results] == whole[5:10]
    assert second.next_offset is None
    assert listing(store, Page(limit=100)).next_cursor is None


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize("cursor", ["", "5", "nothing", "1.2.00000000.x", "1.2.zz.2026", "9" * 40, "\0", "é"])
def test_what_is_no_cursor_is_refused(store: SessionMemoryStore, cursor: str) -> None:
    with pytest.raises(ValidationError, match="cursor"):
        store.search_scoped(REPORTS, Page(cursor=cursor))


@pytest.mark.usefixtures("other")
def test_the_cursor_of_another_list_is_refused(store: SessionMemoryStore) -> None:
    cursor = store.search_scoped(REPORTS, Page(limit=2)).next_cursor
    for scope in (Scope("report"), Scope("report", session_id="s", agent_id="a")):
        with pytest.raises(ValidationError, match="other filters"):
            store.search_scoped(scope, Page(cursor=cursor))
    with pytest.raises(ValidationError, match="another order"):
        store.search_scoped(REPORTS, Page(cursor=cursor), latest_first=False)
    with pytest.raises(ValidationError, match="offset"):
        Page(cursor=cursor, offset=2)
    with pytest.raises(ValidationError, match="next_offset"):
        store.search_documents("finding", REPORTS, Page(cursor=cursor))


@pytest.mark.usefixtures("other")
def test_a_limited_token_sees_only_its_own_after_any_cursor(store: SessionMemoryStore) -> None:
    everything = Scope("report")
    mine = [store.store_memory("report", f"Mine {number}.", session_id="mine").memory_id for number in range(3)]
    view = store.limited_to(["mine"])
    theirs = [store.search_scoped(everything, Page(limit=limit)).next_cursor for limit in range(1, 14)]
    for cursor in (one for one in theirs if not one.startswith("d")):
        assert {one.id for one in view.search_scoped(everything, Page(cursor=cursor)).results} <= set(mine)
    for cursor in (one for one in theirs if one.startswith("d")):  # where a hidden dated memory stands is not told
        with pytest.raises(ValidationError, match="gone"):
            view.search_scoped(everything, Page(cursor=cursor))


def test_the_cursor_of_a_dated_memory_does_not_tell_its_turn() -> None:
    """It is the id of one before it, which may be hidden from a limited token."""
    listing = listing_of(Scope("report"), "newest")
    memory = Mock(session_iter=1, turn=777, created_at="2026-01-01T00:00:00+00:00", id=42)
    cursor = cursor_after(memory, listing)
    assert "777" not in cursor
    assert ListPosition.parse(cursor, listing) == (1, None, memory.created_at, 42)


def test_the_newest_notes_go_on_after_a_cursor(store: SessionMemoryStore) -> None:
    for number in range(5):
        store.tagged.store(f"Note {number}.")
    first = store.tagged.list_recent(2)
    store.tagged.store("Another note.")
    second = store.tagged.list_recent(9, cursor=first.next_cursor)
    assert [one.content for one in (*first.results, *second.results)] == [
        f"Note {number}." for number in range(4, -1, -1)
    ]
    assert second.next_cursor is None
