"""The lists of common words: made while the index is loaded, equal to what the tables say, and read no more."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inside import index_of
from search.test_exact import fill, load_index, open_store
from search.test_keyword_index import REPORTS, require_exact
from vector_memory.domain import Page
from vector_memory.search.index import bm25, common, sketch
from vector_memory.search.index.lists import NO_POSTINGS, Packed
from vector_memory.search.index.units import Units
from vector_memory.storage.postings import key_of
from vector_memory.storage.sqlite import feed as feeds
from vector_memory.storage.sqlite.feed import SqliteFeed
from vector_memory.store import SessionMemoryStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionMemoryStore]:
    """A file of many sessions in turns, not loaded yet, every word of which may be kept."""
    monkeypatch.setattr(sketch, "MIN_LAG", 0)
    monkeypatch.setattr(bm25, "WIDE_SCOPE", 10**6)
    with open_store(tmp_path / "memory.db") as opened:
        fill(opened, random.Random(5), 40)
        for number in range(60):
            opened.store_memory("report", f"the zebra b{number % 3} quokka{number}", session_id=f"other {number % 7}")
        yield opened


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return how many rows of postings were read since the last question."""
    count, read_postings = 0, feeds.read_postings

    def counted(connection: object, row_ids: np.ndarray) -> object:
        nonlocal count
        count += len(row_ids)
        return read_postings(connection, row_ids)  # type: ignore[arg-type]

    def asked() -> int:
        nonlocal count
        count, before = 0, count
        return before

    monkeypatch.setattr(feeds, "read_postings", counted)
    return asked


def units_of(store: SessionMemoryStore) -> Units:
    passages = index_of(store)._passages
    return passages.units


@given(st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 300)))
def test_packed_integers_are_unpacked_as_they_were(values: list[int]) -> None:
    half = len(values) // 2
    packed = [Packed.of(np.array(part, np.int64)) for part in (values[:half], values[half:])]
    assert packed[0].followed_by(packed[1]).values().tolist() == values


def test_a_list_that_grows_says_what_was_added_to_it() -> None:
    grown = NO_POSTINGS.extended(np.array([3, 4, 900]), np.array([1, 300, 2]), 5)
    grown = grown.extended(np.array([901, 10**9]), np.array([1, 1]), 9)
    assert grown.entries().tolist() == [3, 4, 900, 901, 10**9]
    assert grown.counts.values().tolist() == [1, 300, 2, 1, 1]
    assert grown.memory_count == 9


def test_searches_do_not_read_the_postings_of_common_words(
    store: SessionMemoryStore, reads: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "MOST_WORDS", 8)
    load_index(store)
    reads()
    assert store.search_chunks("zebra", REPORTS, Page(limit=5), mode="keyword").results
    assert reads() == 0
    store.search_chunks("zebra quokka7", REPORTS, Page(limit=5), mode="keyword")
    assert reads()
    assert units_of(store).postings.get(key_of("the")) is None  # nobody asks for stop words


def test_the_lists_take_no_more_room_than_they_may(store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "ROOM", 4_500)
    load_index(store)
    assert 0 < units_of(store).postings._size <= common.ROOM


def test_lists_made_while_others_store_and_delete_say_what_the_tables_say(
    store: SessionMemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vector_memory.search.index.loader.BLOCKS_PER_READ", 2)
    read, calls = SqliteFeed.read_postings, 0
    with open_store(tmp_path / "memory.db") as other:

        def disturbed(feed: SqliteFeed, row_ids: np.ndarray) -> object:
            nonlocal calls
            calls += 1
            if calls in (2, 4):
                other.delete_memory(10 * calls)
                other.store_memory("report", f"zebra b1 quokka{calls} new", session_id=f"other {calls}")
            return read(feed, row_ids)

        monkeypatch.setattr(SqliteFeed, "read_postings", disturbed)
        load_index(store)
        assert calls > 4
        for query in ("zebra b1", "quokka2 zebra", "new b0"):
            require_exact(store, query, REPORTS)
        other.delete_memory(41)
        other.store_memory("report", "zebra b1 after", session_id="other 1")
        for query in ("zebra b1", "after b0"):
            require_exact(store, query, REPORTS)
