"""The index in memory never changes answers: they are those of the file in the search's own transaction."""

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from faults.effort import effort
from inside import database_of, index_of, load_index, retriever_of
from lattice import DIMENSIONS
from other_process import OtherProcess
from search.test_exact import brute_force, fill, open_store, passages_of, similarity
from search.two_processes import STEPS, Step, take
from vector_memory.domain import TRAITS, Page, Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DatabaseError
from vector_memory.search.index import loader as passage_index
from vector_memory.search.index import revisions
from vector_memory.search.index.comparison import candidates
from vector_memory.search.index.signatures import NEAREST_SHARE, Passages
from vector_memory.search.index.units import Units
from vector_memory.settings import Settings
from vector_memory.storage.queries.feed import IndexedMemory, PlacedPassage, Revision
from vector_memory.storage.scoring import signatures_of
from vector_memory.storage.sqlite.candidates import all_vectors_of, vectors_of
from vector_memory.storage.sqlite.feed import SqliteFeed
from vector_memory.storage.sqlite.rows import fetch_column
from vector_memory.storage.sqlite.transactions import SqliteConnection, SqliteReader
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report")


@pytest.fixture(params=[54_687, 60, 0], ids=["whole file cached", "a session cached", "signatures"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many vectors may be cached."""
    monkeypatch.setattr(passage_index, "MAX_CACHED_BYTES", request.param * DIMENSIONS * 4)
    return int(request.param)


@pytest.fixture
def path(tmp_path: Path, room: int) -> Path:
    """A file with some memories."""
    assert room >= 0
    with open_store(tmp_path / "memory.db") as store:
        fill(store, random.Random(3), 30)
    return tmp_path / "memory.db"


@pytest.fixture
def store(path: Path) -> Iterator[SessionMemoryStore]:
    """The file, opened by a process that answers from memory."""
    with open_store(path) as opened:
        load_index(opened)
        yield opened


def answers_from_memory(store: SessionMemoryStore) -> bool:
    with database_of(store).read() as connection:
        return index_of(store).view(SqliteFeed(SqliteConnection(connection))) is not None


def require_exact(store: SessionMemoryStore, query: str, scope: Scope) -> None:
    """Compare all results with those of a brute-force scan of the file."""
    chunked = TRAITS[scope.kind].chunked  # type: ignore[index]
    expected = brute_force(
        passages_of(store), query, scope, lambda passage: passage.chunk_id if chunked else passage.memory_id
    )[:100]
    if chunked:
        chunks = store.search_chunks(query, scope, Page(limit=100), mode="vector").results
        found = [(chunk.chunk_id, chunk.similarity) for chunk in chunks]
    else:
        memories = store.search_memories(query, scope, Page(limit=100), mode="vector").results
        found = [(memory.id, memory.similarity) for memory in memories]
    assert found == [(number, similarity(distance)) for number, distance in expected]


def test_a_memory_acknowledged_to_another_process_is_found_at_once(store: SessionMemoryStore, path: Path) -> None:
    other = OtherProcess(path)
    try:
        for number in range(5):
            receipt = other.call("store_memory", "report", f"unheard-of {number}", session_id="s1")
            first = store.search_chunks(f"unheard-of {number}", REPORTS, Page(limit=1), mode="vector").results[0]
            assert (first.memory_id, first.similarity) == (receipt["memory_id"], 1.0)
            assert answers_from_memory(store)
    finally:
        other.close()


def test_a_memory_deleted_by_another_process_is_not_found_and_the_next_one_is(
    store: SessionMemoryStore, path: Path
) -> None:
    require_exact(store, "a b", REPORTS)
    other = OtherProcess(path)
    try:
        for chunk in store.search_chunks("a b", REPORTS, Page(limit=8), mode="vector").results:
            other.call("delete_memory", chunk.memory_id)
            require_exact(store, "a b", REPORTS)
            require_exact(store, "a b", Scope("report", session_id="s1"))
        assert answers_from_memory(store)
    finally:
        other.close()


def test_when_most_memories_are_deleted_the_rest_is_found(store: SessionMemoryStore, path: Path) -> None:
    with database_of(store).read() as connection:
        ids = fetch_column(connection, "select id from session_memories")
    with open_store(path) as other:
        for memory_id in ids[:-4]:
            other.delete_memory(memory_id)
    for kind in ("report", "working_memory", "knowledge_base", "system_memory"):
        require_exact(store, "a b c", Scope(kind))


def test_the_rest_is_found_after_more_deleted_passages_than_one_fetch_returns(
    store: SessionMemoryStore, path: Path
) -> None:
    with open_store(path) as other:
        receipt = other.store_memory("report", "same " * 8_000, session_id="s1")
        assert (
            store.search_chunks("same same same same", REPORTS, Page(limit=1), mode="vector").results[0].similarity
            == 1.0
        )
        other.delete_memory(receipt.memory_id)
    require_exact(store, "same same same same", REPORTS)
    require_exact(store, "same same same same", Scope("report", session_id="s1"))


def test_after_the_model_was_changed_and_changed_back_no_old_vectors_are_left(
    store: SessionMemoryStore, path: Path
) -> None:
    require_exact(store, "a b", REPORTS)
    toy = Settings(embedding_model="toy", embedding_dim=DIMENSIONS, default_chunk_size=32, default_chunk_overlap=8)
    with SessionMemoryStore(path, toy, embedder=ToyEngine(DIMENSIONS)) as changed:
        changed.reembed()
    with open_store(path) as changed_back:
        changed_back.delete_memory(1)
        changed_back.reembed()
        changed_back.store_memory("report", "a b", session_id="s1")
    for _ in range(2):
        require_exact(store, "a b", REPORTS)
        require_exact(store, "a b", Scope("report", session_id="s1"))
        index_of(store).wait_for_loading()
    assert answers_from_memory(store)


def test_a_search_sees_the_state_in_which_its_transaction_began(store: SessionMemoryStore, path: Path) -> None:
    retriever = retriever_of(store)
    question = retriever.prepare("unheard-of", None)
    scope = Scope("report", session_id="s1")
    with database_of(store).read() as connection:
        reader = SqliteReader(connection)
        before = retriever.within(reader, question).find(scope, 100)
        with open_store(path) as other:
            receipt = other.store_memory("report", "unheard-of", session_id="s1")
        newest = store.search_chunks("unheard-of", scope, Page(limit=1)).results[0]
        assert newest.memory_id == receipt.memory_id
        assert retriever.within(reader, question).find(scope, 100) == before
    assert store.search_chunks("unheard-of", scope, Page(limit=1)).results == [newest]


def test_a_transaction_that_began_before_the_index_was_read_gets_all_it_sees(path: Path) -> None:
    scope = Scope("report", session_id="s1")
    with open_store(path) as store:
        retriever = retriever_of(store)
        question = retriever.prepare("a b", None)
        with database_of(store).read() as connection:
            reader = SqliteReader(connection)
            before = retriever.within(reader, question).find(scope, 100)
            store.store_memory("report", "a b", session_id="s1")
            load_index(store)
            assert retriever.within(reader, question).find(scope, 100) == before
        require_exact(store, "a b", scope)


def test_data_that_one_search_read_is_kept_for_the_next_although_more_was_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(feed: SqliteFeed, ids: list[int]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        read.extend(ids)
        return all_vectors_of(feed.connection.raw, ids)

    with open_store(tmp_path / "memory.db") as store:
        fill(store, random.Random(3), 30)
        load_index(store)
        index_of(store)._cached.clear()
        monkeypatch.setattr(SqliteFeed, "vectors", counted)
        with database_of(store).read() as first:
            earlier = index_of(store).view(SqliteFeed(SqliteConnection(first)))
            store.store_memory("report", "Something new.", session_id="s1")
            with database_of(store).read() as second:
                later = index_of(store).view(SqliteFeed(SqliteConnection(second)))
                assert later.count > earlier.count
                index_of(store).cached(earlier, REPORTS)
                assert len(read) >= earlier.count
                read.clear()
                cached = index_of(store).cached(later, REPORTS)
                assert cached.count == later.count
                assert len(read) == later.count - earlier.count


def test_many_new_memories_of_another_process_are_found_before_they_are_read(
    store: SessionMemoryStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_index, "PASSAGES_PER_READ", 3)
    monkeypatch.setattr(revisions, "MAX_BEHIND", 3)
    with open_store(path) as other:
        fill(other, random.Random(8), 20)
    assert not answers_from_memory(store)
    require_exact(store, "a b", REPORTS)
    index_of(store).wait_for_loading()
    assert answers_from_memory(store)
    require_exact(store, "a b", REPORTS)


@settings(max_examples=effort(quick=20, long=400))
@given(steps=STEPS)
def test_two_processes_that_store_and_delete_find_what_a_brute_force_scan_finds(
    steps: list[Step], room: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert room >= 0
    take(steps, tmp_path_factory.mktemp("steps") / "memory.db", require_exact)


def test_vectors_read_in_blocks_are_those_that_sqlite_vec_gives(store: SessionMemoryStore) -> None:
    with database_of(store).read() as connection:
        passage_ids = fetch_column(connection, "select id from memory_passages order by id")
        rows = [
            row
            for table in ("vec_chunk_search", "vec_session_search")
            for row in connection.execute(f"select passage_id, embedding from {table}").fetchall()
        ]
        ids, vectors = all_vectors_of(connection, [*passage_ids, 10**6])
        fewer, some = all_vectors_of(connection, passage_ids[3:40:7])
    assert {number: vector.tobytes() for number, vector in zip(ids.tolist(), vectors, strict=True)} == dict(rows)
    assert ids.tolist() == passage_ids
    assert fewer.tolist() == passage_ids[3:40:7]
    assert some.tolist() == vectors[3:40:7].tolist()


def test_vectors_read_one_by_one_are_those_that_sqlite_vec_gives(store: SessionMemoryStore) -> None:
    with database_of(store).read() as connection:
        rows = dict(connection.execute("select passage_id, embedding from vec_chunk_search").fetchall())
        wanted = sorted(rows)[::5]
        ids, vectors = SqliteFeed(SqliteConnection(connection)).scattered_vectors(REPORTS, [*wanted, 10**6])
    assert ids.tolist() == wanted
    assert [vector.tobytes() for vector in vectors] == [rows[number] for number in wanted]


@pytest.mark.parametrize("share", [1.0, 0.6, 0.1])
def test_the_likeliest_are_those_whose_signs_agree_best_with_the_query(share: float) -> None:
    numbers = np.random.default_rng(4)
    vectors = numbers.standard_normal((3000, 100), dtype=np.float32)
    query = numbers.standard_normal(100, dtype=np.float32)
    query /= np.linalg.norm(query)
    bonus = np.where(numbers.random(3001) < share, np.float32(0), np.float32(-np.inf))
    bonus[1::7] += 0.3
    passages = passages_with(vectors)
    limit, nearest = 80, 80 // NEAREST_SHARE
    chosen = passages.likeliest(query, bonus, 3000, passages.differences(query, 3000), limit)
    rows = np.flatnonzero(np.isfinite(bonus[1:]))
    same = passages.likeliest(query, bonus, rows, passages.differences(query, rows), limit)
    assert set(same.tolist()) == set(chosen.tolist())
    unequal = ((vectors > 0) != (query > 0)).sum(axis=1)
    once, own = np.cos(np.pi * unequal / 100), bonus[1:]
    twice = np.where(vectors > 0, query, -query).sum(axis=1) / np.sqrt(2 * 100 / np.pi)
    sifted = np.union1d(best(once + own, 4 * (limit - nearest)), best(once + np.minimum(own, 0), 4 * nearest))
    rest = np.setdiff1d(np.arange(3000), sifted)
    twice[rest] = -np.inf
    wanted = np.union1d(best(twice + own, limit - nearest), best(twice + np.minimum(own, 0), nearest))
    assert np.isfinite(own[chosen]).all()
    assert set(chosen.tolist()) == set(wanted.tolist())


def passages_with(vectors: NDArray[np.float32]) -> Passages:
    """Return the passages of a memory of this many chunks with one passage each."""
    count, dimensions = vectors.shape
    memory = IndexedMemory(1, "report", "s", "a", "", 1, "2026-01-01", 1 << 20, np.ones(count, np.uint32))
    chunks = np.array([[1, number + 1] for number in range(count)])
    units = Units.empty(1).extended([memory], chunks, Revision(1, 0, 1, count, count))
    passages = [PlacedPassage(number + 1, 1, number + 1) for number in range(count)]
    return Passages.empty(units, dimensions).extended(passages, signatures_of(vectors), count)


def best(values: NDArray[np.floating], count: int) -> NDArray[np.int64]:
    """Return the places of the highest values, with all that are as high as the last of them."""
    return np.flatnonzero((values >= np.sort(values)[-count]) & np.isfinite(values))


def test_a_signature_has_one_bit_for_each_number() -> None:
    vectors = np.array([[1, -1, 0, 2] * 20, [-1] * 80], np.float32)
    assert [sum(int(word).bit_count() for word in words) for words in signatures_of(vectors)] == [40, 0]


def test_a_damaged_block_of_vectors_is_reported_with_advice(store: SessionMemoryStore, path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("update vec_chunk_search_vector_chunks00 set vectors = x'00'")
    connection.close()
    with database_of(store).read() as reader, pytest.raises(DatabaseError, match="doctor --fix"):
        vectors_of(reader, "vec_chunk_search", [1, 2, 3])
    for change in ("select 1", "delete from vec_chunk_search_vector_chunks00"):
        connection = apsw.Connection(str(path))
        connection.execute(change)
        connection.close()
        with database_of(store).read() as reader, pytest.raises(DatabaseError, match="doctor --fix"):
            SqliteFeed(SqliteConnection(reader)).scattered_vectors(REPORTS, [1, 2, 3])
    with open_store(path) as other:
        load_index(other)
        with pytest.raises(DatabaseError):
            other.search_chunks("a b", REPORTS, Page(limit=5), mode="vector")


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0.1, 0.2, 0.3, 0.4])), max_size=30), st.integers(1, 8))
def test_candidates_are_the_highest_sums_of_the_best_groups_in_whatever_order_they_stand(
    passages: list[tuple[int, float]], count: int
) -> None:
    groups = np.array([group for group, _ in passages], np.int32)
    sums = np.array([value for _, value in passages])
    highest = {group: max(value for other, value in passages if other == group) for group, _ in passages}
    least = sorted(highest.values(), reverse=True)[:count][-1] if highest else 0.0
    expected = [place for place, (group, value) in enumerate(passages) if value == highest[group] >= least]
    assert candidates(sums, groups, count).tolist() == expected
