"""A search by meaning has the results of a brute-force scan, however it compares: ids, order and ties."""

import itertools
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import execute
from inside import compare_likeliest
from lattice import DIMENSIONS, LatticeEmbedder
from paging import pages
from search.by_force import ByForce, found_by, is_in
from vector_memory.domain import TRAITS, MemoryKind, Page, Scope, Window
from vector_memory.errors import ValidationError
from vector_memory.search import retrieval
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

WORDS = list(string.ascii_lowercase[:12])
TIMES = [
    "2020-01-31T23:59:59.999999+00:00",
    "2020-02-01T00:00:00.000000+00:00",
    "2020-02-29T12:00:00.000000+00:00",
    "2021-01-01T00:00:00.000000+00:00",
]
WINDOWS = [
    ("2020-02", None),
    (None, "2020-01"),
    ("2020-02", "2020-02"),
    ("2020-02-01", "2020-02-29T11:59"),
    ("2020-02-01T00:00:00.000001", "2020-12-31T23:59:59Z"),
    ("2021-01-01T01:00+01:00", None),
    (None, "2019"),
]
KINDS = [MemoryKind.REPORT, MemoryKind.WORKING_MEMORY, MemoryKind.KNOWLEDGE_BASE, MemoryKind.SYSTEM_MEMORY]


def open_store(address: Path | str, **changes: Any) -> SessionMemoryStore:
    configured = Settings(
        embedding_model="toy", embedding_dim=DIMENSIONS, default_chunk_size=32, default_chunk_overlap=8, **changes
    )
    return SessionMemoryStore(address, configured, embedder=LatticeEmbedder())


def fill(store: SessionMemoryStore, source: random.Random, count: int) -> None:
    """Store memories of four kinds, with few different agents, sessions, tags and words."""
    for number in range(count):
        kind = source.choice(KINDS)
        scoped = TRAITS[kind].session_scoped
        store.store_memory(
            kind,
            f"{number} " + " ".join(source.choice(WORDS) for _ in range(source.choice([3, 20, 90]))),
            agent_id=source.choice(["a1", "a2"]),
            session_id=source.choice(["s1", "s2", "s3"]) if scoped else None,
            session_iter=source.choice(["v1", 2, "10"]) if scoped else None,
            task_code=source.choice([None, "t1", "t2"]),
            title="entry",
            tags=source.sample(["x", "y", "z"], source.choice([0, 1, 2])),
            category=source.choice([None, "go", "sql"]),
            created_at=source.choice(TIMES),
        )


def scope_of(window: tuple[str | None, str | None], **filters: Any) -> Scope:
    return Scope(**filters, created_after=window[0], created_before=window[1])


SCOPES = st.builds(
    scope_of,
    window=st.one_of(st.just((None, None)), st.sampled_from(WINDOWS)),
    kind=st.sampled_from(KINDS),
    agent_id=st.sampled_from([None, None, "a1", "a2", "nobody"]),
    session_id=st.sampled_from([None, None, "s1", "s2"]),
    session_iter=st.sampled_from([None, None, 1, 2, 10]),
    task_code=st.sampled_from([None, None, "t1"]),
    category=st.sampled_from([None, None, "go", "general"]),
    tags=st.sampled_from([(), (), ("x",), ("y", "z")]),
    own_agent_id=st.sampled_from([None, None, "a1"]),
    after_id=st.sampled_from([None, None, 4, 40]),
    sessions=st.sampled_from([None, None, ("s1", "s3")]),
)
QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


def shown(found: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return ids with the similarities that answers show."""
    return [(number, max(0.0, cosine)) for number, cosine in found]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exact") / "memory.db"
    with open_store(path) as store:
        fill(store, random.Random(7), 150)
    return path


@pytest.fixture(scope="module")
def store(filled: Path) -> Iterator[SessionMemoryStore]:
    with open_store(filled) as opened:
        yield opened


@pytest.fixture(scope="module")
def by_force(store: SessionMemoryStore) -> ByForce:
    return ByForce(store)


@pytest.mark.usefixtures("way")
@given(query=QUERIES, scope=SCOPES, limit=st.integers(1, 100))
def test_chunks_and_memories_equal_a_brute_force_scan(
    store: SessionMemoryStore, by_force: ByForce, query: str, scope: Scope, limit: int
) -> None:
    page = Page(limit=limit)
    if TRAITS[scope.kind].chunked:  # type: ignore[index]
        found = store.search_chunks(query, scope, page, mode="vector").results
        expected = shown(by_force.by_meaning(query, scope)[:limit])
        assert [(chunk.chunk_id, chunk.similarity) for chunk in found] == expected
        documents = store.search_documents(query, scope, page, order="relevance", mode="vector").results
    else:
        documents = store.search_memories(query, scope, page, mode="vector").results  # type: ignore[assignment]
    expected = shown(by_force.by_meaning(query, scope, memories=True)[:limit])
    assert [(memory.id, memory.similarity) for memory in documents] == expected


def test_a_setting_lets_searches_compare_all_passages_of_a_scope_of_any_size(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_likeliest(monkeypatch, 1)
    for compares_all in (False, True):
        with open_store(filled, use_iterative_fetching=not compares_all, vector_search_batch_size=1) as store:
            found = [found_by(store, query, Scope("report"), "vector", 1) for query in ("a b c d", "k l")]
            expected = [ByForce(store).by_meaning(query, Scope("report"))[:1] for query in ("a b c d", "k l")]
        assert (found == expected) is compares_all


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    """Tagged notes of several times, whose searches compare only meaning."""
    source = random.Random(13)
    with open_store(tmp_path_factory.mktemp("notes") / "memory.db", search_mode="vector") as opened:
        for number in range(45):
            stored = opened.tagged.store(
                f"{number} " + " ".join(source.choice(WORDS) for _ in range(source.choice([3, 20]))),
                source.choice([None, "learning", "security"]),
                source.sample(["redis", "php", "go"], source.choice([0, 1, 2])),
            )
            time, changed = source.choice(TIMES), "update session_memories set created_at = ?, turn = 0 where id = ?"
            execute(opened, changed, time, stored.memory_id)
        yield opened


@pytest.mark.usefixtures("way")
@given(
    query=QUERIES,
    window=st.sampled_from(WINDOWS),
    category=st.sampled_from([None, None, "learning", "security"]),
    tags=st.sampled_from([(), (), ("redis",), ("php", "go")]),
)
def test_notes_of_a_time_equal_a_brute_force_scan(
    noted: SessionMemoryStore,
    query: str,
    window: tuple[str | None, str | None],
    category: str | None,
    tags: tuple[str, ...],
) -> None:
    notes, time = ByForce(noted), Window(created_after=window[0], created_before=window[1])
    scope = scope_of(window, kind=MemoryKind.TAGGED, category=category, tags=tags)
    expected = shown(notes.by_meaning(query, scope))
    found = noted.tagged.search(query, 50, category=category, tags=tags, **time)
    assert [(note.id, note.similarity) for note in found.results] == expected
    assert found.total == len(expected)
    within = Scope(MemoryKind.TAGGED, **time)
    oldest_first = sorted((note.memory.created_at, note.id) for note in notes.units if is_in(note.memory, within))
    listed = noted.tagged.list_recent(50, **time)
    assert [note.id for note in listed.results] == [number for _, number in reversed(oldest_first)]


@pytest.fixture(scope="module")
def deep_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    """More units than are all compared, most of them of documents that a tag leaves out."""
    source = random.Random(11)
    with open_store(tmp_path_factory.mktemp("deep") / "memory.db") as opened:
        for number in range(40):
            opened.store_memory(
                "report",
                f"{number} " + " ".join(source.choice(WORDS) for _ in range(600)),
                session_id="s",
                tags=["rare"] if number % 20 == 19 else ["common"],
            )
        yield opened


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("scope", [Scope(kind=MemoryKind.REPORT), Scope(kind=MemoryKind.REPORT, session_id="s")])
@pytest.mark.parametrize("tags", [(), ("rare",)])
def test_results_are_exact_among_thousands_of_passages(
    deep_store: SessionMemoryStore, scope: Scope, tags: tuple[str, ...]
) -> None:
    by_force = ByForce(deep_store)
    assert sum(len(unit.passages) for unit in by_force.units) > 4096
    scope = Scope(kind=scope.kind, session_id=scope.session_id, tags=tags)
    found = deep_store.search_chunks("a b c d", scope, Page(limit=100), mode="vector").results
    assert [chunk.chunk_id for chunk in found] == [number for number, _ in by_force.by_meaning("a b c d", scope)[:100]]


def test_similarity_is_the_cosine_cut_to_0_and_1(tmp_path: Path) -> None:
    query = LatticeEmbedder().embed(["a b c d"])[0]
    texts = ["a b c d", *(f"text{number}" for number in range(40))]
    cosines = {text: float(LatticeEmbedder().embed([text])[0] @ query) for text in texts}
    assert min(cosines.values()) < 0
    with open_store(tmp_path / "memory.db") as store:
        for text in texts:
            store.store_memory("report", text, session_id="s")
        found = store.search_chunks("a b c d", Scope("report"), Page(limit=100), mode="vector").results
    assert {chunk.chunk_content: chunk.similarity for chunk in found} == pytest.approx(
        {text: max(0.0, cosine) for text, cosine in cosines.items()}, abs=1e-6
    )


def test_threshold_filtering_drops_what_is_less_similar_and_nothing_else(filled: Path) -> None:
    with open_store(filled) as store:
        everything = store.search_chunks("a b", Scope("report", agent_id="a1"), Page(limit=100)).results
    with open_store(filled, use_threshold_filtering=True, similarity_threshold=0.25) as store:
        found = store.search_chunks("a b", Scope("report", agent_id="a1"), Page(limit=100)).results
    assert found == [chunk for chunk in everything if (chunk.similarity or 0.0) >= 0.25]
    assert 0 < len(found) < len(everything) < 100


@pytest.mark.usefixtures("way")
def test_pages_are_full_although_the_threshold_drops_what_ranks_first_by_its_words(tmp_path: Path) -> None:
    """Texts of the query's words that mean something else come before texts that mean the same in other words."""
    [query] = LatticeEmbedder().embed(["b f g l"])
    texts = {" ".join(words) for letters in ("bfgl", "cdeh") for words in itertools.permutations(letters)}
    wanted = [text for text in sorted(texts) if (LatticeEmbedder().embed([text])[0] @ query >= 0.25) == ("c" in text)]
    with open_store(tmp_path / "memory.db", use_threshold_filtering=True, similarity_threshold=0.25) as store:
        for text in wanted:
            store.store_memory("report", text, session_id="s")
        everything = store.search_chunks("b f g l", Scope("report"), Page(limit=100)).results
        asked = pages(lambda offset: store.search_chunks("b f g l", Scope("report"), Page(limit=2, offset=offset)))
        found = [hit for page in asked for hit in page.results]
    assert 2 < len(everything) < 99
    assert [hit.chunk_id for hit in found] == [hit.chunk_id for hit in everything]


@pytest.mark.parametrize("limit", [0, 101, -1, 10**9])
def test_a_limit_outside_1_to_100_is_refused(store: SessionMemoryStore, limit: int) -> None:
    for search in (store.search_chunks, store.search_sections, store.search_documents, store.search_memories):
        with pytest.raises(ValidationError, match="limit must be an integer from 1 to 100"):
            search("a", Scope("report"), Page(limit=limit))


@pytest.mark.parametrize("query", ["", "  ", "x" * 10_001])
def test_a_query_without_words_or_too_long_is_refused(store: SessionMemoryStore, query: str) -> None:
    with pytest.raises(ValidationError, match="query"):
        store.search_chunks(query, Scope("report"), Page(limit=5))


@pytest.mark.usefixtures("way")
def test_the_similarity_of_a_document_does_not_depend_on_how_many_are_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nearest unit may be in neither of the lists that are compared first, which are short here."""
    monkeypatch.setattr(retrieval, "DEPTH", 2)
    source = random.Random(4)
    with open_store(tmp_path / "memory.db") as store:
        for number in range(60):
            words = source.choices(WORDS, k=source.choice([5, 40, 90, 200]))
            store.store_memory("report", f"{number} {' '.join(words)}", session_id="s")
        for query in WORDS:
            whole = similarities(store, query, 100)
            for limit in (1, 20, 40):
                assert similarities(store, query, limit) == whole[:limit]


def similarities(store: SessionMemoryStore, query: str, limit: int) -> list[tuple[int, float | None]]:
    found = store.search_documents(query, Scope("report"), Page(limit=limit), order="relevance")
    return [(document.id, document.similarity) for document in found.results]
