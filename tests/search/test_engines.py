"""Every storage engine gives the same answers to the same searches: ids, order, scores and all that is said of them."""

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import shared_cluster
from engine_memories import ENGINES, MODEL, add, derived, new_memory, unit_vector
from faults.effort import effort
from inside import database_of, rebuild_words, storage_of
from lattice import DIMENSIONS
from search.test_exact import QUERIES, SCOPES, WAYS, fill, load_index, open_store
from vector_memory.domain import TRAITS, MemoryKind, Page, Scope
from vector_memory.errors import DuplicateMemoryError
from vector_memory.search.index import loader as passage_index
from vector_memory.search.index.loader import PassageIndex
from vector_memory.search.index.scan import Scan
from vector_memory.storage.base import Storage
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postings import BUCKETS, LENGTH, MAX_COUNT, POSTING, hashes_of, numbers_of
from vector_memory.storage.records import Embedded
from vector_memory.storage.scoring import Method
from vector_memory.store import SessionMemoryStore

CHANGING = {"created_at", "updated_at", "accessed_at", "access_count"}
"""What depends on when a memory was stored and read."""


def replaced(scope: Scope, **changes: Any) -> Scope:
    return Scope(**{field.name: getattr(scope, field.name) for field in fields(scope)} | changes)


FILTERS = st.builds(
    replaced,
    SCOPES,
    own_agent_id=st.sampled_from([None, None, "a1"]),
    after_id=st.sampled_from([None, None, 40]),
    sessions=st.sampled_from([None, None, ("s1", "s3")]),
)
PAGES = st.builds(Page, limit=st.sampled_from([1, 5, 30]), offset=st.sampled_from([0, 0, 3]))
MODES = st.sampled_from(["hybrid", "vector", "keyword"])


OFTEN_TAKEN = ("tables", "scan", "memory", "memory, signatures")


class Pair(NamedTuple):
    """The same memories in a file and in a PostgreSQL schema."""

    file: SessionMemoryStore
    schema: SessionMemoryStore


def filled(folder: Path) -> tuple[Path, str]:
    """Store the same memories with both engines, and return the addresses."""
    addresses = folder / "memory.db", f"{shared_cluster().url()}&schema=engines_{uuid.uuid4().hex}"
    for address in addresses:
        with open_store(address) as store:
            fill(store, random.Random(7), 100)
            for number in range(12):
                store.tagged.store(f"note {number} a b", "learning" if number % 2 else None, ["x", "y"][: number % 3])
    return addresses


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return filled(tmp_path_factory.mktemp("engines"))


@pytest.fixture(scope="module", params=OFTEN_TAKEN)
def pair(request: pytest.FixtureRequest, addresses: tuple[Path, str]) -> Iterator[Pair]:
    way = WAYS[request.param]
    with (
        pytest.MonkeyPatch.context() as patch,
        open_store(addresses[0], **way.settings) as file,
        open_store(addresses[1], **way.settings) as schema,
    ):
        patch.setattr(passage_index, "MAX_CACHED_BYTES", way.cached * DIMENSIONS * 4)
        if way.loaded:
            load_index(file)
            load_index(schema)
        yield Pair(file, schema)


def comparable(answer: Any) -> Any:
    """Return an answer without what depends on the time."""
    if isinstance(answer, dict):
        return {name: comparable(value) for name, value in answer.items() if name not in CHANGING}
    return [comparable(value) for value in answer] if isinstance(answer, list) else answer


def answers(store: SessionMemoryStore, query: str, scope: Scope, page: Page, mode: str) -> list[Any]:
    """Return what all searches of a kind of memories find."""
    searches: list[Any] = [store.search_memories]
    if TRAITS[scope.kind].chunked:  # type: ignore[index]
        searches = [store.search_chunks, store.search_sections, store.search_documents]
    return [comparable(search(query, scope, page, mode=mode).model_dump()) for search in searches]


@given(query=QUERIES, scope=FILTERS, page=PAGES, mode=MODES)
@settings(max_examples=effort(quick=20, long=1_000))
def test_every_search_has_the_same_answer_from_both_engines(
    pair: Pair, query: str, scope: Scope, page: Page, mode: str
) -> None:
    assert answers(pair.schema, query, scope, page, mode) == answers(pair.file, query, scope, page, mode)


@given(
    query=QUERIES,
    category=st.sampled_from([None, "learning", "security"]),
    tags=st.sampled_from([(), ("x",), ("x", "y")]),
    limit=st.integers(1, 12),
)
@settings(max_examples=effort(quick=10, long=300))
def test_searches_for_notes_have_the_same_answer_from_both_engines(
    pair: Pair, query: str, category: str | None, tags: tuple[str, ...], limit: int
) -> None:
    found = [comparable(store.tagged.search(query, limit, category=category, tags=tags).model_dump()) for store in pair]
    assert found[0] == found[1]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("store"), st.integers(0, 2**32)),
        st.tuples(st.just("delete"), st.integers(0, 2**32)),
        st.tuples(st.just("rebuild"), st.just(0)),
    ),
    min_size=3,
    max_size=effort(quick=6, long=25),
)


def apply(store: SessionMemoryStore, step: str, number: int) -> None:
    source = random.Random(number)
    with storage_of(store).read() as reader:
        ids = reader.ids(Scope())
    if step == "store":
        with suppress(DuplicateMemoryError):
            fill(store, source, 1)
    elif step == "delete" and ids:
        store.delete_memory(source.choice(ids))
    elif step == "rebuild":
        with database_of(store).write() as connection:
            rebuild_words(connection)


@given(steps=STEPS, query=QUERIES, scope=SCOPES)
@settings(max_examples=effort(quick=3, long=100))
def test_answers_stay_the_same_while_memories_come_and_go(
    pair: Pair, steps: list[tuple[str, int]], query: str, scope: Scope
) -> None:
    for step in steps:
        for store in pair:
            apply(store, *step)
        expected, *found = [answers(store, query, scope, Page(limit=30), "hybrid") for store in pair]
        assert found == [expected]


def postings_by_unit(connection: Connection) -> Counter[tuple[int, int, int, int, int]]:
    """Return all postings as memory, number of the unit in it, bucket, hash and count, wherever they are stored."""
    found = Counter[tuple[int, int, int, int, int]]()
    for memory_id, block_id, first, lengths in connection.execute("select * from keyword_memories").fetchall():
        units = len(lengths) // LENGTH.itemsize
        sql = f"select id, postings from keyword_postings where id / {BUCKETS} = %s"
        for number, row in connection.execute(sql, (block_id,), binary=True).fetchall():
            bucket, postings = number % BUCKETS, np.frombuffer(row, POSTING)
            numbers = numbers_of(postings) - first
            inside = (numbers >= 0) & (numbers < units)
            columns = (numbers, hashes_of(postings), postings & np.uint64(MAX_COUNT))
            rows = zip(*(column[inside].tolist() for column in columns), strict=True)
            found.update((memory_id, number, bucket, hashed, count) for number, hashed, count in rows)
    return found


def test_postings_after_many_stores_and_deletions_are_those_of_a_rebuild(tmp_path: Path) -> None:
    source = random.Random(5)
    ids: list[int] = []
    with closing(ENGINES["postgres"](tmp_path)) as storage:
        for number in range(60):
            kind = source.choice([MemoryKind.REPORT, MemoryKind.INPUT_PROMPT])
            content = f"{number} " + " ".join(source.choices("abcdefgh", k=source.choice([3, 300])))
            ids.append(add(storage, new_memory(content, kind, session_id=source.choice("st"))))
            if source.random() < 0.4:
                with storage.write() as writer:
                    writer.delete(ids.pop(source.randrange(len(ids))))
        with database_of(storage).write() as connection:
            before = postings_by_unit(connection)
            assert {memory_id for memory_id, *_ in before} == set(ids)
            ((size,),) = connection.execute("select sum(length(postings)) from keyword_postings").fetchall()
            assert size == before.total() * POSTING.itemsize
            rebuild_words(connection)
            assert postings_by_unit(connection) == before


def found_by(storage: Storage, index: PassageIndex, query: str) -> list[Any]:
    """Return what a search by meaning finds for reports, from the tables and from memory."""
    scope, vector = Scope(MemoryKind.REPORT), unit_vector(query)
    index.start_loading()
    index.wait_for_loading()
    with storage.read() as reader:
        near = list(reader.candidates(scope, Method()).nearest(vector, 10).matches)
        view = index.view(reader.feed)
        hits = Scan(view, scope, view.members(scope), None, depth=50).find(vector, 10).hits
        return [*near, *((hit.id, hit.memory_id, hit.score) for hit in hits)]


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    opened: Storage = request.param(tmp_path)
    yield opened
    opened.close()


def test_part_of_the_vectors_of_a_memory_is_found_and_leaves_with_a_new_epoch(storage: Storage) -> None:
    new, index = new_memory("0123456789" * 3), PassageIndex(storage)
    add(storage, new_memory("something else"))
    memory_id = add(storage, new, model=None)
    made = derived(new)
    before = found_by(storage, index, "0123456789")
    for after, is_last in ((0, False), (2, True)):
        until = len(made.embedded.passages) if is_last else 2
        part = slice(after, until)
        embedded = Embedded(made.embedded.passages[part], made.embedded.vectors[part], MODEL)
        with storage.write() as writer:
            memory = writer.memory(memory_id)
            assert writer.add_vectors(memory, replace(made, embedded=embedded), after=after, is_last=is_last)
        found = found_by(storage, index, "0123456789")
        assert sum(owner == memory_id for _, owner, _ in found) == 2 * until
        if not is_last:
            with storage.write() as writer:
                epoch = writer.feed.revision().epoch  # type: ignore[union-attr]
                writer.discard_vectors(memory_id)
            with storage.read() as reader:
                assert reader.feed.revision().epoch == epoch + 1  # type: ignore[union-attr]
            assert found_by(storage, index, "0123456789") == before
            with storage.write() as writer:
                first = Embedded(made.embedded.passages[:2], made.embedded.vectors[:2], MODEL)
                assert writer.add_vectors(memory, replace(made, embedded=first), after=0, is_last=False)
