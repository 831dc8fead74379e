"""A search by meaning has the results of a brute-force scan, whatever path answers: ids, order and ties."""

import itertools
import random
import string
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import execute
from inside import database_of, load_index
from lattice import DIMENSIONS, LatticeEmbedder
from vector_memory.domain import TRAITS, MemoryKind, Page, Scope, Window
from vector_memory.errors import ValidationError
from vector_memory.search import retrieval
from vector_memory.search.index import loader as passage_index
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


class Passage(NamedTuple):
    """A passage as the database has it, and what a filter may ask of its memory."""

    memory_id: int
    chunk_id: int | None
    text: str
    memory: dict[str, Any]


def open_store(path: Path, **changes: Any) -> SessionMemoryStore:
    configured = Settings(
        embedding_model="toy", embedding_dim=DIMENSIONS, default_chunk_size=32, default_chunk_overlap=8, **changes
    )
    return SessionMemoryStore(path, configured, embedder=LatticeEmbedder())


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


def passages_of(store: SessionMemoryStore) -> list[Passage]:
    """Read every passage's text and memory from the file."""
    with database_of(store).read() as connection:
        rows = connection.execute(
            """
            select p.memory_id, p.chunk_id, p.start_char, p.end_char, m.content, m.memory_type, m.agent_id,
                m.session_id, m.session_iter, m.task_code, m.tags, json_extract(m.metadata, '$.category'), m.created_at
            from memory_passages p join session_memories m on m.id = p.memory_id
            """
        ).fetchall()
    names = ("kind", "agent_id", "session_id", "session_iter", "task_code", "tags", "category", "created_at")
    return [Passage(row[0], row[1], row[4][row[2] : row[3]], dict(zip(names, row[5:], strict=True))) for row in rows]


def passes(memory: dict[str, Any], scope: Scope) -> bool:
    """Say in plain Python whether a memory is in a scope."""
    exact = ("agent_id", "session_id", "session_iter", "task_code", "category")
    return (
        memory["kind"] == scope.kind
        and all(getattr(scope, name) in (None, memory[name]) for name in exact)
        and (not scope.tags or any(f'"{tag}"' in memory["tags"] for tag in scope.tags))
        and (scope.created_after or "") <= memory["created_at"] <= (scope.created_before or "9")
    )


def brute_force(
    passages: list[Passage], query: str, scope: Scope, owner: Callable[[Passage], int | None]
) -> list[tuple[int, float]]:
    """Return (id, distance) of all chunks or memories in the scope, nearest first, then by id."""
    wanted = [passage for passage in passages if passes(passage.memory, scope)]
    if not wanted:
        return []
    vectors = LatticeEmbedder().embed([passage.text for passage in wanted])
    distances = np.linalg.norm(vectors - LatticeEmbedder().embed([query])[0], axis=1)
    best: dict[int, float] = {}
    for passage, distance in zip(wanted, distances, strict=True):
        number = owner(passage)
        assert number is not None
        best[number] = min(best.get(number, 9.0), float(distance))
    return sorted(best.items(), key=lambda item: (item[1], item[0]))


def similarity(distance: float) -> float:
    return max(0.0, round(1 - distance**2 / 2, 6))


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
)
QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


class Way(NamedTuple):
    """A way of fetching: settings, whether the index is in memory, and how many vectors it may hold there."""

    settings: Mapping[str, Any] = MappingProxyType({})
    loaded: bool = False
    cached: int = 54_687


WAYS = {
    "tables": Way(),
    "tables, small batches": Way({"vector_search_batch_size": 1}),
    "scan": Way({"use_iterative_fetching": False}),
    "memory": Way(loaded=True),
    "memory, small batches": Way({"vector_search_batch_size": 1}, loaded=True),
    "memory, room for a session": Way(loaded=True, cached=400),
    "memory, signatures": Way(loaded=True, cached=0),
}


@pytest.fixture(scope="module", params=WAYS.values(), ids=WAYS.keys())
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    """The same random memories under each way of fetching."""
    way = request.param
    with (
        pytest.MonkeyPatch.context() as patch,
        open_store(tmp_path_factory.mktemp("exact") / "memory.db", **way.settings) as opened,
    ):
        patch.setattr(passage_index, "MAX_CACHED_BYTES", way.cached * DIMENSIONS * 4)
        fill(opened, random.Random(7), 150)
        if way.loaded:
            load_index(opened)
        yield opened


@pytest.fixture(scope="module")
def passages(store: SessionMemoryStore) -> list[Passage]:
    return passages_of(store)


@given(query=QUERIES, scope=SCOPES, limit=st.integers(1, 100))
def test_chunks_and_memories_equal_a_brute_force_scan(
    store: SessionMemoryStore, passages: list[Passage], query: str, scope: Scope, limit: int
) -> None:
    if TRAITS[scope.kind].chunked:  # type: ignore[index]
        expected = brute_force(passages, query, scope, lambda passage: passage.chunk_id)[:limit]
        found = store.search_chunks(query, scope, Page(limit=limit), mode="vector").results
        assert [(chunk.chunk_id, chunk.similarity) for chunk in found] == [
            (number, similarity(distance)) for number, distance in expected
        ]
        documents = store.search_documents(query, scope, Page(limit=limit), order="relevance", mode="vector").results
    else:
        documents = store.search_memories(query, scope, Page(limit=limit), mode="vector").results  # type: ignore[assignment]
    expected = brute_force(passages, query, scope, lambda passage: passage.memory_id)[:limit]
    assert [(memory.id, memory.similarity) for memory in documents] == [
        (number, similarity(distance)) for number, distance in expected
    ]


@pytest.fixture(scope="module", params=[False, True], ids=["tables", "memory"])
def noted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
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
        if request.param:
            load_index(opened)
        yield opened


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
    notes, time = passages_of(noted), Window(created_after=window[0], created_before=window[1])
    scope = scope_of(window, kind=MemoryKind.TAGGED, category=category, tags=tags)
    expected = brute_force(notes, query, scope, lambda note: note.memory_id)
    found = noted.tagged.search(query, 50, category=category, tags=tags, **time)
    assert [(note.id, note.similarity) for note in found.results] == [
        (number, similarity(distance)) for number, distance in expected
    ]
    assert found.total == len(expected)
    within = Scope(MemoryKind.TAGGED, **time)
    oldest_first = sorted(
        {(note.memory["created_at"], note.memory_id) for note in notes if passes(note.memory, within)}
    )
    listed = noted.tagged.list_recent(50, **time)
    assert [note.id for note in listed.results] == [number for _, number in reversed(oldest_first)]


@pytest.fixture(scope="module", params=[False, True], ids=["tables", "memory"])
def deep_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SessionMemoryStore]:
    """More passages than sqlite-vec's 4,096 neighbours, most of them of documents that a tag leaves out."""
    source = random.Random(11)
    with (
        pytest.MonkeyPatch.context() as patch,
        open_store(tmp_path_factory.mktemp("deep") / "memory.db") as opened,
    ):
        # The fixture above may still be there, with its room for no vectors.
        patch.setattr(passage_index, "MAX_CACHED_BYTES", 54_687 * DIMENSIONS * 4)
        for number in range(40):
            opened.store_memory(
                "report",
                f"{number} " + " ".join(source.choice(WORDS) for _ in range(600)),
                session_id="s",
                tags=["rare"] if number % 20 == 19 else ["common"],
            )
        if request.param:
            load_index(opened)
        yield opened


@pytest.mark.parametrize("scope", [Scope(kind=MemoryKind.REPORT), Scope(kind=MemoryKind.REPORT, session_id="s")])
@pytest.mark.parametrize("tags", [(), ("rare",)])
def test_results_are_exact_beyond_the_limits_of_the_vector_index(
    deep_store: SessionMemoryStore, scope: Scope, tags: tuple[str, ...]
) -> None:
    passages = passages_of(deep_store)
    assert len(passages) > 4096
    scope = Scope(kind=scope.kind, session_id=scope.session_id, tags=tags)
    expected = brute_force(passages, "a b c d", scope, lambda passage: passage.chunk_id)
    found = deep_store.search_chunks("a b c d", scope, Page(limit=100), mode="vector").results
    assert [chunk.chunk_id for chunk in found] == [number for number, _ in expected[:100]]


@pytest.mark.parametrize("loaded", [False, True])
def test_thousands_of_equally_near_passages_come_in_the_order_they_were_stored(tmp_path: Path, loaded: bool) -> None:
    with open_store(tmp_path / "memory.db", max_response_tokens=20_000) as store:
        if loaded:
            load_index(store)
        for number in range(6):
            store.store_memory("report", "same " * (4000 - 4 * number), session_id="s")
        found = store.search_chunks(
            "same same same same", Scope("report", session_id="s"), Page(limit=100), mode="vector"
        ).results
        ids = [chunk.chunk_id for chunk in found]
        assert len(passages_of(store)) > 4096
        assert ids == list(range(1, 101))


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


def test_threshold_filtering_drops_what_is_less_similar_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with open_store(path) as store:
        fill(store, random.Random(3), 40)
        everything = store.search_chunks("a b", Scope("report"), Page(limit=100)).results
    with open_store(path, use_threshold_filtering=True, similarity_threshold=0.25) as store:
        found = store.search_chunks("a b", Scope("report"), Page(limit=100)).results
    assert found == [chunk for chunk in everything if (chunk.similarity or 0.0) >= 0.25]
    assert 0 < len(found) < len(everything)


@pytest.mark.parametrize("loaded", [False, True])
def test_pages_are_full_although_the_threshold_drops_what_ranks_first_by_its_words(
    tmp_path: Path, loaded: bool
) -> None:
    """Texts of the query's words that mean something else come before texts that mean the same in other words."""
    [query] = LatticeEmbedder().embed(["b f g l"])
    texts = {" ".join(words) for letters in ("bfgl", "cdeh") for words in itertools.permutations(letters)}
    wanted = [text for text in sorted(texts) if (LatticeEmbedder().embed([text])[0] @ query >= 0.25) == ("c" in text)]
    with open_store(tmp_path / "memory.db", use_threshold_filtering=True, similarity_threshold=0.25) as store:
        for text in wanted:
            store.store_memory("report", text, session_id="s")
        if loaded:
            load_index(store)
        everything = store.search_chunks("b f g l", Scope("report"), Page(limit=100)).results
        found: list[Any] = []
        offset: int | None = 0
        while offset is not None:
            page = store.search_chunks("b f g l", Scope("report"), Page(limit=2, offset=offset))
            found += page.results
            offset = page.next_offset
    assert 2 < len(everything) < 99
    assert [hit.chunk_id for hit in found] == [hit.chunk_id for hit in everything]


@pytest.mark.parametrize("loaded", [False, True])
def test_a_memory_that_another_process_just_stored_is_found(tmp_path: Path, loaded: bool) -> None:
    path = tmp_path / "memory.db"
    with open_store(path) as one, open_store(path) as other:
        if loaded:
            load_index(one)
        assert one.search_chunks("a", Scope("report"), Page(limit=5)).results == []
        other.store_memory("report", "a b c d", session_id="s")
        assert len(one.search_chunks("a", Scope("report"), Page(limit=5)).results) == 1


@pytest.mark.parametrize("limit", [0, 101, -1, 10**9])
def test_a_limit_outside_1_to_100_is_refused(store: SessionMemoryStore, limit: int) -> None:
    for search in (store.search_chunks, store.search_sections, store.search_documents, store.search_memories):
        with pytest.raises(ValidationError, match="limit must be an integer from 1 to 100"):
            search("a", Scope("report"), Page(limit=limit))


@pytest.mark.parametrize("query", ["", "  ", "x" * 10_001])
def test_a_query_without_words_or_too_long_is_refused(store: SessionMemoryStore, query: str) -> None:
    with pytest.raises(ValidationError, match="query"):
        store.search_chunks(query, Scope("report"), Page(limit=5))


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
