"""Answers are as long as requested; pages and cursors double nothing and miss nothing while others store."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import Mock

import pytest

from lattice import LatticeEmbedder
from other_process import OtherProcess
from paging import pages
from vector_memory.domain import Page, Scope
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError, ValidationError
from vector_memory.storage.records import ListPosition, cursor_after, listing_of
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report", session_id="s")
Search = Callable[..., Any]
SEARCHES: dict[str, Callable[[SessionMemoryStore], Search]] = {
    "chunks": lambda store: lambda **page: store.search_chunks("word1 filler", REPORTS, Page(**page)),
    "sections": lambda store: lambda **page: store.search_sections("word1 filler", REPORTS, Page(**page)),
    "documents": lambda store: lambda **page: store.search_documents("word1", REPORTS, Page(**page), order="relevance"),
    "recent": lambda store: lambda **page: store.search_documents(None, REPORTS, Page(**page)),
    "scoped": lambda store: lambda **page: store.search_scoped(REPORTS, Page(**page)),
}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


@pytest.fixture
def filled(store: SessionMemoryStore) -> SessionMemoryStore:
    """Twelve reports of one chunk and one section each."""
    for number in range(12):
        store.store_memory("report", f"# Part {number}\n\nword{number} " + "filler " * 25, session_id="s")
    return store


@pytest.fixture
def half_embedded(filled: SessionMemoryStore, tmp_path: Path) -> SessionMemoryStore:
    """Also as many without vectors, with the same words."""
    with SessionMemoryStore(tmp_path / "memory.db", filled.settings, model=EmbeddingModel(no_engine)) as other:
        for number in range(12):
            other.store_memory("report", f"# Late {number}\n\nword{number} " + "filler " * 25, session_id="s")
    return filled


def no_engine() -> LatticeEmbedder:
    raise EmbeddingUnavailableError("There is no model.")


def joined(ask: Search, limit: int) -> list[int]:
    """Return the results of all pages, one after another."""
    return [key(result) for page in pages(lambda offset: ask(limit=limit, offset=offset)) for result in page.results]


def key(result: Any) -> int:
    return int(getattr(result, "memory_id", None) or result.id)


@every_search
def test_pages_join_to_the_whole_list(
    filled: SessionMemoryStore, search: Callable[[SessionMemoryStore], Search]
) -> None:
    ask = search(filled)
    whole = ask(limit=12)
    assert (len(whole.results), whole.next_offset) == (12, None)
    assert joined(ask, 5) == [key(result) for result in whole.results]


@pytest.mark.parametrize("limit", [1, 5, 7])
@pytest.mark.parametrize("kind", SEARCHES)
def test_pages_join_while_half_of_the_results_lack_vectors(
    half_embedded: SessionMemoryStore, kind: str, limit: int
) -> None:
    ask = SEARCHES[kind](half_embedded)
    seen = joined(ask, limit)
    if kind == "sections":  # the limit says how many chunks are looked at
        assert len(seen) == len(set(seen))
    else:
        whole = [key(result) for result in ask(limit=100).results]
        assert max(whole) > 12
        assert seen == whole


@every_search
def test_a_short_answer_names_what_it_omits_and_where_to_continue(
    filled: SessionMemoryStore, search: Callable[[SessionMemoryStore], Search]
) -> None:
    ask = search(filled)
    whole, short = ask(limit=12), ask(limit=12, max_tokens=800)
    kept = len(short.results)
    assert 0 < kept < 12
    assert sum(len(result.model_dump_json()) for result in short.results) <= 800 * 3
    assert [key(result) for result in short.results] == [key(result) for result in whole.results][:kept]
    assert len(short.omitted) == 12 - kept
    assert all(left.characters > 0 for left in short.omitted)
    assert short.next_offset == kept
    assert f"offset={kept}" in short.message
    rest = ask(limit=12, offset=short.next_offset)
    assert [key(result) for result in (*short.results, *rest.results)] == [key(result) for result in whole.results]


def test_no_answer_is_longer_than_the_settings_allow(filled: SessionMemoryStore, tmp_path: Path) -> None:
    settings = filled.settings.model_copy(update={"max_response_tokens": 500})
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=LatticeEmbedder()) as store:
        answer = store.search_chunks("word1", REPORTS, Page(limit=12))
        assert len(answer.results) < 12
        assert store.search_chunks("word1", REPORTS, Page(limit=12, max_tokens=10**9)) == answer


def test_a_later_page_of_sections_is_ranked_by_the_same_chunks_as_the_first(store: SessionMemoryStore) -> None:
    parts = "\n\n".join(f"# S{part}\n\n" + " ".join(f"w{part}{word}" for word in range(140)) for part in range(9))
    store.store_memory("report", parts, session_id="s")
    chunks = store.search_chunks("w11 w22 w33 w44", REPORTS, Page(limit=10), mode="vector").results
    found: dict[str, list[float]] = {}
    for chunk in chunks:
        found.setdefault(chunk.header_path, []).append(chunk.similarity or 0.0)
    expected = sorted(found, key=lambda header: -fmean(found[header]))
    assert any(len(similarities) > 1 for similarities in found.values())
    for offset in range(0, len(expected), 2):
        page = store.search_sections("w11 w22 w33 w44", REPORTS, Page(limit=2, offset=offset), mode="vector").results
        assert [section.section_header for section in page] == expected[offset : offset + 2]


@every_search
def test_after_the_last_result_there_is_none(
    filled: SessionMemoryStore, search: Callable[[SessionMemoryStore], Search]
) -> None:
    page = search(filled)(limit=5, offset=40)
    assert (page.results, page.next_offset) == ([], None)
    assert page.message


@pytest.mark.parametrize("page", [{"offset": -1}, {"offset": 10_001}, {"max_tokens": 199}, {"offset": True}])
def test_an_invalid_page_is_refused(filled: SessionMemoryStore, page: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(page))):
        filled.search_chunks("word1", REPORTS, Page(limit=5, **page))


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
    with pytest.raises(ValidationError, match="start again without cursor"):
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
        with pytest.raises(ValidationError, match="deleted"):
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
