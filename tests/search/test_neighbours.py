"""A short hit comes with what stands before and after it in its session."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_memories import ENGINES, Engine, add, new_memory
from search.test_exact import open_store
from vector_memory.answers.models import FoundChunk, FoundMemory
from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.errors import ValidationError
from vector_memory.storage.base import Storage
from vector_memory.storage.opening import LimitedStorage
from vector_memory.store import SessionMemoryStore

CAPTURED = {"project": "/home/user/project"}
"""The metadata of what hooks and imports store."""

HERE = Scope("working_memory", session_id="s")
ONE = Page(limit=1)
"""What stands in an answer is no neighbour in it."""

SESSIONS = map(str, itertools.count())


def told(store: SessionMemoryStore, turns: Sequence[str], session_id: str = "s") -> None:
    for minute, turn in enumerate(turns):
        at = f"2026-10-05T12:{minute:02}:00+00:00"
        store.store_memory("working_memory", turn, session_id=session_id, created_at=at, metadata=CAPTURED)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with open_store(tmp_path / "memory.db") as opened:
        yield opened


def around(hit: FoundChunk | FoundMemory) -> tuple[list[str], list[str]]:
    return hit.context_before, hit.context_after


def test_a_short_hit_comes_with_the_turn_before_and_the_turn_after(store: SessionMemoryStore) -> None:
    told(store, ["one", "two", "a b c", "four", "five"])
    [hit] = store.search_chunks("a b c", HERE, ONE).results
    assert around(hit) == (["two"], ["four"])
    [hit] = store.search_chunks("a b c", HERE, ONE, neighbours=5).results
    assert around(hit) == (["one", "two"], ["four", "five"])


def test_without_neighbours_nothing_is_said_of_them(store: SessionMemoryStore) -> None:
    told(store, ["one", "a b c", "three"])
    [hit] = store.search_chunks("a b c", HERE, ONE, neighbours=0).results
    assert not {"context_before", "context_after"} & hit.model_dump().keys()


@pytest.mark.parametrize("count", [-1, 6])
def test_more_than_five_neighbours_are_refused(store: SessionMemoryStore, count: int) -> None:
    with pytest.raises(ValidationError, match="neighbours must be an integer from 0 to 5"):
        store.search_chunks("a", HERE, neighbours=count)


def test_neighbours_are_of_the_same_session_and_kind_and_change_no_ranking(store: SessionMemoryStore) -> None:
    told(store, ["one", "a b c", "three"])
    told(store, ["other before", "other after"], session_id="t")
    store.store_memory("report", "a report", session_id="s", created_at="2026-10-05T12:00:30+00:00")
    alone = store.search_chunks("a b c", HERE, ONE, neighbours=0)
    found = store.search_chunks("a b c", HERE, ONE)
    assert around(found.results[0]) == (["one"], ["three"])
    assert [(hit.chunk_id, hit.score) for hit in found.results] == [(hit.chunk_id, hit.score) for hit in alone.results]


def test_in_a_search_of_one_agent_neighbours_are_of_that_agent(store: SessionMemoryStore) -> None:
    for minute, (agent, words) in enumerate([("x", "one"), ("y", "two"), ("x", "a b c"), ("y", "four"), ("x", "five")]):
        fields = {"session_id": "s", "agent_id": agent, "created_at": f"2026-10-05T12:{minute:02}:00+00:00"}
        store.store_memory("working_memory", words, metadata=CAPTURED, **fields)
    assert around(store.search_chunks("a b c", HERE, ONE).results[0]) == (["two"], ["four"])
    of_agent = Scope("working_memory", session_id="s", agent_id="x")
    assert around(store.search_chunks("a b c", of_agent, ONE).results[0]) == (["one"], ["five"])


def test_long_hits_and_parts_of_documents_come_alone_and_long_neighbours_are_cut(store: SessionMemoryStore) -> None:
    told(store, ["w " * 300, "a b c", "# A\n\nd e f\n\n# B\n\n" + "g " * 200])
    [short] = store.search_chunks("a b c", HERE, ONE).results
    assert [len(text) for text in (*short.context_before, *short.context_after)][:1] == [401]
    assert short.context_before[0].endswith("…")
    for words in ("w", "d e f"):
        assert around(store.search_chunks(words, HERE, ONE).results[0]) == ([], [])


def test_a_prompt_comes_with_the_prompts_beside_it(store: SessionMemoryStore) -> None:
    for minute, words in enumerate(["one", "a b c", "three"]):
        at = f"2026-10-05T12:{minute:02}:00+00:00"
        store.store_memory("input_prompt", words, session_id="s", created_at=at, metadata=CAPTURED)
    scope = Scope(MemoryKind.INPUT_PROMPT, session_id="s")
    assert around(store.search_memories("a b c", scope, ONE, neighbours=1).results[0]) == (["one"], ["three"])
    assert around(store.search_memories("a b c", scope, ONE).results[0]) == ([], [])


@pytest.mark.parametrize(("kind", "metadata"), [("working_memory", None), ("report", None), ("report", CAPTURED)])
def test_what_agents_store_as_documents_and_a_report_of_a_conversation_come_alone(
    store: SessionMemoryStore, kind: str, metadata: dict[str, str] | None
) -> None:
    """Of three short documents each would be sent three times, and nothing says whose the other two are."""
    for words in ("one", "a b c", "three"):
        store.store_memory(kind, words, session_id="s", metadata=metadata)
    assert around(store.search_chunks("a b c", Scope(kind), ONE).results[0]) == ([], [])


def test_what_an_agent_stores_during_a_conversation_is_no_part_of_it(store: SessionMemoryStore) -> None:
    told(store, ["one", "a b c", "three"])
    for minute in (0, 1):
        at = f"2026-10-05T12:{minute:02}:30+00:00"
        store.store_memory("working_memory", f"a note {minute}", session_id="s", created_at=at)
    [hit] = store.search_chunks("a b c", HERE, ONE).results
    assert around(hit) == (["one"], ["three"])


def test_no_text_stands_twice_in_an_answer(store: SessionMemoryStore) -> None:
    told(store, [f"a b {number}" for number in range(9)])
    for limit in range(1, 10):
        results = store.search_chunks("a b 4", HERE, Page(limit=limit), neighbours=2).results
        texts = [text for hit in results for text in (hit.chunk_content, *hit.context_before, *hit.context_after)]
        assert len(texts) == len(set(texts))
        assert len(texts) > limit or limit == 9


def test_neighbours_take_only_the_room_that_the_hits_leave(store: SessionMemoryStore) -> None:
    told(store, [f"a b {'c' * (number % 9)} {number} {'long ' * 8}" for number in range(12)])
    for tokens in range(300, 3_000, 300):
        page = Page(limit=5, max_tokens=tokens)
        alone = store.search_chunks("a b", HERE, page, neighbours=0)
        found = store.search_chunks("a b", HERE, page, neighbours=5)
        assert [hit.chunk_id for hit in found.results] == [hit.chunk_id for hit in alone.results]
        assert len(found.model_dump_json().encode()) <= tokens * 3
    assert sum(len(side) for hit in found.results for side in around(hit)) == 7


@pytest.fixture(scope="module", params=ENGINES.values(), ids=ENGINES)
def storage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    engine = Engine(request.param, tmp_path_factory.mktemp("neighbours"), [])
    engine.open()
    yield engine.storage
    engine.storage.close()


@given(
    turns=st.lists(
        st.tuples(st.sampled_from(["2026-01-01", "2026-01-02"]), st.integers(1, 2), st.booleans(), st.booleans())
    ),
    count=st.integers(1, 3),
)
def test_neighbours_equal_a_sort_by_time_and_id(
    storage: Storage, turns: list[tuple[str, int, bool, bool]], count: int
) -> None:
    session = next(SESSIONS)
    lines: dict[tuple[int, bool], list[tuple[str, int, str]]] = {}
    for number, (at, iteration, is_prompt, is_captured) in enumerate(turns):
        kind = MemoryKind.INPUT_PROMPT if is_prompt else MemoryKind.SYSTEM_MEMORY
        metadata = CAPTURED if is_captured else {}
        new = new_memory(f"turn {number:2}", kind, session_id=session, session_iter=iteration, metadata=metadata)
        added = add(storage, new, at=at)
        if is_captured:
            lines.setdefault((iteration, is_prompt), []).append((at, added, new.content))
    ids = [number for line in lines.values() for _, number, _ in line]
    with storage.read() as reader:
        found = reader.memories.neighbours(ids, count, 7, same_agent=False)
    assert found.keys() == set(ids)
    for line in map(sorted, lines.values()):
        texts = [text for _, _, text in line]
        for place, (_, number, _) in enumerate(line):
            beside = tuple([one.beginning for one in side] for side in found[number])
            assert beside == (texts[max(0, place - count) : place], texts[place + 1 : place + 1 + count])


def test_a_caller_who_may_not_see_a_session_gets_nothing_of_it(storage: Storage) -> None:
    seen, hidden = (add(storage, new_memory(name, session_id=name, metadata=CAPTURED)) for name in ("seen", "hidden"))
    with LimitedStorage(storage, ["seen"]).read() as reader:
        assert reader.memories.neighbours([seen, hidden], 1, 10, same_agent=False).keys() == {seen}
