"""Every storage engine gives the same answers to the same searches: ids, order, scores and all that is said of them."""

import random
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import schema_url
from engine_memories import ENGINES, MODEL, add, derived, new_memory, unit_vector
from faults.effort import effort
from inside import compare_all, compare_likeliest, database_of, rebuild_words, storage_of
from search.test_exact import QUERIES, SCOPES, fill, open_store
from vector_memory.domain import TRAITS, MemoryKind, Page, Scope
from vector_memory.errors import DuplicateMemoryError
from vector_memory.search import rank
from vector_memory.search.question import Question
from vector_memory.search.rank import Method
from vector_memory.search.retrieval import Retrieval
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Embedded
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.links import nearest_memories, passages_of

CHANGING = {"created_at", "updated_at", "accessed_at", "access_count"}
"""What depends on when a memory was stored and read."""


PAGES = st.builds(Page, limit=st.sampled_from([1, 5, 30]), offset=st.sampled_from([0, 0, 3]))


class Pair(NamedTuple):
    """The same memories in a file and in a PostgreSQL schema."""

    file: SessionMemoryStore
    schema: SessionMemoryStore


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    place = tmp_path_factory.mktemp("engines") / "memory.db"
    address = schema_url(f"engines_{uuid.uuid4().hex}")
    with open_store(place) as file, open_store(address) as schema, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank, "MOST_COMPARED", 10**6)  # otherwise close matches elsewhere are estimated
        for store in (file, schema):
            fill(store, random.Random(7), 200)
            for number in range(12):
                store.tagged.store(f"note {number} a b", "learning" if number % 2 else None, ["x", "y"][: number % 3])
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


@given(query=QUERIES, scope=SCOPES, page=PAGES, mode=st.sampled_from(["hybrid", "vector", "keyword"]))
@settings(max_examples=effort(quick=40, long=1_000))
def test_every_search_has_the_same_answer_from_both_engines_however_they_compare(
    pair: Pair, query: str, scope: Scope, page: Page, mode: str
) -> None:
    found = []
    for compare in (compare_all, compare_likeliest):
        with pytest.MonkeyPatch.context() as patch:
            compare(patch)
            found += [answers(store, query, scope, page, mode) for store in pair]
    assert found == [found[0]] * 4


@given(query=QUERIES, scope=SCOPES)
def test_what_is_outside_the_filters_takes_no_room_among_the_likeliest(pair: Pair, query: str, scope: Scope) -> None:
    scope = replace(scope, agent_id="a1", task_code="t1", session_iter=2)
    expected = [answers(pair.file, query, scope, Page(limit=10), "vector")] * 2
    with pytest.MonkeyPatch.context() as patch:
        compare_likeliest(patch, 60)
        assert [answers(store, query, scope, Page(limit=10), "vector") for store in pair] == expected


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
        ids = reader.memories.ids(Scope())
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


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    with closing(request.param(tmp_path)) as opened:
        yield opened


@pytest.mark.usefixtures("way")
def test_a_memory_is_not_among_those_that_are_nearest_to_it(storage: Storage) -> None:
    own, *others = (add(storage, new_memory(f"memory {number}")) for number in range(4))
    with storage.read() as reader:
        _, vectors = passages_of(reader, [own])[own]
        fingerprint = reader.vectors.fingerprint()
        assert fingerprint
        assert sorted(nearest_memories(reader, MemoryKind.REPORT, fingerprint, vectors, [own])) == others


@pytest.mark.usefixtures("way")
def test_part_of_the_vectors_of_a_memory_is_found_until_it_is_discarded(storage: Storage) -> None:
    new = new_memory("0123456789" * 3)
    add(storage, new_memory("something else"))
    memory_id = add(storage, new, model=None)
    made, question = derived(new), Question(unit_vector("0123456789"), None)

    def count_found() -> int:
        with storage.read() as reader:
            hits = Retrieval(reader, question, Scope(MemoryKind.REPORT), Method(), None).find(10).hits
        return sum(hit.memory_id == memory_id for hit in hits)

    assert count_found() == 0
    for after, is_last in ((0, False), (2, True)):
        until = len(made.embedded.passages) if is_last else 2
        part = slice(after, until)
        embedded = Embedded(made.embedded.passages[part], made.embedded.vectors[part], MODEL)
        with storage.write() as writer:
            memory = writer.memories.get(memory_id)
            assert writer.add_vectors(memory, replace(made, embedded=embedded), after=after, is_last=is_last)
        assert count_found() == until
        if not is_last:
            with storage.write() as writer:
                writer.discard_vectors(memory_id)
            assert count_found() == 0
            with storage.write() as writer:
                assert writer.add_vectors(memory, replace(made, embedded=embedded), after=0, is_last=False)
