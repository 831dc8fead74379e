"""Whatever two processes store and delete, each search finds at once what a brute-force scan finds."""

import contextlib
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import column, execute, is_in_schema
from faults.effort import effort
from inside import database_of, rebuild_words, retriever_of, storage_of
from lattice import DIMENSIONS
from other_process import OtherProcess
from search.by_force import ByForce, found_by
from search.test_exact import QUERIES, SCOPES, fill, open_store
from search.test_late_interaction import new_place, place
from vector_memory.domain import Page, Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DuplicateMemoryError
from vector_memory.settings import Settings
from vector_memory.storage.queries.passages import FIRST_MODEL
from vector_memory.storage.sqlite.schema import tables_of
from vector_memory.storage.sqlite.transactions import packed_signatures
from vector_memory.store import SessionMemoryStore

__all__ = ["place"]

pytestmark = pytest.mark.usefixtures("way")

REPORTS = Scope("report")
MODES = ("vector", "keyword", "hybrid")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["store", "delete", "lose"]), st.integers(0, 1), st.integers(0, 2**32)),
        st.tuples(st.sampled_from(["rebuild", "backfill"]), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("search"), QUERIES, SCOPES),
    ),
    min_size=3,
    max_size=25,
)


@pytest.fixture
def store(place: Path | str) -> Iterator[SessionMemoryStore]:
    """A memory of some memories."""
    with open_store(place) as opened:
        fill(opened, random.Random(3), 30)
        yield opened


def require_exact(store: SessionMemoryStore, query: str, scope: Scope) -> None:
    by_force = ByForce(store)
    for mode in MODES:
        assert found_by(store, query, scope, mode) == by_force.find(mode, query, scope)[:100]


def require_signatures(store: SessionMemoryStore) -> None:
    """Compare the signatures in a file with its vectors: there is one for each, and no other."""
    if is_in_schema(store):
        return
    with storage_of(store).read() as reader:
        table = tables_of(FIRST_MODEL if reader.vectors.current is None else reader.vectors.current.id).signatures
        ids, vectors = reader.vectors.candidates.vectors(column(store, "select id from memory_passages order by id"))
    units = column(store, "select coalesce(chunk_id, memory_id) from memory_passages order by id")
    found = execute(store, f"select passage_id, unit_id, signature from {table} order by passage_id")
    signatures = [one.tobytes() for one in packed_signatures(vectors)]
    assert found == list(zip(ids.tolist(), units, signatures, strict=True))


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
@settings(max_examples=effort(quick=10, long=400))
@given(steps=STEPS)
def test_two_processes_find_what_a_brute_force_scan_finds(
    steps: list[tuple[str, int | str, int | Scope]], engine: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = new_place(engine, tmp_path_factory.mktemp("steps"))
    with open_store(place) as one, open_store(place) as other:
        stores = (one, other)
        for step in steps:
            match step:
                case ("search", str(query), Scope() as scope):
                    for store in stores:
                        require_exact(store, query, scope)
                case (str(name), int(which), int(number)):
                    change(stores[which], name, random.Random(number))
        require_signatures(one)


def change(store: SessionMemoryStore, name: str, source: random.Random) -> None:
    ids = column(store, "select id from session_memories order by id")
    if name == "store":
        with contextlib.suppress(DuplicateMemoryError):
            fill(store, source, 2)
    elif name == "delete" and ids:
        store.delete_memory(source.choice(ids))
    elif name == "lose" and ids:
        lost = source.choice(ids)
        execute(store, "delete from memory_passages where memory_id = ?", lost)
        execute(store, "update session_memories set embedding_model_id = null where id = ?", lost)
    elif name == "rebuild":
        with database_of(store).write() as connection:
            rebuild_words(connection)
    elif name == "backfill":
        store.backfill_embeddings()


def test_a_text_acknowledged_to_another_process_is_found_at_once_and_a_deleted_one_no_more(
    store: SessionMemoryStore, place: Path | str
) -> None:
    with contextlib.closing(OtherProcess(place)) as other:  # type: ignore[arg-type]
        for number in range(4):
            receipt = other.call("store_memory", "report", f"unheard-of {number}", session_id="s1")
            first = store.search_chunks(f"unheard-of {number}", REPORTS, Page(limit=1), mode="vector").results[0]
            assert (first.memory_id, first.similarity) == (receipt["memory_id"], 1.0)
            words = store.search_chunks("unheard-of", REPORTS, Page(limit=9), mode="keyword").results
            assert len(words) == number + 1
        for chunk in store.search_chunks("a b", REPORTS, Page(limit=4), mode="vector").results:
            other.call("delete_memory", chunk.memory_id)
            require_exact(store, "a b", REPORTS)


def test_the_rest_is_found_when_nearly_all_memories_were_deleted(store: SessionMemoryStore, place: Path | str) -> None:
    with open_store(place) as other:
        other.store_memory("report", "same " * 6_000, session_id="s1")
        require_exact(store, "same same same same", REPORTS)
        for memory_id in range(5, 32):
            other.delete_memory(memory_id)
    for kind in ("report", "working_memory", "knowledge_base", "system_memory"):
        require_exact(store, "a b c", Scope(kind))
    require_signatures(store)


def test_a_search_sees_the_state_in_which_its_transaction_began(store: SessionMemoryStore, place: Path | str) -> None:
    retriever = retriever_of(store)
    for mode in MODES:
        question = retriever.prepare("a unheardof", mode)  # type: ignore[arg-type]
        with storage_of(store).read() as reader:
            before = retriever.within(reader, question, REPORTS).find(100)
            with open_store(place) as other:
                number = other.store_memory("report", "a unheardof", session_id="s1").memory_id
                assert retriever.within(reader, question, REPORTS).find(100) == before
                if before.hits:
                    other.delete_memory(before.hits[0].memory_id)
            assert retriever.within(reader, question, REPORTS).find(100) == before
        assert store.search_chunks("a unheardof", REPORTS, Page(limit=1), mode=mode).results[0].memory_id == number
        store.delete_memory(number)


def test_no_old_vectors_are_left_after_the_model_was_changed_and_changed_back(
    store: SessionMemoryStore, place: Path | str
) -> None:
    toy = Settings(embedding_model="toy", embedding_dim=DIMENSIONS, default_chunk_size=32, default_chunk_overlap=8)
    with SessionMemoryStore(place, toy, embedder=ToyEngine(DIMENSIONS)) as changed:
        changed.reembed()
    with open_store(place) as changed_back:
        changed_back.delete_memory(1)
        changed_back.reembed()
        changed_back.store_memory("report", "a b", session_id="s1")
    for scope in (REPORTS, Scope("report", session_id="s1")):
        require_exact(store, "a b", scope)
    require_signatures(store)


def test_threads_that_store_search_and_delete_find_the_stored_memories(store: SessionMemoryStore) -> None:
    names = [f"thread{number}word" for number in range(20)]
    start = threading.Barrier(len(names))

    def work(name: str) -> None:
        start.wait()
        for round_ in range(3):
            scope = Scope("report", session_id=name if round_ else None)
            text = f"a b {name} {round_}"
            receipt = store.store_memory("report", text, session_id=name)
            assert [chunk.memory_id for chunk in store.search_chunks(text, scope, Page(limit=1)).results] == [
                receipt.memory_id
            ]
            words = store.search_chunks(name, REPORTS, Page(limit=5), mode="keyword").results
            assert [chunk.memory_id for chunk in words] == [receipt.memory_id]
            store.delete_memory(receipt.memory_id)
            assert store.search_chunks(name, REPORTS, Page(limit=5), mode="keyword").results == []

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(work, names))
    for scope in (REPORTS, Scope("report", session_id="s1"), Scope("system_memory")):
        require_exact(store, "a b thread1word", scope)
