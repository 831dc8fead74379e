"""What a search reads: all its words in one sweep, only in blocks that may have them, and few vectors elsewhere."""

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest

from inside import index_of
from lattice import DIMENSIONS
from search.test_exact import fill, load_index, open_store
from vector_memory.domain import Page, Scope
from vector_memory.search import elsewhere
from vector_memory.search.index import bm25, common, scan, sketch
from vector_memory.search.index import loader as passage_index
from vector_memory.search.index.sketch import SLOTS, WordSketch
from vector_memory.storage.postings import BUCKETS
from vector_memory.storage.scoring import Numbers, Vectors
from vector_memory.storage.sqlite import feed as feeds
from vector_memory.storage.sqlite.feed import SqliteFeed
from vector_memory.storage.sqlite.time_limit import Guard
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report")


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All statements of the connections that are opened from now on."""
    executed: list[str] = []
    begin = Guard._begin

    def spied(guard: Guard, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        executed.append(sql)
        return begin(guard, cursor, sql, bindings)

    monkeypatch.setattr(Guard, "_begin", spied)
    return executed


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionMemoryStore]:
    """A file of some sessions, in memory with a sketch of its words but without lists of the common ones."""
    monkeypatch.setattr(sketch, "MIN_LAG", 0)
    monkeypatch.setattr(common, "MOST_WORDS", 0)
    with open_store(tmp_path / "memory.db") as opened:
        fill(opened, random.Random(3), 60)
        for number in range(20):
            opened.store_memory("report", f"a b filler {number}", session_id=f"other {number}")
        opened.store_memory("report", "a quokka", session_id="zoo")
        load_index(opened)
        yield opened


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The blocks of all postings that are read."""
    blocks: list[int] = []
    read_postings = feeds.read_postings

    def spied(connection: object, row_ids: Numbers) -> object:
        blocks.extend((row_ids // BUCKETS).tolist())
        return read_postings(connection, row_ids)  # type: ignore[arg-type]

    monkeypatch.setattr(feeds, "read_postings", spied)
    return blocks


def found_by_words(store: SessionMemoryStore, query: str, scope: Scope = REPORTS) -> set[int]:
    return {chunk.memory_id for chunk in store.search_chunks(query, scope, Page(limit=100), mode="keyword").results}


def test_a_block_may_contain_every_term_that_was_added_to_it_and_few_others() -> None:
    numbers = np.random.default_rng(1)
    words = WordSketch()
    blocks = np.array([1, 2, 700])
    owners, keys = numbers.integers(3, size=1_500), numbers.integers(1 << 40, size=1_500)
    words.add(blocks, owners, keys)
    for owner, key in zip(owners.tolist(), keys.tolist(), strict=True):
        assert words.blocks_with(key, 1_000)[blocks[owner]]
    others = [words.blocks_with(key, 1_000) for key in numbers.integers(1 << 40, size=500).tolist()]
    assert np.mean(np.stack(others)[:, blocks]) < 3 * (2 * 500 / SLOTS) ** 2
    assert not np.delete(np.stack(others), blocks, axis=1).any()


@pytest.mark.parametrize("wide", [0, 10**6], ids=["blocks of the scope", "lists of the whole file"])
def test_a_search_for_many_words_makes_as_many_statements_as_one_for_a_single_word(
    statements: list[str], store: SessionMemoryStore, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bm25, "WIDE_SCOPE", wide)

    def searched(query: str) -> list[str]:
        statements.clear()
        store.search_chunks(query, REPORTS, Page(limit=5), mode="keyword")
        return [sql for sql in statements if "keyword_postings" in sql]

    assert len(searched("a")) == len(searched("b c d e f g")) == 1


def test_postings_are_read_only_in_the_blocks_that_may_contain_the_word(
    store: SessionMemoryStore, read: list[int]
) -> None:
    assert found_by_words(store, "unheard0f") == set()
    assert read == []
    assert len(found_by_words(store, "quokka")) == 1
    assert len(read) == 1


def test_words_that_were_stored_after_the_sketch_are_found_in_old_and_in_new_blocks(
    store: SessionMemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sketch, "MIN_LAG", 10**9)
    with open_store(tmp_path / "memory.db") as other:
        stored = {
            other.store_memory("report", f"a wombat {session}", session_id=session).memory_id
            for session in ("zoo", "new one")
        }
    assert found_by_words(store, "wombat") == stored
    assert len(found_by_words(store, "wombat", Scope("report", session_id="zoo"))) == 1


def test_the_sketch_follows_when_many_memories_were_stored(
    store: SessionMemoryStore, tmp_path: Path, read: list[int]
) -> None:
    with open_store(tmp_path / "memory.db") as other:
        for number in range(40):
            other.store_memory("report", f"a wombat {number}", session_id=f"later {number}")
    found_by_words(store, "wombat")
    index_of(store).wait_for_loading()
    read.clear()
    assert found_by_words(store, "unheard0f") == set()
    assert read == []


def test_a_file_of_very_many_sessions_is_searched_without_a_sketch_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sketch, "MIN_LAG", 0)
    monkeypatch.setattr(sketch, "MAX_BLOCKS", 8)
    monkeypatch.setattr(sketch, "BLOCKS_PER_GROUP", 8)
    with open_store(tmp_path / "memory.db") as store:
        stored = [
            store.store_memory("report", f"a wombat {n}" if n % 2 else "a quokka", session_id=f"s{n}").memory_id
            for n in range(20)
        ]
        load_index(store)
        assert found_by_words(store, "wombat") == set(stored[1::2])
        assert found_by_words(store, "quokka") == set(stored[::2])
        assert len(index_of(store)._passages.units.sketch.groups) == 1  # type: ignore[union-attr]


def test_close_matches_elsewhere_are_counted_with_few_vectors_and_only_among_the_newest_memories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    scattered = SqliteFeed.scattered_vectors

    def spied(feed: SqliteFeed, scope: Scope, passage_ids: list[int]) -> tuple[Numbers, Vectors]:
        compared.append(len(passage_ids) if scope.session_id is None else 0)
        return scattered(feed, scope, passage_ids)

    monkeypatch.setattr(SqliteFeed, "scattered_vectors", spied)
    monkeypatch.setattr(passage_index, "MAX_CACHED_BYTES", 0)
    monkeypatch.setattr(scan, "COUNTED", 12)
    with open_store(tmp_path / "memory.db") as store:
        for number in range(40):
            store.store_memory("report", "w1 w2 w3 w4" if number % 8 else "a b c d", session_id=f"s{number}")
        store.store_memory("report", "w1 w2 w3 w4", session_id="here")
        for loaded in (False, True):
            if loaded:
                load_index(store)
            for probed, wanted in ((1_000, 5), (20, 2)):
                for module in (scan, elsewhere):
                    monkeypatch.setattr(module, "PROBED", probed)
                compared.clear()
                answer = store.search_chunks("a b c d", Scope("report", session_id="here"), Page(limit=5))
                assert answer.elsewhere == {"other_sessions": wanted}
                assert max(compared, default=0) <= 12


def test_vectors_of_the_latest_sessions_are_in_memory_before_the_first_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_index, "MAX_CACHED_BYTES", 40 * DIMENSIONS * 4)
    with open_store(tmp_path / "memory.db") as store:
        fill(store, random.Random(3), 60)
        store.store_memory("report", "a quokka", session_id="latest")
        load_index(store)
        monkeypatch.delattr(SqliteFeed, "vectors")
        assert store.search_chunks("quokka", Scope("report", session_id="latest")).total_results == 1
