"""A search by meaning and words is that of a brute-force scan of the scope, at every page, whatever else there is."""

import random
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import execute
from paging import pages
from search.by_force import ByForce, found_by, hits_of
from search.test_exact import QUERIES, SCOPES, fill, open_store
from vector_memory.domain import Page, Scope
from vector_memory.search import retrieval
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.usefixtures("way")

HERE = Scope("report", session_id="s1")
NAMES = st.sampled_from(["a_b", "c.d e_f", "bC", "a_b #42"])


@pytest.fixture(params=[2, retrieval.DEPTH], ids=["short lists", "lists"], autouse=True)
def depth(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With short lists each search has to lengthen them, and to take measures of what only one list holds."""
    monkeypatch.setattr(retrieval, "DEPTH", request.param)


@pytest.fixture(scope="module", params=[0, 1, 75, 150], ids="{} pending".format)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    with open_store(tmp_path_factory.mktemp("hybrid") / "memory.db") as opened:
        fill(opened, random.Random(5), 150)
        for memory_id in random.Random(6).sample(range(1, 151), request.param):
            execute(opened, "delete from memory_passages where memory_id = ?", memory_id)
            execute(opened, "update session_memories set embedding_model_id = null where id = ?", memory_id)
        yield opened


@pytest.fixture(scope="module")
def by_force(store: SessionMemoryStore) -> ByForce:
    return ByForce(store)


@given(query=QUERIES | NAMES, scope=SCOPES, mode=st.sampled_from(["hybrid", "keyword"]), limit=st.integers(1, 100))
def test_results_equal_a_brute_force_scan(
    store: SessionMemoryStore, by_force: ByForce, query: str, scope: Scope, mode: str, limit: int
) -> None:
    assert found_by(store, query, scope, mode, limit) == by_force.find(mode, query, scope)[:limit]


@given(query=QUERIES, scope=SCOPES, limit=st.integers(1, 100))
def test_sources_say_whether_a_unit_has_the_words_and_is_among_the_nearest(
    store: SessionMemoryStore, by_force: ByForce, query: str, scope: Scope, limit: int
) -> None:
    near = {number for number, _ in by_force.by_meaning(query, scope)[: max(limit, retrieval.DEPTH)]}
    with_words = {number for number, _ in by_force.by_words(query, scope)}
    for hit in hits_of(store, query, scope, limit=limit):
        assert ("keyword" in hit.sources) is (hit.id in with_words)
        assert ("vector" in hit.sources) is (hit.id in near or hit.id not in with_words)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_pages_have_no_gaps_and_no_repeats(store: SessionMemoryStore, mode: str, size: int) -> None:
    everything = store.search_chunks("a b c", Scope("report"), Page(limit=100), mode=mode)
    ask = partial(store.search_chunks, "a b c", Scope("report"), mode=mode)
    count = min(100, 20 * size)
    first = islice(pages(lambda offset: ask(Page(limit=size, offset=offset))), -(-count // size))
    ids = [chunk.chunk_id for page in first for chunk in page.results]
    assert ids[:count] == [chunk.chunk_id for chunk in everything.results[:count]]
    assert len(ids) == len(set(ids))


def test_documents_are_ranked_by_their_best_chunk(store: SessionMemoryStore) -> None:
    chunks = store.search_chunks("a b c", HERE, Page(limit=100)).results
    documents = store.search_documents("a b c", HERE, Page(limit=100), order="relevance").results
    assert [document.id for document in documents] == list(dict.fromkeys(chunk.memory_id for chunk in chunks))


def test_other_sessions_in_the_file_change_nothing(tmp_path: Path) -> None:
    """Not one result, nor its place, of any mode: what is common here may be rare elsewhere."""
    queries = ("a b c", "d", "a unknown", "e f g h i")
    with open_store(tmp_path / "memory.db") as store:
        for number in range(12):
            store.store_memory("report", f"{number} " + "a b c d e f "[: number + 1] * 9, session_id="s1")
        before = [
            store.search_chunks(query, HERE, Page(limit=100), mode=mode)
            for query in queries
            for mode in ("hybrid", "keyword")
        ]
        for number in range(30):
            store.store_memory("report", f"{number} a a a unknown d g", session_id=f"other {number}")
        after = [
            store.search_chunks(query, HERE, Page(limit=100), mode=mode)
            for query in queries
            for mode in ("hybrid", "keyword")
        ]
    assert after == before


def test_better_matches_that_a_search_cannot_find_change_no_score(tmp_path: Path) -> None:
    """The best match counts in every score, but not if it is outside the filters, hidden from a token, or deleted."""
    scope, mine = Scope("report", agent_id="a1"), {"session_id": "s1", "agent_id": "a1"}
    with open_store(tmp_path / "memory.db") as store:
        for number in range(5):
            store.store_memory("report", f"{number} e " + "c d e " * number, **mine)
        visible = store.limited_to(["s1"])
        before = [visible.search_chunks("e f", scope, mode=mode).results for mode in ("hybrid", "keyword")]
        for number, others in enumerate(({"agent_id": "a2"}, {"session_id": "s2"}, {})):
            store.store_memory("report", f"{number} e f", **mine | others)
        found = visible.search_chunks("e f", scope, mode="keyword").results
        assert found[0].score != before[1][0].score
        store.delete_memory(found[0].memory_id)
        assert [visible.search_chunks("e f", scope, mode=mode).results for mode in ("hybrid", "keyword")] == before


def test_an_exact_name_is_found_though_the_meaning_is_far_and_says_where_it_came_from(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store:
        for number in range(200):
            store.store_memory("report", f"filler {number} of the same kind", session_id="s1")
        store.store_memory("report", "calls store_report when ECONNREFUSED comes", session_id="s1")
        first = store.search_chunks("econnrefused", HERE, Page(limit=1)).results[0]
        assert "ECONNREFUSED" in first.chunk_content
        assert "keyword" in first.sources
        assert first.similarity is not None
        assert store.search_chunks("report", HERE, Page(limit=1), mode="keyword").results[0].chunk_id == first.chunk_id
        assert store.search_chunks("filler", HERE, Page(limit=1), mode="vector").results[0].sources == ["vector"]
